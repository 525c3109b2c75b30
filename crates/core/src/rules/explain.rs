//! Why a resource is not reconciled, and what would help. It reads the same facts as `Reconciled`, so the two cannot
//! disagree: it names every blocker that makes that condition `False`, and besides them only required adapters that
//! report to be unhealthy. Nothing is stored for it, and it reads no clock.

mod adapter;
mod child;
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::facts::{Facts, Latest, ReportSummaries, join};
use super::reconciled;
use crate::{AccessScope, Error, Phase, Report, Resource, Status, Timestamp, View};

/// How many children, and how many referrers, are named; the others are counted.
const NAMED: usize = 10;

/// How many blockers the summary names.
const SUMMARISED: usize = 3;

/// The input of an explanation, from one snapshot. An active resource waits for its adapters alone, so it has only the
/// first two members.
#[derive(Debug)]
pub struct RelatedResources {
    /// The resource; its spec is not read.
    pub resource: Resource,
    /// The reports of its required adapters.
    pub reports: Vec<Report>,
    /// How many children it has, active or finalizing, by kind; also of kinds that are not configured.
    pub children: BTreeMap<Arc<str>, usize>,
    /// The resources below it at any depth, or the nearest of them.
    pub below: Vec<Resource>,
    /// Whether `below` is incomplete.
    pub more_below: bool,
    /// Resources that refer to it, or some of them.
    pub referrers: Vec<Resource>,
    /// How many do.
    pub references: usize,
}

impl RelatedResources {
    /// A resource without related resources.
    pub fn of(resource: Resource) -> Self {
        Self {
            resource,
            reports: Vec::new(),
            children: BTreeMap::new(),
            below: Vec::new(),
            more_below: false,
            referrers: Vec::new(),
            references: 0,
        }
    }

    /// Removes the resources outside of an access scope; `None` if the resource itself is outside. The numbers still
    /// count them.
    pub fn confined(mut self, scope: &AccessScope) -> Result<Option<Self>, Error> {
        let mut seen = Vec::with_capacity(self.below.len());
        for resource in self.below {
            seen.extend(scope.sees(&resource)?.then_some(resource));
        }
        self.below = seen;
        let mut seen = Vec::with_capacity(self.referrers.len());
        for resource in self.referrers {
            seen.extend(scope.sees(&resource)?.then_some(resource));
        }
        self.referrers = seen;
        Ok(scope.sees(&self.resource)?.then_some(self))
    }
}

/// Why a resource is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// How it is doing.
    pub phase: ReconciliationPhase,
    /// The phase and its cause in one sentence.
    pub summary: String,
    /// The blockers, worst first.
    pub blockers: Vec<Blocker>,
}

/// How a resource is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ReconciliationPhase {
    /// The world matches the spec.
    Reconciled,
    /// Adapters are still at work.
    Reconciling,
    /// A required adapter says that something is wrong.
    Degraded,
    /// The resource is being deleted.
    Finalizing,
    /// The resource has been unreconciled for too long.
    Stuck,
}

/// One cause that blocks a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// Its name.
    pub kind: BlockerKind,
    /// Its name, or how many there are.
    pub name: String,
    /// Since when it blocks.
    pub since: Timestamp,
    /// How it blocks.
    pub detail: String,
    /// The action that helps.
    pub action: String,
}

/// What an action advises to do with a resource.
#[derive(Debug, Clone, Copy)]
pub enum Remedy<'a> {
    /// Read the reports on it.
    ReadReports,
    /// Ask what blocks it.
    Explain,
    /// List its children of a kind, by the plural, including those that are being deleted.
    ListChildren(&'a str),
    /// Change it.
    Patch,
    /// Delete it.
    Delete,
    /// Delete it without its adapters.
    ForceDelete,
}

/// The request for a remedy of the resource at a path. It is an argument, because only the API knows its requests.
pub type Requests = fn(Remedy<'_>, href: &str) -> String;

/// The kinds of blockers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockerKind {
    /// A required adapter.
    Adapter,
    /// A resource that the explained one owns.
    Child,
    /// A resource that refers to it.
    Reference,
}

/// How bad a blocker is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// The blocker itself reports a failure.
    Failing,
    /// The blocker remains until a person acts.
    Lasting,
    /// The adapter has not reported on the current generation.
    Silent,
    /// The blocker is at work and has not finished.
    Unfinished,
}

/// A blocker with its severity, for sorting.
struct RankedBlocker {
    severity: Severity,
    blocker: Blocker,
}

/// The input of all explanations of one resource.
struct ExplainContext<'a> {
    view: View<'a>,
    requests: Requests,
    related: &'a RelatedResources,
    facts: &'a Facts<'a>,
    /// The path of the resource.
    href: String,
    /// Since when the resource waits for anything.
    pending_since: Timestamp,
}

