//! `LastKnownReconciled`: whether the resource was last seen reconciled at some generation. The one condition whose
//! status depends on its own past, case by case as the rules number them.

use chrono::{DateTime, Utc};

use super::conditions::{Condition, Content, Facts, Snapshot};

/// The rows of the table, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LastKnownCase {
    /// 1: no required adapters.
    NoRequiredAdapters,
    /// 2: some required adapter has not reported.
    MissingReports,
    /// 3: all available at one generation.
    AllAtOneGeneration,
    /// 4: all available, mixed generations, True before.
    MixedAfterTrue,
    /// 5: all available, mixed generations, not True before.
    MixedAfterFalse,
    /// 6: some not available, not True before.
    NotAvailableAfterFalse,
    /// 7: some not available, True before, one of those at the generation that was True.
    NotAvailableAtTracked,
    /// 8: some not available, True before, none of those at the generation that was True.
    NotAvailableElsewhere,
}

impl LastKnownCase {
    /// The case that the facts and the condition before make.
    pub(super) fn of(facts: &Facts, past: Option<&Condition>) -> Self {
        let snapshots: Vec<&Snapshot> = facts.reported().map(|(_, snapshot)| snapshot).collect();
        let tracked = past.filter(|past| past.content.status).map(|past| past.observed_generation);
        if facts.required.is_empty() {
            return Self::NoRequiredAdapters;
        }
        if snapshots.len() < facts.required.len() {
            return Self::MissingReports;
        }
        let mut failing = snapshots.iter().filter(|snapshot| !snapshot.available).peekable();
        if failing.peek().is_some() {
            return match tracked {
                None => Self::NotAvailableAfterFalse,
                Some(tracked) if failing.any(|snapshot| snapshot.generation == tracked) => {
                    Self::NotAvailableAtTracked
                }
                Some(_) => Self::NotAvailableElsewhere,
            };
        }
        let mixed = snapshots.iter().any(|snapshot| snapshot.generation != snapshots[0].generation);
        match (mixed, tracked) {
            (false, _) => Self::AllAtOneGeneration,
            (true, Some(_)) => Self::MixedAfterTrue,
            (true, None) => Self::MixedAfterFalse,
        }
    }

    fn content(self, facts: &Facts) -> Content {
        let names = |wanted: fn(&Snapshot) -> bool, shown: fn(&str, &Snapshot) -> String| {
            let names: Vec<String> = facts
                .reported()
                .filter(|(_, snapshot)| wanted(snapshot))
                .map(|(name, snapshot)| shown(name, snapshot))
                .collect();
            names.join(", ")
        };
        match self {
            Self::NoRequiredAdapters => Content::no_required_adapters(),
            Self::MissingReports => Content::new(
                false,
                "AdaptersMissingReports",
                "Required adapters have not yet reported status",
            ),
            Self::AllAtOneGeneration | Self::MixedAfterTrue | Self::NotAvailableElsewhere => Content::new(
                true,
                "AllAdaptersReconciled",
                "All required adapters report Available=True for the tracked generation",
            ),
            Self::MixedAfterFalse => {
                let names = names(|_| true, |name, snapshot| format!("{name} ({})", snapshot.generation));
                let message = format!("Required adapters report different generations: {names}");
                Content::new(false, "AdaptersNotAtSameGeneration", message)
            }
            Self::NotAvailableAfterFalse | Self::NotAvailableAtTracked => {
                let names = names(|snapshot| !snapshot.available, |name, _| name.into());
                let message = format!("One or more required adapters report Available=False: {names}");
                Content::new(false, "AdapterReportedNotAvailable", message)
            }
        }
    }
}

/// What the condition says now, save what follows from a flip.
pub(super) struct Judgement {
    pub(super) content: Content,
    pub(super) observed_generation: u64,
    pub(super) last_updated_time: DateTime<Utc>,
}

pub(super) fn judge(facts: &Facts, past: Option<&Condition>) -> Judgement {
    let case = LastKnownCase::of(facts, past);
    let content = case.content(facts);
    let past_generation = past.map_or(1, |past| past.observed_generation);
    let past_updated = past.map_or(facts.reference_time, |past| past.updated);
    let highest = facts.reported().map(|(_, snapshot)| snapshot.generation).max();

    let observed_generation = match case {
        LastKnownCase::NoRequiredAdapters => facts.generation,
        LastKnownCase::AllAtOneGeneration => highest.unwrap_or(past_generation),
        _ if content.status => past_generation,
        _ => highest.unwrap_or(past_generation),
    };
    let failing_there = facts.reported_at(observed_generation).any(|(_, snapshot)| !snapshot.available);
    let last_updated_time = match case {
        LastKnownCase::NoRequiredAdapters => facts.reference_time,
        LastKnownCase::AllAtOneGeneration => facts.oldest_at(observed_generation).unwrap_or(past_updated),
        _ if !content.status && failing_there => facts.oldest_at(observed_generation).unwrap_or(past_updated),
        _ => past_updated,
    };
    Judgement { content, observed_generation, last_updated_time }
}
