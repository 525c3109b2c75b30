//! `hyperfleet wait`: until a condition has a status, or until a resource is gone. The server answers when it holds, without polling.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use hyperfleet_client::{Request, Resource, Waited};
use indicatif::ProgressBar;
use tokio::time::Instant;

use super::apply::common_exit;
use super::{Exit, Failure};
use crate::output;
use crate::output::age;
use crate::output::paint::{Tone, paint};
use crate::output::progress_bar::progress_bar;
use crate::output::text::clean;
use crate::remote::Session;
use crate::remote::session::duration;
use crate::remote::target::{self, FoundResource, Prefer, Within};

/// How many resources are waited for at one time. Each takes a connection here and at the server.
const PARALLEL: usize = 64;
/// The suffix of the conditions of adapters.
const SUCCESSFUL: &str = "Successful";

/// Wait until a condition holds, or until a resource is gone
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet wait cluster prod-1 --for condition=Reconciled --timeout 10m\n  hyperfleet wait cluster/prod-1 --for delete\n\nExit codes: 0 when all hold, 7 when the time is over, 3 when a resource was removed meanwhile, 1 when several end differently."
)]
pub(crate) struct Wait {
    /// KIND NAME..., or KIND/NAME...; an id stands for any name
    #[arg(value_name = "WHAT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    within: Within,
    /// condition=NAME, condition=NAME=True|False, or delete
    #[arg(long = "for", value_name = "WHAT", value_parser = Awaited::parse, default_value = "condition=Reconciled")]
    awaited: Awaited,
    #[command(flatten)]
    timeout: Timeout,
}

/// The flag that bounds a wait.
#[derive(Debug, Args)]
pub(crate) struct Timeout {
    /// How long to wait at the most
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub(crate) timeout: Duration,
}

/// The awaited condition or deletion.
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
            Err("a condition name is required".to_owned())
        } else {
            Ok(Self::Condition(kind.to_owned(), status.to_owned()))
        }
    }

    fn wait_for(&self) -> String {
        match self {
            Self::Condition(kind, status) => format!("{kind}={status}"),
            Self::Deletion => "deleted".to_owned(),
        }
    }
}

impl Wait {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let (awaited, timeout) = (&self.awaited, self.timeout.timeout);
        let found = match target::named(session, &self.words, &self.within, Prefer::Active).await {
            Ok(found) => found,
            // A resource that does not exist counts as deleted.
            Err(failure) if *awaited == Awaited::Deletion && failure.code == u8::from(Exit::NotFound) => {
                output::message(&failure.text);
                return Ok(ExitCode::SUCCESS);
            }
            Err(failure) => return Err(failure),
        };
        if session.prints_curl() {
            for one in &found {
                session.call(Request::wait(&one.item(), &awaited.wait_for(), timeout)).await?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Awaited::Condition(kind, _) = awaited {
            found.iter().for_each(|one| doubt(one, kind));
        }
        Ok(common_exit(&all(session, &found, awaited, timeout).await?))
    }
}

/// A condition may still come, but one that is spelt nearly like another most likely will not.
fn doubt(one: &FoundResource, kind: &str) {
    let conditions = one.resource.conditions();
    let known: Vec<&str> = conditions.iter().map(|condition| condition.kind.as_str()).collect();
    if let Some(meant) = meant(kind, &known) {
        output::message(&clean(&format!(
            "{} has no condition {kind} yet; did you mean {meant}?",
            one.display_name()
        )));
    }
}

/// The condition that was most likely meant. The common suffix of adapters' conditions does not count as similarity.
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

/// Waits for all resources until one deadline, some at a time. A resource whose turn comes later is read once.
/// Failures are printed as they come; their exit codes are returned.
pub(crate) async fn all(
    session: &Session,
    found: &[FoundResource],
    awaited: &Awaited,
    timeout: Duration,
) -> Result<Vec<u8>, Failure> {
    let mut signals = hyperfleet_service::shutdown::signals().map_err(Failure::new)?;
    let deadline = Instant::now() + timeout;
    let waits = futures_util::stream::iter(found).map(|one| async move {
        session.log_request(&format!("GET {}?waitFor={}", one.item(), awaited.wait_for()));
        let left = deadline.saturating_duration_since(Instant::now());
        (one, session.client.get_waiting(&one.item(), &awaited.wait_for(), left).await)
    });
    let mut waits = waits.buffer_unordered(PARALLEL);
    let bar = match found.len() {
        0 | 1 => ProgressBar::hidden(),
        many => progress_bar("Waiting", many),
    };
    let mut failures = Vec::new();
    loop {
        let (one, waited) = tokio::select! {
            waited = waits.next() => match waited {
                Some(waited) => waited,
                None => return Ok(failures),
            },
            signal = signals.next() => {
                let left = found.len() as u64 - bar.position();
                let text = format!("{signal}: {left} of {} still pending", found.len());
                return Err(Failure { text, code: signal.exit_code() });
            }
        };
        let ended = match (waited, awaited) {
            (Err(error), _) => {
                let Failure { text, code } = error.into();
                Err(Failure { text: format!("{}: {text}", one.display_name()), code })
            }
            (Ok(Waited::Holds(_)), _) => Ok(awaited.wait_for()),
            (Ok(Waited::Gone), Awaited::Deletion) => Ok("gone".to_owned()),
            (Ok(Waited::Gone), Awaited::Condition(..)) => {
                Err(Failure::with(Exit::NotFound, format!("{} is gone", one.display_name())))
            }
            (Ok(Waited::TimedOut(resource)), _) => Err(timed_out(one, &resource, awaited, timeout)),
        };
        match ended {
            Ok(what) => print_result(one, &what),
            Err(failure) => {
                output::message(&format!("{} {}", output::red("error:"), failure.text));
                failures.push(failure.code);
            }
        }
        bar.inc(1);
    }
}

fn timed_out(one: &FoundResource, resource: &Resource, awaited: &Awaited, timeout: Duration) -> Failure {
    let state = resource.condition("Reconciled").map(|condition| condition.message).unwrap_or_default();
    let why = if state.is_empty() { String::new() } else { format!("\n  {}", clean(&state)) };
    let expected = match awaited {
        Awaited::Deletion => "deletion".to_owned(),
        Awaited::Condition(..) => awaited.wait_for(),
    };
    let text =
        format!("{}: timed out after {} waiting for {expected}{why}", one.display_name(), age::span(timeout));
    Failure::with(Exit::TimedOut, text)
}

fn print_result(one: &FoundResource, what: &str) {
    let what = paint(&clean(what), Tone::Good, output::data_colours());
    output::data(&format!("{} {what}\n", one.display_name()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_conditions_are_matched_by_the_part_that_differs() {
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
    fn conditions_and_delete_are_parsed_as_awaited_states() {
        for (text, wait_for) in [
            ("condition=Reconciled", "Reconciled=True"),
            ("condition=DnsSuccessful=false", "DnsSuccessful=False"),
            ("delete", "deleted"),
        ] {
            assert_eq!(Awaited::parse(text).unwrap().wait_for(), wait_for);
        }
        for text in ["Reconciled", "condition=", "condition=A=maybe"] {
            assert!(Awaited::parse(text).is_err(), "{text}");
        }
    }
}
