//! One resource of the model: its phase, how long the phase lasts, and what blocks it.

use std::time::Duration;

use hyperfleet_client::{Condition, Resource, Status};
use hyperfleet_core::Timestamp;

use super::ReconciliationPhase;

const SUCCESSFUL: &str = "Successful";

/// The members of a resource that views need.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) owner: Option<String>,
    pub(super) generation: i64,
    pub(super) is_reconciled: bool,
    pub(super) is_finalizing: bool,
    /// Since when it is reconciled, unreconciled or finalizing.
    pub(super) since: Option<Timestamp>,
    pub(super) why: String,
    /// Adapters that fail at the present generation.
    pub(super) failing: Vec<String>,
    /// The text that a filter searches, in lower case.
    pub(super) words: String,
}

impl Entry {
    pub(super) fn of(resource: &Resource) -> Self {
        let (generation, is_finalizing) = (resource.generation(), resource.is_finalizing());
        let reconciled = resource.condition("Reconciled");
        let (mut failing, mut troubles) = (Vec::new(), Vec::new());
        for condition in resource.conditions() {
            let Some(adapter) = condition.kind.strip_suffix(SUCCESSFUL).filter(|name| !name.is_empty())
            else {
                continue;
            };
            let fails =
                condition.status == Status::False && condition.observed_generation == Some(generation);
            // In a deletion `Available=False` is expected.
            if fails && !is_finalizing {
                let adapter = adapter_name(adapter);
                troubles.push(format!("{adapter}: {}", condition.reason));
                failing.push(adapter);
            }
        }
        let reason = reconciled.as_ref().map_or("", |condition| condition.reason.as_str());
        let message = reconciled.as_ref().map_or("", |condition| condition.message.as_str());
        let why = if troubles.is_empty() { why(reason, message) } else { troubles.join(", ") };
        let words = [resource.kind(), resource.name(), reason, &why].join("\n").to_lowercase();
        let flipped = reconciled.as_ref().and_then(|condition| condition.last_transition_time);
        Self {
            kind: resource.kind().to_owned(),
            name: resource.name().to_owned(),
            owner: resource.owner().map(|owner| owner.id),
            generation,
            is_reconciled: reconciled.as_ref().is_some_and(Condition::is_true),
            is_finalizing,
            since: resource.deleted_time().or(flipped),
            why,
            failing,
            words,
        }
    }

    pub(super) fn lasts(&self, now: Timestamp) -> Duration {
        let micros = self.since.map_or(0, |since| now.micros().saturating_sub(since.micros()).max(0));
        Duration::from_micros(micros.unsigned_abs())
    }

    /// For the order by time; an unknown beginning comes last.
    pub(super) fn since_micros(&self) -> i64 {
        self.since.map_or(i64::MAX, Timestamp::micros)
    }

    pub(super) fn phase(&self, now: Timestamp, stuck_after: Duration) -> ReconciliationPhase {
        match self {
            _ if !self.is_reconciled && self.lasts(now) > stuck_after => ReconciliationPhase::Stuck,
            _ if self.is_finalizing => ReconciliationPhase::Finalizing,
            _ if self.is_reconciled => ReconciliationPhase::Reconciled,
            _ if !self.failing.is_empty() => ReconciliationPhase::Degraded,
            _ => ReconciliationPhase::Reconciling,
        }
    }
}

/// The blocker, shorter than in the condition, whose message ends with the names.
fn why(reason: &str, message: &str) -> String {
    match (reason, message.rsplit_once(": ")) {
        ("ReconciledMissingAdapters" | "ReconciledWaitingForChildren", Some((_, awaited))) => {
            format!("waits for {awaited}")
        }
        ("ReconciledAll", _) => String::new(),
        (_, _) if message.is_empty() => reason.to_owned(),
        (_, _) => message.to_owned(),
    }
}

/// `MyAdapter` as it was most likely written: `my-adapter`.
fn adapter_name(kind: &str) -> String {
    let mut name = String::with_capacity(kind.len() + 4);
    for c in kind.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(c.to_lowercase());
    }
    name
}