impl ExplainContext<'_> {
    /// The request for a remedy of the explained resource.
    fn request(&self, remedy: Remedy<'_>) -> String {
        (self.requests)(remedy, &self.href)
    }

    /// The last resort in every deletion.
    fn by_force(&self, href: &str) -> String {
        format!("As a last resort {}", (self.requests)(Remedy::ForceDelete, href))
    }

    /// Since when a deletion waits for something that was there before it.
    fn deleted(&self) -> Timestamp {
        match &self.related.resource.phase {
            Phase::Finalizing(deleted) => deleted.at,
            Phase::Active => self.pending_since,
        }
    }
}

/// Explains a resource. One that is unreconciled for longer than `stuck_after` is stuck.
pub fn explain(
    view: View<'_>,
    requests: Requests,
    related: &RelatedResources,
    now: Timestamp,
    stuck_after: Duration,
) -> Result<Explanation, Error> {
    let resource = &related.resource;
    let entity =
        view.catalog.get(&resource.kind).ok_or_else(|| Error::internal("a kind that is not configured"))?;
    let summaries: ReportSummaries = related.reports.iter().map(Report::summary).collect();
    let latest = Latest { stored: &summaries, newest: None };
    let facts = Facts::of(entity, resource, latest, &related.children, None, now);
    // Other adapters may be required by now than when the conditions were computed.
    let pending_since = resource.pending_since.unwrap_or(resource.updated.at);
    let href = view.href(resource);
    let context = ExplainContext { view, requests, related, facts: &facts, href, pending_since };

    let mut found = adapter::blockers(&context);
    if facts.finalizing {
        found.extend(child::blockers(&context)?);
        found.extend(reference::blockers(&context));
    }
    // Blockers of equal severity and time keep their order: as configured, or by name.
    found.sort_by_key(|found| (found.severity, found.blocker.kind, found.blocker.since));

    let waited = Duration::from_micros(now.micros().saturating_sub(pending_since.micros()).max(0) as u64);
    let waits = reconciled::content(&facts).status == Status::False;
    let phase = if waits && waited > stuck_after {
        ReconciliationPhase::Stuck
    } else if facts.finalizing {
        ReconciliationPhase::Finalizing
    } else if found.iter().any(|found| found.severity == Severity::Failing) {
        ReconciliationPhase::Degraded
    } else if waits {
        ReconciliationPhase::Reconciling
    } else {
        ReconciliationPhase::Reconciled
    };
    let summary = summary(&context, phase, waited, &found);
    Ok(Explanation { phase, summary, blockers: found.into_iter().map(|found| found.blocker).collect() })
}

fn summary(
    context: &ExplainContext<'_>,
    phase: ReconciliationPhase,
    waited: Duration,
    found: &[RankedBlocker],
) -> String {
    let Resource { kind, name, generation, .. } = &context.related.resource;
    let all = || listed(found.iter());
    let failing = || listed(found.iter().filter(|found| found.severity == Severity::Failing));
    let state = match phase {
        ReconciliationPhase::Reconciled => format!("is reconciled at generation {generation}"),
        ReconciliationPhase::Reconciling => {
            format!("is being reconciled at generation {generation} and waits for {}", all())
        }
        ReconciliationPhase::Degraded => format!("is degraded at generation {generation} by {}", failing()),
        ReconciliationPhase::Finalizing if found.is_empty() => {
            "is being deleted, and nothing is in the way".to_owned()
        }
        ReconciliationPhase::Finalizing => format!("is being deleted and waits for {}", all()),
        ReconciliationPhase::Stuck => {
            let what = if context.facts.finalizing { "deletion" } else { "reconciliation" };
            format!("is stuck in its {what}, unreconciled for {}, and waits for {}", spelled(waited), all())
        }
    };
    format!("{kind} '{name}' {state}.")
}

/// The worst of them by name.
fn listed<'a>(found: impl Iterator<Item = &'a RankedBlocker>) -> String {
    let mut names: Vec<String> = found
        .map(|RankedBlocker { blocker, .. }| {
            let what = match blocker.kind {
                BlockerKind::Adapter => "adapter",
                BlockerKind::Child => "child",
                BlockerKind::Reference => "reference of",
            };
            format!("{what} {}", blocker.name)
        })
        .collect();
    let more = names.len().saturating_sub(SUMMARISED);
    names.truncate(SUMMARISED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    join(names) + &more
}

/// A duration as people say it.
fn spelled(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A resource as sentences name it.
fn named(resource: &Resource) -> String {
    format!("{} '{}'", resource.kind, resource.name)
}
