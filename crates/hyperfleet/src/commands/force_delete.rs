//! `hyperfleet force-delete`: removes a finalizing resource without waiting for adapters. What its adapters have created may
//! stay behind, so it requires a reason and a confirmation.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::Request;

use super::Failure;
use super::apply::DRY_RUN;
use super::delete::YES;
use crate::output;
use crate::output::confirm::confirm;
use crate::output::paint::{Tone, paint};
use crate::remote::Session;
use crate::remote::target::{self, Prefer};

/// Remove a finalizing resource without waiting for adapters
///
/// Everything below it is removed too. What adapters have created may stay behind. The reason is kept in the timeline.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet why cluster prod-1\n  hyperfleet force-delete cluster prod-1 --reason 'the dns adapter is retired'"
)]
pub(crate) struct ForceDelete {
    #[command(flatten)]
    target: target::One,
    /// The reason, which the timeline keeps
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[arg(long, short, help = YES)]
    yes: bool,
    #[arg(long, help = DRY_RUN)]
    dry_run: bool,
}

impl ForceDelete {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.target.find(session, Prefer::Finalizing).await?;
        let dry = self.dry_run;
        let asks = !session.prints_curl() && !dry && !self.yes;
        if asks
            && !confirm(&format!(
                "Remove {} with all below it, and leave behind what its adapters made?",
                found.display_name()
            ))?
        {
            output::message("nothing was removed");
            return Ok(ExitCode::SUCCESS);
        }
        if session.call(Request::force_delete(&found.item(), &self.reason, dry)).await?.is_some() {
            let verb = if dry { "would be removed (dry run)" } else { "removed" };
            output::data(&format!(
                "{} {}\n",
                found.display_name(),
                paint(verb, Tone::Bad, output::data_colours())
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
