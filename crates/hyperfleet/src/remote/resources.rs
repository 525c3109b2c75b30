//! Resources in the format of `-o`: as columns for people, as names for other commands, or as data.

use hyperfleet_client::Resource;
use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use super::Session;
use super::owners::Owners;
use super::target::display_name;
use crate::commands::Failure;
use crate::output::age::{age, span};
use crate::output::format::Format;
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::output::{self, json};

/// The state of a resource in one word.
pub(crate) fn standing(resource: &Resource) -> (&'static str, Tone) {
    let reconciled = resource.condition("Reconciled");
    match reconciled {
        _ if resource.is_finalizing() => ("Finalizing", Tone::Pending),
        Some(condition) if condition.is_true() => ("Reconciled", Tone::Good),
        Some(condition) if condition.reason == "ReconciledNotAvailable" => ("Degraded", Tone::Bad),
        Some(_) => ("Reconciling", Tone::Pending),
        None => ("Unknown", Tone::Faint),
    }
}

/// How long ago a time was.
pub(crate) fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map(|time| age(&time.to_string(), now)).unwrap_or_default()
}

/// The columns.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    /// Resources of several kinds: names carry their kind.
    pub(crate) mixed: bool,
    pub(crate) owner: bool,
    pub(crate) wide: bool,
    options: TableOptions,
}

/// Options of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableOptions {
    /// Labels with a column of their own.
    pub(crate) labels: Vec<String>,
    pub(crate) is_headless: bool,
}

impl Columns {
    /// Those that show what differs among these.
    pub(crate) fn of(resources: &[Resource], format: &Format, options: &TableOptions) -> Self {
        let mixed = resources.windows(2).any(|two| two[0].kind() != two[1].kind());
        let owner = resources.iter().any(|resource| resource.owner().is_some());
        Self { mixed, owner, wide: matches!(format, Format::Wide), options: options.clone() }
    }

    /// An empty table of them.
    pub(crate) fn table(&self) -> Table {
        let mut head = vec!["name"];
        if self.owner {
            head.push("owner");
        }
        head.extend(["status", "gen"]);
        if self.wide {
            head.extend(["adapters", "reason", "id", "labels"]);
        }
        head.extend(self.options.labels.iter().map(String::as_str));
        head.extend(["since", "age"]);
        let table = Table::new(&head);
        if self.options.is_headless { table.without_head() } else { table }
    }

    /// One row.
    pub(crate) fn row(&self, resource: &Resource, owners: &Owners, now: Timestamp) -> Vec<Cell> {
        let name = if self.mixed {
            display_name(resource.kind(), resource.name())
        } else {
            resource.name().to_owned()
        };
        let mut cells = vec![Cell::new(&name, Tone::Strong)];
        if self.owner {
            cells.push(owners.owner_of(resource).into());
        }
        let (status, tone) = standing(resource);
        cells.push(Cell::new(status, tone));
        cells.push(resource.generation().to_string().into());
        let reconciled = resource.condition("Reconciled");
        if self.wide {
            cells.push(adapters(resource));
            cells.push(
                reconciled.as_ref().map(|condition| condition.reason.as_str()).unwrap_or_default().into(),
            );
            cells.push(Cell::new(resource.id(), Tone::Faint));
            let labels: Vec<String> =
                resource.labels().map(|(key, value)| format!("{key}={value}")).collect();
            cells.push(labels.join(",").into());
        }
        for label in &self.options.labels {
            let value = resource.labels().find(|(key, _)| key == label).map(|(_, value)| value.to_owned());
            cells.push(value.unwrap_or_default().into());
        }
        let flipped = reconciled.and_then(|condition| condition.last_transition_time);
        cells.push(Cell::new(&since(flipped, now), Tone::Faint));
        cells.push(since(resource.created_time(), now).into());
        cells
    }
}

/// How many of the adapters that have reported are available.
fn adapters(resource: &Resource) -> Cell {
    let conditions = resource.conditions();
    let reported: Vec<_> = conditions.iter().filter(|one| one.kind.ends_with("Successful")).collect();
    let well = reported.iter().filter(|one| one.is_true()).count();
    let tone = if well == reported.len() { Tone::Plain } else { Tone::Bad };
    Cell::new(&format!("{well}/{}", reported.len()), tone)
}

/// Prints resources. `many`: as a list, also if it holds one.
pub(crate) async fn print(
    session: &Session,
    resources: &[Resource],
    many: bool,
    format: &Format,
    options: &TableOptions,
) -> Result<(), Failure> {
    match format {
        Format::Table | Format::Wide => {
            let columns = Columns::of(resources, format, options);
            let owners =
                if columns.owner { Owners::of(session, resources).await? } else { Owners::default() };
            let mut table = columns.table();
            let now = Timestamp::now();
            for resource in resources {
                table.row(columns.row(resource, &owners, now));
            }
            if table.is_empty() {
                output::message("nothing found");
            } else {
                output::data(&table.render(output::data_colours()));
            }
            Ok(())
        }
        Format::Name => {
            let owners = Owners::of(session, resources).await?;
            let lines: String =
                resources.iter().map(|resource| format!("{}\n", owners.path_of(resource))).collect();
            output::data(&lines);
            Ok(())
        }
        format => {
            let value = match resources {
                [one] if !many => Value::Object(one.raw().clone()),
                all => list(all),
            };
            match format.value(&value) {
                Some(text) => {
                    output::data(&text.map_err(Failure::usage)?);
                    Ok(())
                }
                None => Ok(()),
            }
        }
    }
}

/// Resources as a list of the API would have them.
fn list(resources: &[Resource]) -> Value {
    let kind = match resources.first() {
        Some(first) if resources.iter().all(|one| one.kind() == first.kind()) => {
            format!("{}List", first.kind())
        }
        _ => "ResourceList".to_owned(),
    };
    let items: Vec<Value> = resources.iter().map(|one| Value::Object(one.raw().clone())).collect();
    json!({"kind": kind, "items": items})
}

/// The outcome of a command that changed nothing.
pub(crate) const UNCHANGED: &str = "unchanged";

/// The outcome for a resource: a line, or the resource itself in the format of `-o`.
pub(crate) fn print_outcome(resource: &Resource, verb: &str, format: Option<&Format>) -> Result<(), Failure> {
    match format.and_then(|format| format.value(&Value::Object(resource.raw().clone()))) {
        Some(text) => output::data(&text.map_err(Failure::usage)?),
        None if matches!(format, Some(Format::Name)) => {
            output::data(&format!("{}\n", display_name(resource.kind(), resource.name())));
        }
        None => {
            let tone = if verb == UNCHANGED { Tone::Faint } else { Tone::Good };
            let verb = output::paint::paint(verb, tone, output::data_colours());
            output::data(&format!("{} {verb}\n", display_name(resource.kind(), resource.name())));
        }
    }
    Ok(())
}

/// A JSON value for the middle of a sentence, shortened.
pub(crate) fn brief(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = match value {
        Value::String(text) => output::text::clean(text).into_owned(),
        other => json::compact(other),
    };
    if text.chars().count() <= LONGEST {
        return text;
    }
    let cut: String = text.chars().take(LONGEST - 1).collect();
    format!("{cut}…")
}

/// A time, and how long ago it was.
pub(crate) fn time_with_age(time: Option<Timestamp>, now: Timestamp) -> String {
    match time {
        Some(time) => {
            let micros = now.micros().saturating_sub(time.micros()).max(0);
            format!("{time} ({} ago)", span(std::time::Duration::from_micros(micros.unsigned_abs())))
        }
        None => String::new(),
    }
}
