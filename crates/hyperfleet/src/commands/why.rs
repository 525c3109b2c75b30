//! `hyperfleet why`: why a resource is not done, who is in the way, and what would help.

pub(crate) mod advice;

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use hyperfleet_client::{Explanation, Request};
use hyperfleet_core::Timestamp;

use super::Failure;
use crate::output::form::Form;
use crate::output::paint::{Tone, paint};
use crate::output::text::clean;
use crate::output::{self};
use crate::remote::owners::Owners;
use crate::remote::resources::{data_argument, since};
use crate::remote::target::{self, Prefer};
use crate::remote::{Session, session};

use advice::Advice;

pub(crate) fn command() -> Command {
    let command = Command::new("why")
        .about("Tell why a resource is not done, and what would help")
        .args([target::one(), target::within(), data_argument()])
        .after_help("Try it:\n  hyperfleet why cluster prod-1");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let found = target::single(session, matches, Prefer::Active).await?;
    let Some(answer) = session.call(Request::explain(&found.item())).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let form = matches.get_one::<Form>("output");
    if let Some(text) = form.and_then(|form| answer.json().ok().and_then(|value| form.value(&value))) {
        output::data(&text.map_err(Failure::usage)?);
        return Ok(ExitCode::SUCCESS);
    }
    let explanation: Explanation = answer.json()?;
    let tone = match explanation.phase.as_str() {
        "Reconciled" => Tone::Good,
        "Stuck" | "Degraded" => Tone::Bad,
        _ => Tone::Pending,
    };
    let colours = output::data_colours();
    let head =
        format!("{}  {}\n", paint(&clean(&explanation.phase), tone, colours), clean(&explanation.summary));
    let owners = Owners::around(session, &found.resource, &advice::ids(&explanation)).await?;
    let advice = Advice::new(session.kinds().await?, &owners, &found.resource, matches);
    output::data(&format!("{head}{}", blockers(&explanation, &advice, Timestamp::now())));
    Ok(ExitCode::SUCCESS)
}

/// What is in the way, worst first, each with what to do about it.
pub(crate) fn blockers(explanation: &Explanation, advice: &Advice<'_>, now: Timestamp) -> String {
    let colours = output::data_colours();
    explanation
        .blockers
        .iter()
        .map(|blocker| {
            let who = paint(&clean(&format!("{} {}", blocker.kind, blocker.name)), Tone::Strong, colours);
            let age = match blocker.since {
                Some(_) => paint(&format!(" (since {})", since(blocker.since, now)), Tone::Faint, colours),
                None => String::new(),
            };
            format!(
                "• {who}{age}: {}\n  → {}\n",
                clean(&blocker.detail),
                clean(&advice.spoken(&blocker.action))
            )
        })
        .collect()
}
