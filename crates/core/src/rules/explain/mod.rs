//! Why a resource is not done, and what would help. Read out of the same facts that `Reconciled` is computed from, so
//! the two cannot disagree: whoever makes that condition `False` is named, and nobody else but a required adapter that
//! calls itself unhealthy. Nothing is stored for it, and nothing here knows the clock.

mod adapter;
mod child;
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::facts::{Facts, Latest, Standings, join};
use super::reconciled;
use crate::{Error, Phase, Report, Resource, Sight, Status, Timestamp, View};

/// How many children, and how many referrers, are named; the others are counted.
const NAMED: usize = 10;

/// How many blockers the summary names.
const SUMMARISED: usize = 3;

/// What an explanation is made of, as it was at one moment. An active resource waits for its adapters alone, so of one
/// there are only the first two.
#[derive(Debug)]
pub struct Surroundings {
    /// The resource; its wish is not looked at.
    pub resource: Resource,
    /// The reports of its required adapters.
    pub reports: Vec<Report>,
    /// How many children it has, active or finalizing, by kind; also of kinds that are not configured.
    pub children: BTreeMap<Arc<str>, usize>,
    /// What it owns, at any depth, or the part of it that is nearest.
    pub below: Vec<Resource>,
    /// Whether `below` is a part.
    pub more_below: bool,
    /// Resources that refer to it, or some of them.
    pub referrers: Vec<Resource>,
    /// How many do.
    pub references: usize,
}

impl Surroundings {
    /// A resource with nothing around it.
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

    /// What someone may know of it; `None` where the resource does not exist for them. What is out of their sight still
    /// counts in the numbers.
    pub fn confined(mut self, sight: &Sight) -> Result<Option<Self>, Error> {
        let mut seen = Vec::with_capacity(self.below.len());
        for resource in self.below {
            seen.extend(sight.sees(&resource)?.then_some(resource));
        }
        self.below = seen;
        let mut seen = Vec::with_capacity(self.referrers.len());
        for resource in self.referrers {
            seen.extend(sight.sees(&resource)?.then_some(resource));
        }
        self.referrers = seen;
        Ok(sight.sees(&self.resource)?.then_some(self))
    }
}

/// Why a resource is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// How it is doing.
    pub phase: Progress,
    /// That in one sentence.
    pub summary: String,
    /// What is in the way, worst first.
    pub blockers: Vec<Blocker>,
}

/// How a resource is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Progress {
    /// The world matches the wish.
    Reconciled,
    /// It is on its way there.
    Reconciling,
    /// A required adapter says that something is wrong.
    Degraded,
    /// It is being deleted.
    Finalizing,
    /// It has been unreconciled for too long.
    Stuck,
}

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// What it is.
    pub kind: BlockerKind,
    /// Its name, or how many there are.
    pub name: String,
    /// Since when it is in the way.
    pub since: Timestamp,
    /// How it is in the way.
    pub detail: String,
    /// What a person can do.
    pub action: String,
}

/// What can be in the way.
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
    /// It says itself that something is wrong.
    Failing,
    /// It stays until a person does something.
    Lasting,
    /// Nothing was heard of it for the present generation.
    Silent,
    /// It works, and has not finished.
    Unfinished,
}

/// A blocker before it is put in its place.
struct Found {
    severity: Severity,
    blocker: Blocker,
}

/// What is being explained.
struct Case<'a> {
    view: View<'a>,
    around: &'a Surroundings,
    facts: &'a Facts<'a>,
    /// The path of the resource.
    href: String,
    /// Since when the resource waits for anything.
    pending_since: Timestamp,
}

impl Case<'_> {
    /// Since when a deletion waits for something that was there before it.
    fn deleted(&self) -> Timestamp {
        match &self.around.resource.phase {
            Phase::Finalizing(deleted) => deleted.at,
            Phase::Active => self.pending_since,
        }
    }
}

/// Explains a resource. One that is unreconciled for longer than `stuck_after` is stuck.
pub fn explain(
    view: View<'_>,
    around: &Surroundings,
    now: Timestamp,
    stuck_after: Duration,
) -> Result<Explanation, Error> {
    let resource = &around.resource;
    let entity =
        view.catalog.get(&resource.kind).ok_or_else(|| Error::internal("a kind that is not configured"))?;
    let standings: Standings = around.reports.iter().map(Report::standing).collect();
    let latest = Latest { stored: &standings, newest: None };
    let facts = Facts::of(entity, resource, latest, &around.children, None, now);
    // Other adapters may be required by now than when the conditions were computed.
    let pending_since = resource.pending_since.unwrap_or(resource.updated.at);
    let case = Case { view, around, facts: &facts, href: view.href(resource), pending_since };

    let mut found = adapter::blockers(&case);
    if facts.finalizing {
        found.extend(child::blockers(&case)?);
        found.extend(reference::blockers(&case));
    }
    // What is equal in all of this stays in configured order, or in that of names.
    found.sort_by_key(|found| (found.severity, found.blocker.kind, found.blocker.since));

    let waited = Duration::from_micros(now.micros().saturating_sub(pending_since.micros()).max(0) as u64);
    let waits = reconciled::claim(&facts).status == Status::False;
    let phase = if waits && waited > stuck_after {
        Progress::Stuck
    } else if facts.finalizing {
        Progress::Finalizing
    } else if found.iter().any(|found| found.severity == Severity::Failing) {
        Progress::Degraded
    } else if waits {
        Progress::Reconciling
    } else {
        Progress::Reconciled
    };
    let summary = summary(&case, phase, waited, &found);
    Ok(Explanation { phase, summary, blockers: found.into_iter().map(|found| found.blocker).collect() })
}

fn summary(case: &Case<'_>, phase: Progress, waited: Duration, found: &[Found]) -> String {
    let Resource { kind, name, generation, .. } = &case.around.resource;
    let all = || listed(found.iter());
    let failing = || listed(found.iter().filter(|found| found.severity == Severity::Failing));
    let state = match phase {
        Progress::Reconciled => format!("is reconciled at generation {generation}"),
        Progress::Reconciling => {
            format!("is being reconciled at generation {generation} and waits for {}", all())
        }
        Progress::Degraded => format!("is degraded at generation {generation} by {}", failing()),
        Progress::Finalizing if found.is_empty() => "is being deleted, and nothing is in the way".to_owned(),
        Progress::Finalizing => format!("is being deleted and waits for {}", all()),
        Progress::Stuck => {
            let what = if case.facts.finalizing { "deletion" } else { "reconciliation" };
            format!("is stuck in its {what}, unreconciled for {}, and waits for {}", spelled(waited), all())
        }
    };
    format!("{kind} '{name}' {state}.")
}

/// The worst of them by name.
fn listed<'a>(found: impl Iterator<Item = &'a Found>) -> String {
    let mut names: Vec<String> = found
        .map(|Found { blocker, .. }| {
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

/// The last resort in every deletion.
fn by_force(href: &str) -> String {
    format!("As a last resort POST {href}/force-delete with a reason")
}

/// A resource as sentences name it.
fn named(resource: &Resource) -> String {
    format!("{} '{}'", resource.kind, resource.name)
}
