//! Which server a call uses, and with which token: by flags, then environment, then contexts.

use std::time::Duration;

use hyperfleet_client::{Secret, Settings, Token};
use hyperfleet_service::settings;

use crate::commands::Failure;
use crate::output;
use crate::remote::contexts::{Context, Contexts};

/// The server of a call without flag, variable and context.
pub(crate) const DEFAULT_SERVER: &str = "http://localhost:8000";
/// A token from a file is looked at again after this; from a command, it is asked for once in a call.
pub(super) const TOKEN_TTL: Duration = Duration::from_secs(60);

/// The chosen server, with its token and headers.
pub(super) fn chosen(server: Option<&str>, context: Option<&str>) -> Result<Settings, Failure> {
    let environment = settings::environment();
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
    let mut settings = match (server, context, set("HYPERFLEET_SERVER")) {
        (Some(server), ..) => Settings::of(server),
        (None, Some(name), _) => settings_of(Contexts::load()?.named(name)?),
        (None, None, Some(server)) => Settings::of(server),
        (None, None, None) => {
            let contexts = Contexts::load()?;
            match &contexts.current {
                Some(name) => settings_of(contexts.named(name)?),
                None => Settings::of(DEFAULT_SERVER),
            }
        }
    };
    if let Some(token) = set("HYPERFLEET_TOKEN") {
        settings.token = Some(Token::Fixed(Secret::new(token)));
    }
    Ok(settings)
}

/// How to reach the server of a context.
pub(crate) fn settings_of(context: &Context) -> Settings {
    let token = match (&context.token_file, context.token_command.split_first()) {
        (Some(path), _) => Some(Token::File { path: path.clone(), ttl: TOKEN_TTL }),
        (None, Some((program, arguments))) => Some(Token::Command {
            program: program.into(),
            arguments: arguments.iter().map(Secret::new).collect(),
            ttl: TOKEN_TTL,
        }),
        (None, None) => None,
    };
    Settings {
        token,
        ca_file: context.ca_file.clone(),
        headers: context.headers.clone().into_iter().collect(),
        ..Settings::of(&context.server)
    }
}

/// A token without encryption can be read by everyone on the way.
pub(super) fn warn_of_open_token(settings: &Settings) {
    let Some(rest) = settings.base_url.trim().strip_prefix("http://") else { return };
    let loopback = ["localhost", "127.", "[::1]"].iter().any(|host| rest.starts_with(host));
    if settings.token.is_some() && !loopback {
        output::message(&format!(
            "{} the token goes to this server without encryption",
            output::bold("warning:")
        ));
    }
}
