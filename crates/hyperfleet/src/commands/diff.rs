//! `hyperfleet diff`: what `apply` would change, without changing anything.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::Resource;
use hyperfleet_core::{FieldChange, diff, merge};
use serde_json::{Value, json};

use super::apply::plan::{self, Lookup, Lookups, Step};
use super::apply::{common_exit, desired, print_failure, write};
use super::{Exit, Failure};
use crate::output::format::{self, Format};
use crate::output::paint::{Tone, paint};
use crate::output::text::clean;
use crate::output::{self, json};
use crate::remote::Session;
use crate::remote::change::present;
use crate::remote::documents::Files;

/// Show what `apply` would change
#[derive(Debug, Args)]
#[command(
    after_help = "It ends with 0 when there is no difference, and with 8 when something differs.\n\nTry it:\n  hyperfleet diff -f fleet.yaml"
)]
pub(crate) struct Diff {
    #[command(flatten)]
    files: Files,
    /// As `apply --replace` would
    #[arg(long)]
    replace: bool,
    #[arg(long, short, value_name = "FORMAT", value_parser = Format::of_data, help = format::DATA_HELP)]
    output: Option<Format>,
}

impl Diff {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let levels = plan::levels(session.kinds().await?, self.files.read()?)?;
        let lookups = RefCell::new(Lookups::default());
        let mut differences = Vec::new();
        let mut failures = Vec::new();
        for level in &levels {
            let existing = write::existing(session, &lookups, level).await?;
            for step in level {
                let owner =
                    step.owner.as_ref().and_then(|(kind, path)| lookups.borrow().get(kind, path).cloned());
                let there = existing.resource(step, owner.as_ref());
                match changes(session, &lookups, step, there, self.replace).await {
                    Ok(changes) => {
                        if there.is_none() {
                            lookups.borrow_mut().record(&step.kind, &step.path(), Lookup::Planned);
                        }
                        if there.is_none() || !changes.is_empty() {
                            differences.push((step.display_name(), there.is_none(), changes));
                        }
                    }
                    Err(failure) => {
                        print_failure(&step.display_name(), &failure);
                        failures.push(failure.code);
                    }
                }
            }
        }
        print(&differences, self.output.as_ref())?;
        Ok(match (failures.is_empty(), differences.is_empty()) {
            (false, _) => common_exit(&failures),
            (true, true) => ExitCode::SUCCESS,
            (true, false) => Exit::Differs.into(),
        })
    }
}

async fn changes(
    session: &Session,
    lookups: &RefCell<Lookups>,
    step: &Step,
    there: Option<&Resource>,
    replace: bool,
) -> Result<Vec<FieldChange>, Failure> {
    let body = desired::desired(session, lookups, step).await?.body;
    let patch = match there {
        Some(resource) => write::patch(resource, &body, replace),
        None => body,
    };
    let mut changes = Vec::new();
    for (member, desired) in &patch {
        let before = there.map_or_else(|| json!({}), |resource| present(resource, member));
        let mut after = before.clone();
        merge(&mut after, desired);
        changes.extend(diff(member, &before, &after));
    }
    Ok(changes)
}

fn print(differences: &[(String, bool, Vec<FieldChange>)], format: Option<&Format>) -> Result<(), Failure> {
    let data = differences.iter().map(
        |(display_name, new, changes)| json!({"resource": display_name, "new": new, "changes": changes}),
    );
    if let Some(text) = format.and_then(|format| format.value(&Value::Array(data.collect()))) {
        output::data(&text.map_err(Failure::usage)?);
        return Ok(());
    }
    let colours = output::data_colours();
    let mut out = String::new();
    for (display_name, new, changes) in differences {
        let new = if *new { " (new)" } else { "" };
        out.push_str(&format!("{}{new}\n", paint(display_name, Tone::Strong, colours)));
        for change in changes {
            let line = |sign: char, value: &Value| {
                format!("  {sign} {}: {}", clean(&change.path), json::compact(value))
            };
            if let Some(from) = &change.from {
                out.push_str(&format!("{}\n", paint(&line('-', from), Tone::Bad, colours)));
            }
            if let Some(to) = &change.to {
                out.push_str(&format!("{}\n", paint(&line('+', to), Tone::Good, colours)));
            }
        }
    }
    output::data(&out);
    Ok(())
}
