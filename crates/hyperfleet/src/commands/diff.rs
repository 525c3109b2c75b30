//! `hyperfleet diff`: what `apply` would change, without changing anything.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use hyperfleet_client::Resource;
use hyperfleet_core::{FieldChange, diff, merge};
use serde_json::{Value, json};

use super::apply::plan::{self, Known, Place, Step};
use super::apply::{common_exit, tell_failure, wish, write};
use super::{Exit, Failure};
use crate::output::form::Form;
use crate::output::paint::{Tone, paint};
use crate::output::text::clean;
use crate::output::{self, json};
use crate::remote::change::present;
use crate::remote::resources::data_argument;
use crate::remote::{Session, documents, session};

pub(crate) fn command() -> Command {
    let command = Command::new("diff")
        .about("Show what `apply` would change")
        .args(documents::arguments())
        .args([
            Arg::new("replace").long("replace").action(ArgAction::SetTrue).help("As `apply --replace` would"),
            data_argument(),
        ])
        .after_help("It ends with 0 when everything is as wished, and with 8 when something differs.\n\nTry it:\n  hyperfleet diff -f fleet.yaml");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let levels = plan::levels(session.kinds().await?, documents::read_all(matches)?)?;
    let replace = matches.get_flag("replace");
    let known = RefCell::new(Known::default());
    let mut differences = Vec::new();
    let mut failures = Vec::new();
    for level in &levels {
        let situation = write::situation(session, &known, level).await?;
        for step in level {
            let owner = step.owner.as_ref().and_then(|(kind, path)| known.borrow().get(kind, path).cloned());
            let there = situation.resource(step, owner.as_ref());
            match changes(session, &known, step, there, replace).await {
                Ok(changes) => {
                    if there.is_none() {
                        known.borrow_mut().learn(&step.kind, &step.path(), Place::Pretended);
                    }
                    if there.is_none() || !changes.is_empty() {
                        differences.push((step.called(), there.is_none(), changes));
                    }
                }
                Err(failure) => {
                    tell_failure(&step.called(), &failure);
                    failures.push(failure.code);
                }
            }
        }
    }
    print(&differences, matches.get_one::<Form>("output"))?;
    Ok(match (failures.is_empty(), differences.is_empty()) {
        (false, _) => common_exit(&failures),
        (true, true) => ExitCode::SUCCESS,
        (true, false) => Exit::Differs.into(),
    })
}

async fn changes(
    session: &Session,
    known: &RefCell<Known>,
    step: &Step,
    there: Option<&Resource>,
    replace: bool,
) -> Result<Vec<FieldChange>, Failure> {
    let body = wish::wish(session, known, step).await?.body;
    let patch = match there {
        Some(resource) => write::patch(resource, &body, replace),
        None => body,
    };
    let mut changes = Vec::new();
    for (member, wished) in &patch {
        let before = there.map_or_else(|| json!({}), |resource| present(resource, member));
        let mut after = before.clone();
        merge(&mut after, wished);
        changes.extend(diff(member, &before, &after));
    }
    Ok(changes)
}

fn print(differences: &[(String, bool, Vec<FieldChange>)], form: Option<&Form>) -> Result<(), Failure> {
    let data = differences
        .iter()
        .map(|(called, new, changes)| json!({"resource": called, "new": new, "changes": changes}));
    if let Some(text) = form.and_then(|form| form.value(&Value::Array(data.collect()))) {
        output::data(&text.map_err(Failure::usage)?);
        return Ok(());
    }
    let colours = output::data_colours();
    let mut out = String::new();
    for (called, new, changes) in differences {
        let new = if *new { " (new)" } else { "" };
        out.push_str(&format!("{}{new}\n", paint(called, Tone::Strong, colours)));
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
