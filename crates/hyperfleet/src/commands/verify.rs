//! `hyperfleet verify`: whether the database holds together, without stopping anything.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use hyperfleet_api::config::Config;
use hyperfleet_api::server::{rulebook, store_options};
use hyperfleet_service::logging;
use hyperfleet_service::logging::Output;
use hyperfleet_store::Inspector;
use hyperfleet_verify::{Progress, Verification, VerifyError};
use indicatif::ProgressBar;

use super::{Exit, Failure, block_on};
use crate::cli::configuration::{Api, Configuration};
use crate::output::format::{self, Format};
use crate::output::paint::{Tone, paint};
use crate::output::progress_bar::progress_bar;
use crate::output::table::{Cell, Table};
use crate::output::{self, age};
use crate::{BUILD, output::text};

/// Check the database for damage, and exit
///
/// It reads the whole database of this configuration in small batches and changes nothing, while servers go on.
#[derive(Debug, Args)]
#[command(
    after_help = "It ends with 0 when nothing is damaged, with 9 when something is.\n\nTry it:\n  hyperfleet verify --config /etc/hyperfleet/config.yaml"
)]
pub(crate) struct Verify {
    #[arg(long, short, value_name = "FORMAT", value_parser = Format::of_data, help = format::DATA_HELP)]
    output: Option<Format>,
    #[command(flatten)]
    configuration: Configuration<Api>,
}

impl Verify {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        let mut log = config.log_config("verify", BUILD.version);
        log.output = Output::Stderr;
        logging::init(log).map_err(Failure::new)?;
        let rulebook = Arc::new(rulebook(&config).map_err(Failure::usage)?);
        block_on(|mut signals| async move {
            let inspector = Inspector::open(&store_options(&config)).map_err(Failure::usage)?;
            let begun = Instant::now();
            let mut shown = Shown::default();
            let verification = tokio::select! {
                verification = hyperfleet_verify::verify(&inspector, &rulebook, |progress| shown.show(progress)) => {
                    verification.map_err(|error| match error {
                        VerifyError::Schema(error) => Failure::usage(error),
                        VerifyError::Unreachable(_) => Failure::with(Exit::Unreachable, error),
                    })?
                }
                signal = signals.next() => return Ok(ExitCode::from(signal.exit_code())),
            };
            drop(shown);
            print(&verification, self.output.as_ref())?;
            sum_up(&verification, &age::span(begun.elapsed()));
            Ok(if verification.findings.is_empty() { ExitCode::SUCCESS } else { Exit::Damaged.into() })
        })
    }
}

/// The bar of the table that is being read.
#[derive(Debug, Default)]
struct Shown {
    table: &'static str,
    bar: Option<ProgressBar>,
}

impl Shown {
    fn show(&mut self, progress: Progress) {
        let bar = match self.bar.take().filter(|_| self.table == progress.table) {
            Some(bar) => bar,
            None => progress_bar(progress.table, 0),
        };
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        (self.table, self.bar) = (progress.table, Some(bar));
    }
}

fn print(verification: &Verification, format: Option<&Format>) -> Result<(), Failure> {
    let value = serde_json::to_value(verification).map_err(Failure::new)?;
    if let Some(text) = format.and_then(|format| format.value(&value)) {
        output::data(&text.map_err(Failure::usage)?);
        return Ok(());
    }
    let mut table = Table::new(&["check", "table", "id", "expected", "found"]);
    for finding in &verification.findings.findings {
        let values = [&finding.table, &finding.id, &finding.expected, &finding.found];
        let mut cells = vec![Cell::new(finding.check, Tone::Failure)];
        cells.extend(values.map(|value| Cell::plain(value)));
        table.row(cells);
    }
    if !table.is_empty() {
        output::data(&table.render(output::data_colours()));
    }
    Ok(())
}

/// What was read, what was left out, and how many findings there are.
fn sum_up(verification: &Verification, took: &str) {
    for skipped in &verification.skipped {
        output::message(&format!("not verified: {}", text::clean(skipped)));
    }
    let rows = verification.rows.iter().filter(|(_, rows)| **rows > 0);
    let rows: Vec<String> = rows.map(|(table, rows)| format!("{rows} {table}")).collect();
    let read = if rows.is_empty() { "nothing".to_owned() } else { rows.join(", ") };
    let found = verification.findings.checks.iter().filter(|(_, count)| **count > 0);
    let found: Vec<String> = found.map(|(check, count)| format!("{count} of {check}")).collect();
    let colours = output::message_colours();
    let result = match found.as_slice() {
        [] => paint("nothing is damaged", Tone::Good, colours),
        found => paint(&format!("findings: {}", found.join(", ")), Tone::Failure, colours),
    };
    output::message(&format!("read {read} in {took}; {result}"));
}
