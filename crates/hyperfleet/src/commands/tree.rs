//! `hyperfleet tree`: a resource with everything below it, each with its adapters, to show which of them is
//! not reconciled.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::{AdapterReport, Kind, ListQuery, Page, Request, Resource};

use super::Failure;
use crate::output;
use crate::output::paint::{Tone, paint};
use crate::output::text::clean;
use crate::output::tree::Branch;
use crate::remote::Session;
use crate::remote::resources::standing;
use crate::remote::target::{self, FoundResource, Prefer, display_name};

/// The most resources of a kind that are shown below one owner.
const MAX_SIBLINGS: usize = 1_000;

/// Show a resource with everything below it and its adapters
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  hyperfleet tree cluster prod-1")]
pub(crate) struct Tree {
    #[command(flatten)]
    target: target::One,
    /// Leave the adapters out
    #[arg(long)]
    no_adapters: bool,
}

impl Tree {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.target.find(session, Prefer::Active).await?;
        if session.prints_curl() {
            session.call(Request::get(found.item().to_string())).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let tree = branch(session, &found, !self.no_adapters).await?;
        output::data(&tree.render(output::data_colours()));
        Ok(ExitCode::SUCCESS)
    }
}

/// A resource with what is below it. Boxed, because it nests as deep as the kinds do.
fn branch<'a>(
    session: &'a Session,
    found: &'a FoundResource,
    adapters: bool,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Branch, Failure>> + 'a>> {
    Box::pin(async move {
        let mut branch = Branch::new(line(&found.kind, &found.resource));
        if adapters {
            let reports: Page<AdapterReport> =
                session.pages(Request::get(found.item().statuses()), None).await?;
            branch.below.extend(reports.items.iter().map(|report| adapter(report, &found.resource)));
        }
        for kind in session.kinds().await?.children(&found.kind.kind) {
            for resource in children(session, found, kind).await? {
                let child = FoundResource { kind: kind.clone(), resource };
                branch.below.push(self::branch(session, &child, adapters).await?);
            }
        }
        Ok(branch)
    })
}

/// The resources of a kind below a resource, finalizing ones included.
pub(crate) async fn children(
    session: &Session,
    owner: &FoundResource,
    kind: &Kind,
) -> Result<Vec<Resource>, Failure> {
    let query = ListQuery {
        order_by: Some("name".to_owned()),
        page_size: Some(500),
        show_deleted: true,
        ..ListQuery::default()
    };
    let list = owner.item().below(&kind.plural);
    Ok(session.pages(Request::list(&list, &query), Some(MAX_SIBLINGS)).await?.items)
}

fn line(kind: &Kind, resource: &Resource) -> String {
    let colours = output::data_colours();
    let (status, tone) = standing(resource);
    let mut line = format!(
        "{}  {}",
        paint(&display_name(&kind.kind, resource.name()), Tone::Strong, colours),
        paint(status, tone, colours)
    );
    let reason = resource.condition("Reconciled").filter(|condition| !condition.is_true());
    if let Some(condition) = reason {
        line.push_str(&paint(&format!(" ({})", clean(&condition.reason)), Tone::Faint, colours));
    }
    line
}

fn adapter(report: &AdapterReport, resource: &Resource) -> Branch {
    let colours = output::data_colours();
    let shown = if resource.is_finalizing() { "Finalized" } else { "Available" };
    let condition = report.condition(shown).or_else(|| report.condition("Available"));
    let mut line = paint(&format!("adapter {}", clean(report.adapter())), Tone::Plain, colours);
    if let Some(condition) = condition {
        let status = condition.status.name();
        let said = format!("{}={status}", clean(&condition.kind));
        line.push_str(&format!("  {}", paint(&said, Tone::of_status(status), colours)));
        if !condition.is_true() && !condition.reason.is_empty() {
            line.push_str(&paint(&format!(" ({})", clean(&condition.reason)), Tone::Faint, colours));
        }
    }
    if report.observed_generation() < resource.generation() {
        let behind =
            format!(" (of generation {}, not {})", report.observed_generation(), resource.generation());
        line.push_str(&paint(&behind, Tone::Pending, colours));
    }
    Branch::new(line)
}
