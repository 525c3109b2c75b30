//! `hyperfleet wait`: until a condition has a status, or until a resource is gone. The server tells when, nobody polls.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use futures_util::StreamExt as _;
use hyperfleet_client::{Request, Resource, Waited};
use tokio::time::Instant;

use super::apply::common_exit;
use super::{Exit, Failure};
use crate::output;
use crate::output::bar::Bar;
use crate::output::paint::{Tone, paint};
use crate::output::text::clean;
use crate::remote::session::{duration, spoken};
use crate::remote::target::{self, Found, Prefer};
use crate::remote::{Session, session};

/// Each is a connection, of which neither this machine nor the server has any number.
const PARALLEL: usize = 64;
/// What the conditions of adapters end in.
const SUCCESSFUL: &str = "Successful";

pub(crate) fn command() -> Command {
    let command = Command::new("wait")
        .about("Wait until a condition holds, or until a resource is gone")
        .args([
            target::words("KIND NAME..., or KIND/NAME...; an id stands for any name"),
            target::within(),
            Arg::new("for").long("for").value_name("WHAT").default_value("condition=Reconciled").value_parser(Awaited::parse).help("condition=NAME, condition=NAME=True|False, or delete"),
            timeout(),
        ])
        .after_help("Try it:\n  hyperfleet wait cluster prod-1 --for condition=Reconciled --timeout 10m\n  hyperfleet wait cluster/prod-1 --for delete\n\nIt ends with 0 when all hold, with 7 when the time is over, and with 3 when one is gone that should not be; with 1 when several end differently.");
    session::arguments(command)
}

/// `--timeout`.
pub(crate) fn timeout() -> Arg {
    Arg::new("timeout")
        .long("timeout")
        .value_name("DURATION")
        .value_parser(duration)
        .default_value("5m")
        .help("How long to wait at the most")
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    Condition(String, String),
    Deletion,
}

impl Awaited {
    fn parse(text: &str) -> Result<Self, String> {
        if matches!(text, "delete" | "deleted" | "deletion") {
            return Ok(Self::Deletion);
        }
        let rest =
            text.strip_prefix("condition=").ok_or("condition=NAME, condition=NAME=STATUS, or delete")?;
        let (kind, status) = rest.split_once('=').unwrap_or((rest, "True"));
        let status = match status.to_ascii_lowercase().as_str() {
            "true" => "True",
            "false" => "False",
            "unknown" => "Unknown",
            _ => return Err("a status is True, False or Unknown".to_owned()),
        };
        if kind.is_empty() {
            Err("which condition?".to_owned())
        } else {
            Ok(Self::Condition(kind.to_owned(), status.to_owned()))
        }
    }

    fn spelt(&self) -> String {
        match self {
            Self::Condition(kind, status) => format!("{kind}={status}"),
            Self::Deletion => "deleted".to_owned(),
        }
    }
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let awaited = matches.get_one::<Awaited>("for").cloned().unwrap_or(Awaited::Deletion);
    let timeout = matches.get_one::<Duration>("timeout").copied().unwrap_or_default();
    let found = match target::several(session, matches, Prefer::Active).await {
        Ok(found) => found,
        // What is not there is as gone as it can be.
        Err(failure) if awaited == Awaited::Deletion && failure.code == u8::from(Exit::NotFound) => {
            output::talk(&failure.text);
            return Ok(ExitCode::SUCCESS);
        }
        Err(failure) => return Err(failure),
    };
    if session.prints_curl() {
        for one in &found {
            session.call(Request::wait(&one.item(), &awaited.spelt(), timeout)).await?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Awaited::Condition(kind, _) = &awaited {
        found.iter().for_each(|one| doubt(one, kind));
    }
    Ok(common_exit(&all(session, &found, &awaited, timeout).await?))
}

/// A condition may still come, but one that is spelt nearly like another most likely will not.
fn doubt(one: &Found, kind: &str) {
    let conditions = one.resource.conditions();
    let known: Vec<&str> = conditions.iter().map(|condition| condition.kind.as_str()).collect();
    if let Some(meant) = meant(kind, &known) {
        output::talk(&clean(&format!("{} has no condition {kind} yet; did you mean {meant}?", one.called())));
    }
}

/// The condition that was most likely meant. What all adapters' conditions end in makes no two of them alike.
fn meant<'a>(kind: &str, known: &[&'a str]) -> Option<&'a str> {
    if known.contains(&kind) {
        return None;
    }
    let near = hyperfleet_core::nearest(stem(kind), known.iter().map(|known| stem(known)))?;
    known.iter().copied().find(|known| stem(known) == near)
}

