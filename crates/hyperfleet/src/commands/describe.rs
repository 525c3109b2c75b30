//! `hyperfleet describe`: everything about one resource on one page: its desired state, its
//! conditions with the reports behind them, its blockers, its children and its latest changes.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::{
    AdapterReport, Condition, Explanation, ListQuery, Page, Request, Resource, TimelineEntry, TimelineQuery,
};
use hyperfleet_core::Timestamp;

use super::why::advice::{self, Advice};
use super::{Failure, timeline, why};
use crate::output::paint::{Tone, paint};
use crate::output::table::{Cell, Table};
use crate::output::text::clean;
use crate::output::{self, yaml};
use crate::remote::Session;
use crate::remote::kinds::singular;
use crate::remote::owners::Owners;
use crate::remote::resources::{since, standing, time_with_age};
use crate::remote::target::{self, FoundResource, Prefer};

/// How many children of a kind are named.
const MAX_CHILDREN: u64 = 20;
const LAST_ENTRIES: u64 = 8;

/// Show everything about a resource: conditions, reports, blockers, timeline
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet describe cluster prod-1\n  hyperfleet describe nodepool/prod-1/workers"
)]
pub(crate) struct Describe {
    #[command(flatten)]
    target: target::One,
}

impl Describe {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.target.find(session, Prefer::Active).await?;
        let item = found.item();
        let recent = TimelineQuery { page_size: Some(LAST_ENTRIES), ..TimelineQuery::default() };
        let requests = [
            Request::get(item.to_string()),
            Request::get(item.statuses()),
            Request::explain(&item),
            Request::timeline(&item, &recent),
        ];
        if session.prints_curl() {
            for request in requests {
                session.call(request).await?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let [read, statuses, explain, history] = requests;
        let resource = session.fetch(read).await?.resource()?;
        let reports: Page<AdapterReport> = session.pages(statuses, None).await?;
        let explanation: Explanation = session.fetch(explain).await?.json()?;
        let entries: Page<TimelineEntry> = Page::read(&session.fetch(history).await?)?;
        let owners = Owners::of_related(session, &resource, &advice::ids(&explanation)).await?;
        let now = Timestamp::now();
        let mut page = String::new();
        page.push_str(&head(&resource, &owners, &explanation, now));
        section(
            &mut page,
            "Conditions",
            &conditions(&resource.conditions(), now).render(output::data_colours()),
        );
        section(&mut page, "Reports", &reports_table(&reports.items, now).render(output::data_colours()));
        let advice = Advice::new(session.kinds().await?, &owners, &resource, &self.target.words);
        section(&mut page, "Blockers", &why::blockers(&explanation, &advice, now));
        section(&mut page, "Below", &children(session, &found).await?);
        section(&mut page, "Spec", &resource.spec().map(yaml::write).unwrap_or_default());
        section(&mut page, "Timeline", &timeline::table(&entries.items, now).render(output::data_colours()));
        output::data(&page);
        Ok(ExitCode::SUCCESS)
    }
}

/// A heading with its text indented below it; nothing for an empty text.
fn section(page: &mut String, heading: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    page.push_str(&format!("\n{}\n", paint(&format!("{heading}:"), Tone::Strong, output::data_colours())));
    for line in text.lines() {
        page.push_str(format!("  {line}").trim_end());
        page.push('\n');
    }
}

fn head(resource: &Resource, owners: &Owners, explanation: &Explanation, now: Timestamp) -> String {
    let colours = output::data_colours();
    let (_, tone) = standing(resource);
    let tone = if explanation.phase == "Stuck" { Tone::Bad } else { tone };
    let by = |time: Option<Timestamp>, who: &str| match time {
        Some(_) => format!("{} by {who}", time_with_age(time, now)),
        None => String::new(),
    };
    let labels: Vec<String> = resource.labels().map(|(key, value)| format!("{key}={value}")).collect();
    let references: Vec<String> = resource
        .references()
        .into_iter()
        .flat_map(|(kind, targets)| {
            targets.into_iter().map(move |target| match owners.named(&target.id) {
                Some(path) => format!("{kind} → {path} ({})", target.id),
                None => format!("{kind} → {}/{}", singular(&target.kind), target.id),
            })
        })
        .collect();
    let mut table = Table::new(&["", ""]);
    for (what, values) in [
        ("Name", vec![resource.name().to_owned()]),
        ("Kind", vec![resource.kind().to_owned()]),
        ("Id", vec![resource.id().to_owned()]),
        ("Owner", vec![owners.owner_of(resource)]),
        ("Labels", labels),
        ("References", references),
        ("Generation", vec![resource.generation().to_string()]),
        ("Created", vec![by(resource.created_time(), resource.created_by())]),
        ("Updated", vec![by(resource.updated_time(), resource.updated_by())]),
        ("Deleted", vec![by(resource.deleted_time(), resource.deleted_by())]),
    ] {
        for (at, value) in values.iter().filter(|value| !value.is_empty()).enumerate() {
            let what = if at == 0 { format!("{what}:") } else { " ".to_owned() };
            table.row(vec![Cell::new(&what, Tone::Strong), value.as_str().into()]);
        }
    }
    table.row(vec![Cell::new("Status:", Tone::Strong), Cell::new(&explanation.phase, tone)]);
    let summary = paint(&clean(&explanation.summary), Tone::Faint, colours);
    format!("{}\n{summary}\n", table.render_rows("", colours).trim_end())
}

/// Conditions as rows.
pub(crate) fn conditions(conditions: &[Condition], now: Timestamp) -> Table {
    let mut table = Table::new(&["condition", "status", "gen", "reason", "since", "confirmed", "message"]);
    for condition in conditions {
        table.row(vec![
            condition.kind.as_str().into(),
            Cell::new(condition.status.name(), Tone::of_status(condition.status.name())),
            condition.observed_generation.map(|generation| generation.to_string()).unwrap_or_default().into(),
            condition.reason.as_str().into(),
            since(condition.last_transition_time, now).into(),
            since(condition.last_updated_time, now).into(),
            condition.message.as_str().into(),
        ]);
    }
    table
}

/// Reports as rows, with the conditions that every adapter has in columns of their own.
pub(crate) fn reports_table(reports: &[AdapterReport], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["adapter", "gen", "available", "applied", "health", "finalized", "reason", "reported"]);
    for report in reports {
        let cell = |kind: &str| match report.condition(kind) {
            Some(condition) => Cell::new(condition.status.name(), Tone::of_status(condition.status.name())),
            None => Cell::plain(""),
        };
        let finalized = match report.condition("Finalized") {
            Some(condition) if !condition.is_true() => Cell::plain(condition.status.name()),
            _ => cell("Finalized"),
        };
        table.row(vec![
            Cell::new(report.adapter(), Tone::Strong),
            report.observed_generation().to_string().into(),
            cell("Available"),
            cell("Applied"),
            cell("Health"),
            finalized,
            report.condition("Available").map(|condition| condition.reason).unwrap_or_default().into(),
            since(report.last_report_time(), now).into(),
        ]);
    }
    table
}

async fn children(session: &Session, found: &FoundResource) -> Result<String, Failure> {
    let mut text = String::new();
    for kind in session.kinds().await?.children(&found.kind.kind) {
        let query = ListQuery {
            page_size: Some(MAX_CHILDREN),
            order_by: Some("name".to_owned()),
            fields: Some("name,kind,deleted_time".to_owned()),
            show_deleted: true,
            total: true,
            ..ListQuery::default()
        };
        let list = found.item().below(&kind.plural);
        let page: Page<Resource> = Page::read(&session.fetch(Request::list(&list, &query)).await?)?;
        let total = page.total.unwrap_or(page.items.len() as u64);
        if total == 0 {
            continue;
        }
        let mut names: Vec<String> = page
            .items
            .iter()
            .map(|one| {
                format!("{}{}", clean(one.name()), if one.is_finalizing() { " (being deleted)" } else { "" })
            })
            .collect();
        if total > names.len() as u64 {
            names.push("…".to_owned());
        }
        text.push_str(&format!("{} ({total}): {}\n", kind.plural, names.join(", ")));
    }
    Ok(text)
}
