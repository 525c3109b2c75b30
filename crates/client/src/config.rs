//! How the API is reached, as settings below `clients.hyperfleet_api`. A role that talks to the API puts [`KEYS`] into
//! its own table and reads the view from its settings.

use hyperfleet_service::settings::{Faults, Form, Key, Secret, Settings as Configured, key};
use serde_json::Value;
use std::path::PathBuf;

use crate::settings::Settings;
use crate::token::Token;

const HEADERS: &str = "clients.hyperfleet_api.headers";

/// The keys below `clients.hyperfleet_api`.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    Key { secret: Secret::Url, ..key("clients.hyperfleet_api.base_url", Form::NonEmpty, "http://localhost:8000", "Where the API is.") },
    key("clients.hyperfleet_api.timeout", Form::SOME_TIME, "10s", "Time for one answer of the API."),
    key("clients.hyperfleet_api.ca_file", Form::Text, "", "File of certificate authorities to trust, in PEM; empty for those of the system."),
    Key { secret: Secret::Values, ..key(HEADERS, Form::Structured, "{}", "Headers of every request, such as the one that marks a system caller where there are tenants.") },
    key("clients.hyperfleet_api.auth.token_path", Form::Text, "", "File with the token for the API."),
    key("clients.hyperfleet_api.auth.token_cache_ttl", Form::SOME_TIME, "5m", "How long a token is used before its file is read again."),
];

/// The view of settings whose table holds [`KEYS`].
pub fn of(configured: &Configured, user_agent: &str, faults: &mut Faults) -> Settings {
    let token = configured.some_text("clients.hyperfleet_api.auth.token_path").map(|path| Token::File {
        path: PathBuf::from(path),
        ttl: configured.duration("clients.hyperfleet_api.auth.token_cache_ttl"),
    });
    let mut headers = Vec::new();
    match configured.structured(HEADERS) {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(value) => headers.push((name.clone(), value.clone())),
                    Value::Bool(value) => headers.push((name.clone(), value.to_string())),
                    _ => faults.push(configured.fault(HEADERS, format!("{name} must be text"))),
                }
            }
        }
        _ => faults.push(configured.fault(HEADERS, "must be a mapping of names to values")),
    }
    Settings {
        timeout: configured.duration("clients.hyperfleet_api.timeout"),
        token,
        ca_file: configured.some_text("clients.hyperfleet_api.ca_file").map(PathBuf::from),
        user_agent: user_agent.to_owned(),
        headers,
        ..Settings::of(configured.text("clients.hyperfleet_api.base_url"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_key() {
        let page = include_str!("../../../docs/reference/configuration.md");
        let table = hyperfleet_service::settings::markdown(KEYS);
        assert!(
            page.contains(&format!("\n\n{table}\n")),
            "docs/reference/configuration.md must have:\n{table}"
        );
    }
}