fn stem(kind: &str) -> &str {
    kind.strip_suffix(SUCCESSFUL).unwrap_or(kind)
}

/// Waits for all of them until one moment, some at a time: of those whose turn comes after it, each is looked at once.
/// Failures are told as they come; their exit codes come back.
pub(crate) async fn all(
    session: &Session,
    found: &[Found],
    awaited: &Awaited,
    timeout: Duration,
) -> Result<Vec<u8>, Failure> {
    let mut signals = hyperfleet_service::shutdown::signals().map_err(Failure::new)?;
    let deadline = Instant::now() + timeout;
    let waits = futures_util::stream::iter(found).map(|one| async move {
        session.tell(&format!("GET {}?waitFor={}", one.item(), awaited.spelt()));
        let left = deadline.saturating_duration_since(Instant::now());
        (one, session.client.get_waiting(&one.item(), &awaited.spelt(), left).await)
    });
    let mut waits = waits.buffer_unordered(PARALLEL);
    let mut bar = if found.len() > 1 { Bar::new("Waiting", found.len()) } else { Bar::unseen(found.len()) };
    let mut failures = Vec::new();
    loop {
        let (one, waited) = tokio::select! {
            waited = waits.next() => match waited {
                Some(waited) => waited,
                None => return Ok(failures),
            },
            signal = signals.next() => {
                let left = found.len() - bar.done();
                let text = format!("{signal}: {left} of {} were still waited for", found.len());
                return Err(Failure { text, code: signal.exit_code() });
            }
        };
        let ended = match (waited, awaited) {
            (Err(error), _) => {
                let Failure { text, code } = error.into();
                Err(Failure { text: format!("{}: {text}", one.called()), code })
            }
            (Ok(Waited::Holds(_)), _) => Ok(awaited.spelt()),
            (Ok(Waited::Gone), Awaited::Deletion) => Ok("gone".to_owned()),
            (Ok(Waited::Gone), Awaited::Condition(..)) => {
                Err(Failure::with(Exit::NotFound, format!("{} is gone", one.called())))
            }
            (Ok(Waited::TimedOut(resource)), _) => Err(timed_out(one, &resource, awaited, timeout)),
        };
        match ended {
            Ok(what) => told(one, &what),
            Err(failure) => {
                output::talk(&format!("{} {}", output::red("error:"), failure.text));
                failures.push(failure.code);
            }
        }
        bar.advance();
    }
}

fn timed_out(one: &Found, resource: &Resource, awaited: &Awaited, timeout: Duration) -> Failure {
    let state = resource.condition("Reconciled").map(|condition| condition.message).unwrap_or_default();
    let why = if state.is_empty() { String::new() } else { format!("\n  {}", clean(&state)) };
    let missed = match awaited {
        Awaited::Deletion => "is still there".to_owned(),
        Awaited::Condition(..) => format!("has no {}", awaited.spelt()),
    };
    Failure::with(Exit::TimedOut, format!("{} {missed} after {}{why}", one.called(), spoken(timeout)))
}

fn told(one: &Found, what: &str) {
    let what = paint(&clean(what), Tone::Good, output::data_colours());
    output::data(&format!("{} {what}\n", one.called()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_alike_by_what_they_do_not_share() {
        let known = ["Reconciled", "ValidatorSuccessful", "DnsSuccessful"];
        for (kind, likely) in [
            ("Reconcild", Some("Reconciled")),
            ("DnSuccessful", Some("DnsSuccessful")),
            ("Validator", Some("ValidatorSuccessful")),
            ("NetSuccessful", None),
            ("DnsSuccessful", None),
        ] {
            assert_eq!(meant(kind, &known), likely, "{kind}");
        }
    }

    #[test]
    fn what_to_wait_for_is_read_as_people_write_it() {
        for (text, spelt) in [
            ("condition=Reconciled", "Reconciled=True"),
            ("condition=DnsSuccessful=false", "DnsSuccessful=False"),
            ("delete", "deleted"),
        ] {
            assert_eq!(Awaited::parse(text).unwrap().spelt(), spelt);
        }
        for text in ["Reconciled", "condition=", "condition=A=maybe"] {
            assert!(Awaited::parse(text).is_err(), "{text}");
        }
    }
}
