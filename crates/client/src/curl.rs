//! A request as a `curl` command, with secrets as environment variables.

use std::fmt::Write as _;

use http::Method;
use http::header::USER_AGENT;

use crate::client::Client;
use crate::error::Error;
use crate::request::Request;
use crate::send;

/// The command that sends this request. The token is `$HYPERFLEET_TOKEN`, and any other secret header a variable
/// named after it.
pub(crate) fn command(client: &Client, request: &Request) -> Result<String, Error> {
    let mut command = "curl -sS".to_owned();
    if request.method != Method::GET {
        let _ = write!(command, " -X {}", request.method);
    }
    if let Some(file) = &client.shared.ca_file {
        let _ = write!(command, " --cacert {}", quoted(&file.to_string_lossy()));
    }
    if client.shared.tokens.is_some() {
        command.push_str(" -H \"Authorization: Bearer $HYPERFLEET_TOKEN\"");
    }
    for (name, value) in &send::headers(client, request, None) {
        match value.to_str() {
            _ if *name == USER_AGENT => {}
            Ok(value) if !is_secret(client, name.as_str()) => {
                let _ = write!(command, " -H {}", quoted(&format!("{name}: {value}")));
            }
            _ => {
                let variable =
                    name.as_str().to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                let _ = write!(command, " -H \"{name}: ${variable}\"");
            }
        }
    }
    if let Some(body) = &request.body {
        let _ = write!(command, " --data-binary {}", quoted(&String::from_utf8_lossy(body)));
    }
    let _ = write!(command, " {}", quoted(&send::url(client, request)?));
    Ok(command)
}

fn is_secret(client: &Client, name: &str) -> bool {
    client.shared.headers.get(name).is_some_and(http::HeaderValue::is_sensitive)
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collection, Secret, Settings, Token};
    use proptest::prelude::*;
    use serde_json::json;

    fn client() -> Client {
        Client::new(Settings {
            token: Some(Token::Fixed(Secret::new("hush-1"))),
            headers: vec![("X-Org".into(), "acme".into()), ("X-Adapter-Token".into(), "hush-2".into())],
            ..Settings::of("https://h.example")
        })
        .unwrap()
    }

    #[test]
    fn a_request_is_shown_without_its_secrets() {
        let mut request = Request::create(&Collection::of("clusters"), &json!({"name": "it's"}), true);
        request.headers.remove("idempotency-key");
        assert_eq!(
            client().describe(&request).unwrap(),
            "curl -sS -X POST -H \"Authorization: Bearer $HYPERFLEET_TOKEN\" -H 'x-org: acme' \
             -H \"x-adapter-token: $X_ADAPTER_TOKEN\" -H 'accept: application/json, application/problem+json' \
             -H 'content-type: application/json' --data-binary '{\"name\":\"it'\\''s\"}' \
             'https://h.example/api/hyperfleet/v1/clusters?dryRun=true'"
        );
    }

    #[test]
    fn a_curl_command_names_the_ca_file() {
        let client = Client::new(Settings {
            ca_file: Some("/etc/our own/ca.pem".into()),
            ..Settings::of("http://h.example")
        });
        let shown = client.unwrap().describe(&Request::get("/clusters")).unwrap();
        assert!(shown.starts_with("curl -sS --cacert '/etc/our own/ca.pem' "), "{shown}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_shell_reads_back_what_was_quoted(text in "[^\u{0}]*") {
            let run = std::process::Command::new("/bin/sh").args(["-c", &format!("printf %s {}", quoted(&text))]).output();
            prop_assert_eq!(String::from_utf8(run.unwrap().stdout).unwrap(), text);
        }
    }
}
