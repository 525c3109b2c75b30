//! `hyperfleet report`: reports as an adapter would, for trials and for adapters that are shell scripts.

use std::process::ExitCode;

use clap::{Args, ValueEnum, value_parser};
use hyperfleet_client::{AdapterReport, NewCondition, NewReport, Request, Status};

use super::apply::DRY_RUN;
use super::{Failure, create};
use crate::output;
use crate::output::format::{self, Format};
use crate::output::paint::{Tone, paint};
use crate::remote::Session;
use crate::remote::target::{self, Prefer};

/// Report on a resource as an adapter would
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet report cluster prod-1 --adapter dns\n  hyperfleet report cluster prod-1 --adapter dns --available false --reason QuotaExceeded"
)]
pub(crate) struct Report {
    #[command(flatten)]
    target: target::One,
    /// Name of the adapter
    #[arg(long, value_name = "NAME")]
    adapter: String,
    /// Whether the desired state is in place [true]
    #[arg(long, value_name = "STATUS", ignore_case = true, default_value = "true")]
    available: StatusWord,
    /// Whether the desired state was applied [true]
    #[arg(long, value_name = "STATUS", ignore_case = true, default_value = "true")]
    applied: StatusWord,
    /// Whether the adapter itself is healthy [true]
    #[arg(long, value_name = "STATUS", ignore_case = true, default_value = "true")]
    health: StatusWord,
    /// In a deletion: whether everything is cleaned up
    #[arg(long, value_name = "STATUS", ignore_case = true)]
    finalized: Option<StatusWord>,
    /// Reason of Available
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
    /// Message of Available
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// A further condition; may be given again
    #[arg(long = "condition", value_name = "TYPE=STATUS", value_parser = condition)]
    conditions: Vec<NewCondition>,
    /// Generation of the report [default: the current one]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(i64).range(1..))]
    generation: Option<i64>,
    /// Data of the report, as JSON or YAML, or @FILE
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    #[arg(long, help = DRY_RUN)]
    dry_run: bool,
    #[arg(long, short, value_name = "FORMAT", value_parser = Format::of_data, help = format::DATA_HELP)]
    output: Option<Format>,
}

/// The status of a condition, in any case.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StatusWord {
    True,
    False,
    Unknown,
}

impl From<StatusWord> for Status {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::True => Self::True,
            StatusWord::False => Self::False,
            StatusWord::Unknown => Self::Unknown,
        }
    }
}

/// `TYPE=STATUS`.
fn condition(text: &str) -> Result<NewCondition, String> {
    let (kind, status) = text.split_once('=').ok_or("a condition is written as TYPE=STATUS")?;
    let status = StatusWord::from_str(status, true).map_err(|_| "a status is true, false or unknown")?;
    Ok(NewCondition::new(kind, status.into()))
}

impl Report {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.target.find(session, Prefer::Active).await?;
        let available = NewCondition {
            reason: self.reason.clone(),
            message: self.message.clone(),
            ..NewCondition::new("Available", self.available.into())
        };
        let mut conditions = vec![
            available,
            NewCondition::new("Applied", self.applied.into()),
            NewCondition::new("Health", self.health.into()),
        ];
        conditions.extend(self.finalized.map(|status| NewCondition::new("Finalized", status.into())));
        conditions.extend(self.conditions.iter().cloned());
        let report = NewReport {
            adapter: self.adapter.clone(),
            observed_generation: self.generation.unwrap_or_else(|| found.resource.generation()),
            observed_time: None,
            conditions,
            data: self.data.as_ref().map(|data| create::value(data, "--data")).transpose()?,
            metadata: None,
        };
        let dry = self.dry_run;
        let Some(answer) = session.call(Request::report(&found.item(), &report, dry)).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        if answer.status.as_u16() == 204 {
            let verb = paint("discarded", Tone::Pending, output::data_colours());
            output::data(&format!(
                "{} report of {} {verb}\n",
                found.display_name(),
                output::text::clean(&report.adapter)
            ));
            output::message(
                "the server has a newer report, or has one already that Available=Unknown does not replace",
            );
            return Ok(ExitCode::SUCCESS);
        }
        let stored: AdapterReport = answer.json()?;
        let value = serde_json::Value::Object(stored.raw().clone());
        match self.output.as_ref().and_then(|format| format.value(&value)) {
            Some(text) => output::data(&text.map_err(Failure::usage)?),
            None => {
                let verb = if dry { "would be stored (dry run)" } else { "stored" };
                let verb = paint(verb, Tone::Good, output::data_colours());
                output::data(&format!(
                    "{} report of {} {verb}\n",
                    found.display_name(),
                    output::text::clean(stored.adapter())
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
