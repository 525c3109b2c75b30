//! `Reconciled` and the conditions per adapter, and how conditions follow one another in time. Pure functions of the
//! facts about a resource and of its conditions before.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::last_known;
use super::operation::Available;
use super::state::StoredReport;

/// What a required adapter has said, as far as it counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) generation: u64,
    pub(super) available: bool,
    pub(super) finalized: bool,
    pub(super) time: DateTime<Utc>,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Everything that conditions follow from, save their own past.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) generation: u64,
    pub(super) reference_time: DateTime<Utc>,
    pub(super) finalizing: bool,
    /// Required adapters in configured order, each with its snapshot if it has reported.
    pub(super) required: Vec<(String, Option<Snapshot>)>,
    /// Children that are left: kind and count.
    pub(super) children: BTreeMap<String, usize>,
}

impl Facts {
    /// The snapshot of a stored report, if it is one that counts.
    pub(super) fn snapshot_of(stored: &StoredReport, generation: u64, finalizing: bool) -> Option<Snapshot> {
        let available = stored.condition("Available")?;
        let finalized =
            stored.condition("Finalized").is_some_and(|condition| condition.status == Available::True);
        let decided = available.status != Available::Unknown || (finalizing && finalized);
        (stored.generation <= generation && decided).then(|| Snapshot {
            generation: stored.generation,
            available: available.status == Available::True,
            finalized,
            time: stored.reported,
            reason: available.reason.clone().unwrap_or_default(),
            message: available.message.clone().unwrap_or_default(),
        })
    }

    /// Required adapters that have reported, in configured order.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&str, &Snapshot)> {
        self.required.iter().filter_map(|(name, snapshot)| Some((&**name, snapshot.as_ref()?)))
    }

    /// Required adapters that have reported at a generation.
    pub(super) fn reported_at(&self, generation: u64) -> impl Iterator<Item = (&str, &Snapshot)> {
        self.reported().filter(move |(_, snapshot)| snapshot.generation == generation)
    }

    /// The oldest report time among required adapters at a generation.
    pub(super) fn oldest_at(&self, generation: u64) -> Option<DateTime<Utc>> {
        self.reported_at(generation).map(|(_, snapshot)| snapshot.time).min()
    }

    /// Required adapters without a snapshot at the current generation that satisfies `wanted`.
    fn lacking(&self, wanted: impl Fn(&Snapshot) -> bool) -> Vec<&str> {
        let satisfied = |snapshot: &Option<Snapshot>| {
            snapshot.as_ref().is_some_and(|it| it.generation == self.generation && wanted(it))
        };
        self.required.iter().filter(|(_, it)| !satisfied(it)).map(|(name, _)| &**name).collect()
    }

    /// Whether some required adapter has not finalized the current generation of a resource being deleted.
    pub(super) fn waits_for_an_adapter(&self) -> bool {
        self.finalizing && !self.lacking(|snapshot| snapshot.finalized).is_empty()
    }

    /// Whether every required adapter has finalized the current generation and no child is left.
    pub(super) fn deletion_is_complete(&self) -> bool {
        self.finalizing && self.children.is_empty() && !self.waits_for_an_adapter()
    }
}

/// The part of a condition that says something.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    pub(super) status: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Content {
    pub(super) fn new(status: bool, reason: &str, message: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), message: message.into() }
    }

    pub(super) fn no_required_adapters() -> Self {
        Self::new(true, "NoRequiredAdapters", "No adapters are required for this kind")
    }
}

/// A condition of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) type_: String,
    pub(super) content: Content,
    pub(super) observed_generation: u64,
    pub(super) created: DateTime<Utc>,
    pub(super) updated: DateTime<Utc>,
    pub(super) transition: DateTime<Utc>,
}

/// Why conditions are computed again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cause {
    /// A report with this `observed_time`.
    Report(DateTime<Utc>),
    /// Anything else.
    Other,
}

