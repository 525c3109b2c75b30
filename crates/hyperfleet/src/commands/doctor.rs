//! `hyperfleet doctor`: whether this machine, the settings and the server go together, one line for each thing that
//! often does not, with what to do about it. It changes nothing.

mod checks;

use std::cell::Cell;
use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::Request;
use hyperfleet_core::Timestamp;
use hyperfleet_service::settings;
use serde_json::{Value, json};

use super::{Exit, Failure};
use crate::output;
use crate::output::format::{self, Format};
use crate::output::paint::{paint, unpainted};
use crate::output::text::clean;
use crate::remote::contexts::{self, Contexts};
use crate::remote::{Connection, Remote, Session};

use checks::{Check, Level, clock, encryption, identity, unreachable, version};

const METADATA: &str = "/api/hyperfleet/metadata";
const HEALTH: &str = "/api/hyperfleet/health";
const WHOAMI: &str = "/whoami";

/// Check that this machine, the settings and the server go together
#[derive(Debug, Args)]
#[command(after_help = "It ends with 0 when nothing is wrong; warnings do not count.")]
pub(crate) struct Doctor {
    #[arg(long, short, value_name = "FORMAT", value_parser = Format::of_data, help = format::DATA_HELP)]
    output: Option<Format>,
}

pub(crate) fn run(remote: &Remote<Doctor>) -> Result<ExitCode, Failure> {
    let format = remote.command.output.as_ref();
    let opened = Cell::new(false);
    let ended = remote.run(async |_, session| {
        opened.set(true);
        if session.prints_curl() {
            for path in [METADATA, HEALTH, WHOAMI] {
                session.call(Request::get(path)).await?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut checks = vec![Check::fine("settings", origin(session, &remote.connection))];
        checks.extend(examine(session).await);
        print(&checks, format)
    });
    match ended {
        Err(failure) if !opened.get() => {
            let place = contexts::path().map(|path| path.display().to_string()).unwrap_or_default();
            let fix = format!("see `hyperfleet context list`, `hyperfleet login`, and {place}");
            print(&[Check::fail("settings", Exit::Usage, failure.text, fix)], format)
        }
        ended => ended,
    }
}

/// The server, and the sources of its URL and of the token.
fn origin(session: &Session, connection: &Connection) -> String {
    let set = |name: &str| settings::environment().get(name).is_some_and(|value| !value.is_empty());
    let contexts = Contexts::load().unwrap_or_default();
    let (by, context) = match (&connection.context, &contexts.current) {
        _ if connection.server.is_some() => ("--server".to_owned(), None),
        (Some(name), _) => (format!("--context {name}"), Some(name)),
        _ if set("HYPERFLEET_SERVER") => ("HYPERFLEET_SERVER".to_owned(), None),
        (None, Some(name)) => (format!("the current context, {name}"), Some(name)),
        (None, None) => ("default".to_owned(), None),
    };
    let context = context.and_then(|name| contexts.all.get(name));
    let token = match context {
        _ if connection.token_file.is_some() => "by --token-file",
        _ if set("HYPERFLEET_TOKEN") => "by HYPERFLEET_TOKEN",
        Some(context) if context.token_file.is_some() => "by the context's token_file",
        Some(context) if !context.token_command.is_empty() => "by the context's token_command",
        _ => "none",
    };
    format!("{} by {by}; token: {token}", session.client.base_url())
}

/// The checks of the server. A check that depends on one that failed is left out.
async fn examine(session: &Session) -> Vec<Check> {
    let mut checks = Vec::new();
    let answer = match session.fetch(Request::get(METADATA)).await {
        Ok(answer) => answer,
        Err(error) => return vec![unreachable(&error)],
    };
    checks.push(Check::fine("server", "answers"));
    checks.push(encryption(&session.client.base_url()));
    checks.push(version(&answer));
    checks.extend(clock(&answer, Timestamp::now()));
    checks.push(match session.fetch(Request::get(HEALTH)).await {
        Ok(_) => Check::fine("readiness", "the server is ready"),
        Err(error) => Check::fail(
            "readiness",
            Exit::Unreachable,
            error.to_string(),
            "look at the server's log and at its database",
        ),
    });
    let who = session.fetch(Request::get(WHOAMI)).await.and_then(|answer| answer.json());
    let known = identity(who);
    let is_known = !matches!(known.level, Level::Fail(_));
    checks.push(known);
    if is_known {
        checks.push(match session.kinds().await {
            Ok(kinds) if kinds.all().is_empty() => {
                Check::warn("kinds", "none", "configure `entities` of the server")
            }
            Ok(kinds) => {
                let plurals: Vec<&str> = kinds.all().iter().map(|kind| kind.plural.as_str()).collect();
                Check::fine("kinds", plurals.join(", "))
            }
            Err(failure) => {
                Check::fail("kinds", failure.code, unpainted(&failure.text), "look at the server's log")
            }
        });
    }
    checks
}

/// Prints every check; the exit code is that of the first that failed.
fn print(checks: &[Check], format: Option<&Format>) -> Result<ExitCode, Failure> {
    let worst = checks.iter().find_map(|check| match check.level {
        Level::Fail(exit) => Some(exit),
        Level::Fine | Level::Warn => None,
    });
    let code = worst.map_or(ExitCode::SUCCESS, ExitCode::from);
    let data: Vec<Value> = checks
        .iter()
        .map(|check| {
            json!({"check": check.what, "level": check.level.word(), "found": check.found, "fix": check.fix})
        })
        .collect();
    if let Some(text) = format.and_then(|format| format.value(&Value::Array(data))) {
        output::data(&text.map_err(Failure::usage)?);
        return Ok(code);
    }
    let colours = output::data_colours();
    for check in checks {
        let level = paint(&format!("{:<4}", check.level.word()), check.level.tone(), colours);
        let found = clean(check.found.lines().next().unwrap_or_default()).into_owned();
        output::data(&format!("{level}  {:<10}  {found}\n", check.what));
        if let Some(fix) = &check.fix {
            output::data(&format!("{:18}→ {}\n", "", clean(fix)));
        }
    }
    Ok(code)
}
