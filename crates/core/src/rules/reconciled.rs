//! `Reconciled`: whether the world matches the present spec.

use std::borrow::Cow;

use super::facts::{ConditionContent, Facts, join};
use crate::Status;

pub(super) const TYPE: &str = "Reconciled";
pub(super) const NO_ADAPTERS: (&str, &str) = ("NoRequiredAdapters", "No adapters are required for this kind");

/// The table of the contract, row by row; the first that fits.
pub(super) fn content(facts: &Facts<'_>) -> ConditionContent<'static> {
    let generation = facts.generation;
    let (status, reason, message) = if facts.finalizing {
        finalizing(facts)
    } else if facts.adapters.is_empty() {
        (Status::True, NO_ADAPTERS.0, NO_ADAPTERS.1.into())
    } else if facts.adapters.iter().any(|a| !a.is_at(generation)) {
        let missing = facts.adapters.iter().filter(|a| !a.is_at(generation)).map(|a| a.name);
        let missing = join(missing);
        (
            Status::False,
            "ReconciledMissingAdapters",
            format!("Required adapters have not yet reported status at generation {generation}: {missing}")
                .into(),
        )
    } else if facts.summaries().any(|s| !s.is_available()) {
        let unavailable = facts.adapters.iter().filter(|a| a.summary.is_some_and(|s| !s.is_available()));
        let unavailable = join(unavailable.map(super::facts::Adapter::with_reason));
        (
            Status::False,
            "ReconciledNotAvailable",
            format!("Adapters reporting Available=False: {unavailable}").into(),
        )
    } else {
        all()
    };
    ConditionContent {
        status,
        reason: reason.into(),
        message,
        observed_generation: generation,
        last_updated_time: facts.oldest_at(generation).unwrap_or(facts.changed),
    }
}

fn finalizing(facts: &Facts<'_>) -> (Status, &'static str, Cow<'static, str>) {
    let generation = facts.generation;
    if !facts.all_finalized() {
        let waiting = facts.adapters.iter().filter(|a| !a.has_finalized(generation)).map(|a| a.name);
        let waiting = join(waiting);
        return (
            Status::False,
            "ReconciledMissingAdapters",
            format!("Required adapters not reporting Finalized=True at generation {generation}: {waiting}")
                .into(),
        );
    }
    if !facts.children.is_empty() {
        let left = join(facts.children.iter().map(|(kind, count)| format!("{kind} ({count})")));
        return (
            Status::False,
            "ReconciledWaitingForChildren",
            format!("Deletion in progress: waiting for child resources: {left}").into(),
        );
    }
    all()
}

fn all() -> (Status, &'static str, Cow<'static, str>) {
    let message = "All required adapters reported Available=True or Finalized=True at the current generation";
    (Status::True, "ReconciledAll", message.into())
}