/// All conditions of a resource, in order.
pub(super) fn recompute(facts: &Facts, before: &[Condition], cause: Cause) -> Vec<Condition> {
    let previous = |type_: &str| before.iter().find(|condition| condition.type_ == type_);
    let flip_time = match cause {
        Cause::Report(observed) => observed,
        Cause::Other => facts.reference_time,
    };
    let aggregate = |type_: &str, content: Content, observed_generation: u64, updated: DateTime<Utc>| {
        let (created, transition) = match previous(type_) {
            None => (facts.reference_time, facts.reference_time),
            Some(past) if past.content.status == content.status => (past.created, past.transition),
            Some(past) => (past.created, flip_time),
        };
        Condition { type_: type_.into(), content, observed_generation, created, updated, transition }
    };

    let (content, updated) = reconciled(facts);
    let mut conditions = vec![aggregate("Reconciled", content, facts.generation, updated)];

    let known = last_known::judge(facts, previous("LastKnownReconciled"));
    let known =
        aggregate("LastKnownReconciled", known.content, known.observed_generation, known.last_updated_time);
    conditions.push(known);

    for (adapter, snapshot) in facts.reported() {
        let mut condition = successful(adapter, snapshot, facts.reference_time);
        if let Some(past) = previous(&condition.type_) {
            condition.created = past.created;
            if past.content.status == condition.content.status {
                condition.transition = past.transition;
            }
        }
        conditions.push(condition);
    }
    conditions
}

/// `Reconciled`: what it says and its `last_updated_time`.
pub(super) fn reconciled(facts: &Facts) -> (Content, DateTime<Utc>) {
    let content = if facts.finalizing { reconciled_finalizing(facts) } else { reconciled_active(facts) };
    (content, facts.oldest_at(facts.generation).unwrap_or(facts.reference_time))
}

fn reconciled_all() -> Content {
    let message = "All required adapters reported Available=True or Finalized=True at the current generation";
    Content::new(true, "ReconciledAll", message)
}

fn reconciled_active(facts: &Facts) -> Content {
    if facts.required.is_empty() {
        return Content::no_required_adapters();
    }
    let silent = facts.lacking(|_| true);
    if !silent.is_empty() {
        let message = format!(
            "Required adapters have not yet reported status at generation {}: {}",
            facts.generation,
            silent.join(", ")
        );
        return Content::new(false, "ReconciledMissingAdapters", message);
    }
    let failing: Vec<String> = facts
        .reported()
        .filter(|(_, snapshot)| !snapshot.available)
        .map(|(name, snapshot)| match &*snapshot.reason {
            "" => name.into(),
            reason => format!("{name} ({reason})"),
        })
        .collect();
    if failing.is_empty() {
        return reconciled_all();
    }
    let message = format!("Adapters reporting Available=False: {}", failing.join(", "));
    Content::new(false, "ReconciledNotAvailable", message)
}

fn reconciled_finalizing(facts: &Facts) -> Content {
    let unfinished = facts.lacking(|snapshot| snapshot.finalized);
    if !unfinished.is_empty() {
        let message = format!(
            "Required adapters not reporting Finalized=True at generation {}: {}",
            facts.generation,
            unfinished.join(", ")
        );
        return Content::new(false, "ReconciledMissingAdapters", message);
    }
    if facts.children.is_empty() {
        return reconciled_all();
    }
    let children: Vec<String> =
        facts.children.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
    let message = format!("Deletion in progress: waiting for child resources: {}", children.join(", "));
    Content::new(false, "ReconciledWaitingForChildren", message)
}

/// The condition of one adapter, as if it were the first.
pub(super) fn successful(adapter: &str, snapshot: &Snapshot, reference_time: DateTime<Utc>) -> Condition {
    Condition {
        type_: successful_type(adapter),
        content: Content::new(snapshot.available, &snapshot.reason, &*snapshot.message),
        observed_generation: snapshot.generation,
        created: reference_time,
        updated: snapshot.time,
        transition: snapshot.time,
    }
}

/// `my-adapter` → `MyAdapterSuccessful`.
fn successful_type(adapter: &str) -> String {
    let mut type_ = String::new();
    for part in adapter.split('-') {
        let mut letters = part.chars();
        type_.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        type_.push_str(letters.as_str());
    }
    type_.push_str("Successful");
    type_
}
