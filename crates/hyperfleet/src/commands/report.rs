//! `hyperfleet report`: plays an adapter, for trying things out and for adapters that are shell scripts.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_client::{AdapterReport, NewCondition, NewReport, Request, Status};

use super::apply::dry_run;
use super::{Failure, create};
use crate::output;
use crate::output::form::Form;
use crate::output::paint::{Tone, paint};
use crate::remote::resources::data_argument;
use crate::remote::target::{self, Prefer};
use crate::remote::{Session, session};

const STATUSES: [&str; 3] = ["true", "false", "unknown"];

pub(crate) fn command() -> Command {
    let status = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("STATUS").value_parser(STATUSES).ignore_case(true).help(help)
    };
    let command = Command::new("report")
        .about("Report on a resource as an adapter would")
        .args([
            target::one(),
            target::within(),
            Arg::new("adapter").long("adapter").value_name("NAME").required(true).help("Who reports"),
            status("available", "Whether what was wished is there [true]").default_value("true"),
            status("applied", "Whether the wish was carried out [true]").default_value("true"),
            status("health", "Whether the adapter itself is well [true]").default_value("true"),
            status("finalized", "In a deletion: whether everything is cleaned up"),
            Arg::new("reason").long("reason").value_name("WORD").help("Why, for machines; of Available"),
            Arg::new("message").long("message").value_name("TEXT").help("Why, for people; of Available"),
            Arg::new("condition").long("condition").value_name("TYPE=STATUS").action(ArgAction::Append).help("A further condition; may be given again"),
            Arg::new("generation").long("generation").value_name("NUMBER").value_parser(value_parser!(i64).range(1..)).help("The generation that this is about [default: the present one]"),
            Arg::new("data").long("data").value_name("JSON").help("What else there is to tell, as JSON or YAML, or @FILE"),
            dry_run(),
            data_argument(),
        ])
        .after_help("Try it:\n  hyperfleet report cluster prod-1 --adapter dns\n  hyperfleet report cluster prod-1 --adapter dns --available false --reason QuotaExceeded");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let found = target::single(session, matches, Prefer::Active).await?;
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let mut conditions = Vec::new();
    for (flag, kind) in
        [("available", "Available"), ("applied", "Applied"), ("health", "Health"), ("finalized", "Finalized")]
    {
        if let Some(status) = text(flag) {
            conditions.push(NewCondition::new(kind, status_of(&status)?));
        }
    }
    if let Some(available) = conditions.first_mut() {
        available.reason = text("reason");
        available.message = text("message");
    }
    for further in matches.get_many::<String>("condition").into_iter().flatten() {
        let (kind, status) = further
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--condition {further}: say TYPE=STATUS")))?;
        conditions.push(NewCondition::new(kind, status_of(status)?));
    }
    let report = NewReport {
        adapter: text("adapter").unwrap_or_default(),
        observed_generation: matches
            .get_one::<i64>("generation")
            .copied()
            .unwrap_or_else(|| found.resource.generation()),
        observed_time: None,
        conditions,
        data: text("data").map(|data| create::value(&data, "--data")).transpose()?,
        metadata: None,
    };
    let dry = matches.get_flag("dry-run");
    let Some(answer) = session.call(Request::report(&found.item(), &report, dry)).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    if answer.status.as_u16() == 204 {
        let verb = paint("discarded", Tone::Pending, output::data_colours());
        output::data(&format!(
            "{} report of {} {verb}\n",
            found.called(),
            output::text::clean(&report.adapter)
        ));
        output::talk("the server knows something newer, or a report with Available=Unknown is no news");
        return Ok(ExitCode::SUCCESS);
    }
    let stored: AdapterReport = answer.json()?;
    let value = serde_json::Value::Object(stored.raw().clone());
    match matches.get_one::<Form>("output").and_then(|form| form.value(&value)) {
        Some(text) => output::data(&text.map_err(Failure::usage)?),
        None => {
            let verb = if dry { "would be stored (dry run)" } else { "stored" };
            let verb = paint(verb, Tone::Good, output::data_colours());
            output::data(&format!(
                "{} report of {} {verb}\n",
                found.called(),
                output::text::clean(stored.adapter())
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn status_of(text: &str) -> Result<Status, Failure> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(Status::True),
        "false" => Ok(Status::False),
        "unknown" => Ok(Status::Unknown),
        _ => Err(Failure::usage(format!("{text:?} is no status: say true, false or unknown"))),
    }
}
