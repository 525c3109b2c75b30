//! `LastKnownReconciled`: whether the world matches a wish that is known to have been fulfilled, which may be
//! an older one than the present.

use std::borrow::Cow;

use super::facts::{Claim, Facts, join};
use super::reconciled::NO_ADAPTERS;
use crate::{Condition, Standing, Status};

pub(super) const TYPE: &str = "LastKnownReconciled";

/// The rows of the contract's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    NoRequiredAdapters,
    SomeHaveNotReported,
    AllAtOneGeneration,
    MixedAfterTrue,
    Mixed,
    SomeNotAvailable,
    NotAvailableAtTheTrackedGeneration,
    NotAvailableElsewhere,
}

fn case(facts: &Facts<'_>, snapshots: &[&Standing], previous: Option<&Condition>) -> Case {
    let tracked = previous.filter(|p| p.status == Status::True).map(|p| p.observed_generation);
    let unavailable = || snapshots.iter().filter(|s| !s.is_available());
    if facts.adapters.is_empty() {
        Case::NoRequiredAdapters
    } else if snapshots.len() < facts.adapters.len() {
        Case::SomeHaveNotReported
    } else if unavailable().next().is_none() {
        match (is_mixed(snapshots), tracked) {
            (false, _) => Case::AllAtOneGeneration,
            (true, Some(_)) => Case::MixedAfterTrue,
            (true, None) => Case::Mixed,
        }
    } else {
        match tracked {
            None => Case::SomeNotAvailable,
            Some(generation) if unavailable().any(|s| s.generation == generation) => {
                Case::NotAvailableAtTheTrackedGeneration
            }
            Some(_) => Case::NotAvailableElsewhere,
        }
    }
}

fn is_mixed(snapshots: &[&Standing]) -> bool {
    snapshots.windows(2).any(|pair| pair[0].generation != pair[1].generation)
}

pub(super) fn claim(facts: &Facts<'_>, previous: Option<&Condition>) -> Claim<'static> {
    let snapshots: Vec<&Standing> = facts.snapshots().collect();
    let case = case(facts, &snapshots, previous);
    let status = match case {
        Case::NoRequiredAdapters
        | Case::AllAtOneGeneration
        | Case::MixedAfterTrue
        | Case::NotAvailableElsewhere => Status::True,
        Case::SomeHaveNotReported
        | Case::Mixed
        | Case::SomeNotAvailable
        | Case::NotAvailableAtTheTrackedGeneration => Status::False,
    };
    let before = previous.map_or(1, |p| p.observed_generation);
    let observed_generation = match (case, status) {
        (Case::NoRequiredAdapters, _) => facts.generation,
        (Case::AllAtOneGeneration, _) => snapshots.first().map_or(before, |s| s.generation),
        (_, Status::True) => before,
        (_, Status::False) => snapshots.iter().map(|s| s.generation).max().unwrap_or(before),
    };
    let unavailable_there =
        snapshots.iter().any(|s| !s.is_available() && s.generation == observed_generation);
    let fresh = match (case, status) {
        (Case::NoRequiredAdapters, _) => Some(facts.changed),
        (Case::AllAtOneGeneration, _) => facts.oldest_at(observed_generation),
        (_, Status::False) if unavailable_there => facts.oldest_at(observed_generation),
        _ => None,
    };
    let (reason, message) = words(case, facts);
    Claim {
        status,
        reason: reason.into(),
        message,
        observed_generation,
        last_updated_time: fresh.unwrap_or_else(|| previous.map_or(facts.changed, |p| p.last_updated_time)),
    }
}

fn words(case: Case, facts: &Facts<'_>) -> (&'static str, Cow<'static, str>) {
    match case {
        Case::NoRequiredAdapters => (NO_ADAPTERS.0, NO_ADAPTERS.1.into()),
        Case::AllAtOneGeneration | Case::MixedAfterTrue | Case::NotAvailableElsewhere => (
            "AllAdaptersReconciled",
            "All required adapters report Available=True for the tracked generation".into(),
        ),
        Case::SomeHaveNotReported => {
            ("AdaptersMissingReports", "Required adapters have not yet reported status".into())
        }
        Case::Mixed => {
            let generations = facts
                .adapters
                .iter()
                .filter_map(|a| Some(format!("{} ({})", a.name, a.snapshot?.generation)));
            let message = format!("Required adapters report different generations: {}", join(generations));
            ("AdaptersNotAtSameGeneration", message.into())
        }
        Case::SomeNotAvailable | Case::NotAvailableAtTheTrackedGeneration => {
            let unavailable = facts
                .adapters
                .iter()
                .filter(|a| a.snapshot.is_some_and(|s| !s.is_available()))
                .map(|a| a.name);
            let message =
                format!("One or more required adapters report Available=False: {}", join(unavailable));
            ("AdapterReportedNotAvailable", message.into())
        }
    }
}
