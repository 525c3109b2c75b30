//! `hyperfleet why`: what blocks a resource, and what to do.

pub(crate) mod advice;

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::{Explanation, Request};
use hyperfleet_core::Timestamp;

use super::Failure;
use crate::output::format::{self, Format};
use crate::output::paint::{Tone, paint};
use crate::output::text::clean;
use crate::output::{self};
use crate::remote::Session;
use crate::remote::owners::Owners;
use crate::remote::resources::since;
use crate::remote::target::{self, Prefer};

use advice::Advice;

/// Explain what blocks a resource, and what to do
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  hyperfleet why cluster prod-1")]
pub(crate) struct Why {
    #[command(flatten)]
    target: target::One,
    #[arg(long, short, value_name = "FORMAT", value_parser = Format::of_data, help = format::DATA_HELP)]
    output: Option<Format>,
}

impl Why {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.target.find(session, Prefer::Active).await?;
        let Some(answer) = session.call(Request::explain(&found.item())).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        if let Some(text) =
            self.output.as_ref().and_then(|format| answer.json().ok().and_then(|value| format.value(&value)))
        {
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
        let head = format!(
            "{}  {}\n",
            paint(&clean(&explanation.phase), tone, colours),
            clean(&explanation.summary)
        );
        let owners = Owners::of_related(session, &found.resource, &advice::ids(&explanation)).await?;
        let advice = Advice::new(session.kinds().await?, &owners, &found.resource, &self.target.words);
        output::data(&format!("{head}{}", blockers(&explanation, &advice, Timestamp::now())));
        Ok(ExitCode::SUCCESS)
    }
}

/// The blockers, worst first, each with its action.
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
                clean(&advice.as_commands(&blocker.action))
            )
        })
        .collect()
}
