//! `hyperfleet timeline`: what happened to a resource, newest first, also after it is gone.

use std::process::ExitCode;

use clap::{Args, value_parser};
use hyperfleet_client::{Request, TimelineEntry, TimelineQuery};
use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use super::Failure;
use crate::output;
use crate::output::format::{self, Format};
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::output::text;
use crate::remote::Session;
use crate::remote::resources::{brief, since};
use crate::remote::target::{self, Prefer};

const PAGE: u64 = 100;

/// Show what happened to a resource, newest first
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet timeline cluster prod-1\n\nA deleted resource is named by its id: hyperfleet timeline cluster 0198c0de-1111-7abc-8def-000000000001"
)]
pub(crate) struct Timeline {
    #[command(flatten)]
    target: target::One,
    /// At most this many entries
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u64).range(1..), default_value = "50")]
    limit: u64,
    #[arg(long, short, value_name = "FORMAT", value_parser = Format::of_data, help = format::DATA_HELP)]
    output: Option<Format>,
}

impl Timeline {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let item = match self.target.find(session, Prefer::Active).await {
            Ok(found) => found.item(),
            // The timeline of a removed resource can be read by id.
            Err(failure) => path_of_removed(session, &self.target.words).await?.ok_or(failure)?,
        };
        let query = TimelineQuery { page_size: Some(self.limit.min(PAGE)), ..TimelineQuery::default() };
        let request = Request::timeline(&item, &query);
        if session.prints_curl() {
            session.call(request).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        match &self.output {
            Some(format @ (Format::Json | Format::Yaml | Format::JsonPath(_))) => {
                let page = session.pages::<Value>(request, Some(limit)).await?;
                if let Some(text) = format.value(&json!({"kind": "TimelineList", "items": page.items})) {
                    output::data(&text.map_err(Failure::usage)?);
                }
            }
            _ => {
                let page = session.pages::<TimelineEntry>(request, Some(limit)).await?;
                output::data(&table(&page.items, Timestamp::now()).render(output::data_colours()));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn path_of_removed(
    session: &Session,
    words: &[String],
) -> Result<Option<hyperfleet_client::ItemPath>, Failure> {
    let wanted = target::parse(session.kinds().await?, words)?;
    Ok(match wanted.as_slice() {
        [one] => match one.path.as_slice() {
            [id] if target::looks_like_an_id(id) => Some(one.kind.collection().item(id)),
            _ => None,
        },
        _ => None,
    })
}

/// Entries as rows.
pub(crate) fn table(entries: &[TimelineEntry], now: Timestamp) -> Table {
    // The changes may be long, so their column is the last.
    let mut table = Table::new(&["age", "action", "by", "what"]);
    for entry in entries {
        let by = entry
            .adapter
            .as_ref()
            .map_or_else(|| entry.actor.clone(), |adapter| format!("adapter {adapter}"));
        table.row(vec![
            since(Some(entry.time), now).into(),
            Cell::new(&entry.action, tone(entry)),
            by.into(),
            what(entry).into(),
        ]);
    }
    table
}

fn tone(entry: &TimelineEntry) -> Tone {
    match entry.action.as_str() {
        "condition_changed" => {
            match entry.changes.first().and_then(|change| change.to.as_ref()).and_then(Value::as_str) {
                Some(status) => Tone::of_status(status),
                None => Tone::Plain,
            }
        }
        "deleted" | "force_deleted" | "deletion_requested" => Tone::Bad,
        "created" => Tone::Good,
        _ => Tone::Plain,
    }
}

fn what(entry: &TimelineEntry) -> String {
    const MOST: usize = 3;
    let mut parts: Vec<String> = entry
        .changes
        .iter()
        .take(MOST)
        .map(|change| {
            let path = change.path.strip_prefix("status.").unwrap_or(&change.path);
            let path = path.strip_prefix("conditions.").unwrap_or(path);
            match (&change.from, &change.to) {
                (Some(from), Some(to)) => format!("{path}: {} → {}", value_text(from), value_text(to)),
                (None, Some(to)) => format!("{path}: {}", value_text(to)),
                (Some(_), None) => format!("{path} removed"),
                (None, None) => path.to_owned(),
            }
        })
        .collect();
    if entry.changes.len() > MOST {
        parts.push(format!("and {} more", entry.changes.len() - MOST));
    }
    parts.extend(entry.reason.clone());
    parts.join("; ")
}

/// A shortened value; of a condition its status and reason.
fn value_text(value: &Value) -> String {
    match (value.get("status").and_then(Value::as_str), value.get("reason").and_then(Value::as_str)) {
        (Some(status), Some(reason)) => format!("{status} ({})", text::clean(reason)),
        (Some(status), None) => status.to_owned(),
        (None, _) => brief(value),
    }
}
