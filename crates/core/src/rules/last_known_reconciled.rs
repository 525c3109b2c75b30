//! `LastKnownReconciled`: whether the world matches a spec that is known to have been reconciled, which may be older
//! than the present one.

use std::borrow::Cow;

use super::facts::{ConditionContent, Facts, join};
use super::reconciled::NO_ADAPTERS;
use crate::{Condition, ReportSummary, Status};

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

fn case(facts: &Facts<'_>, summaries: &[&ReportSummary], previous: Option<&Condition>) -> Case {
    let tracked = previous.filter(|p| p.status == Status::True).map(|p| p.observed_generation);
    let unavailable = || summaries.iter().filter(|s| !s.is_available());
    if facts.adapters.is_empty() {
        Case::NoRequiredAdapters
    } else if summaries.len() < facts.adapters.len() {
        Case::SomeHaveNotReported
    } else if unavailable().next().is_none() {
        match (is_mixed(summaries), tracked) {
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

fn is_mixed(summaries: &[&ReportSummary]) -> bool {
    summaries.windows(2).any(|pair| pair[0].generation != pair[1].generation)
}

pub(super) fn content(facts: &Facts<'_>, previous: Option<&Condition>) -> ConditionContent<'static> {
    let summaries: Vec<&ReportSummary> = facts.summaries().collect();
    let case = case(facts, &summaries, previous);
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
        (Case::AllAtOneGeneration, _) => summaries.first().map_or(before, |s| s.generation),
        (_, Status::True) => before,
        (_, Status::False) => summaries.iter().map(|s| s.generation).max().unwrap_or(before),
    };
    let unavailable_there =
        summaries.iter().any(|s| !s.is_available() && s.generation == observed_generation);
    let fresh = match (case, status) {
        (Case::NoRequiredAdapters, _) => Some(facts.changed),
        (Case::AllAtOneGeneration, _) => facts.oldest_at(observed_generation),
        (_, Status::False) if unavailable_there => facts.oldest_at(observed_generation),
        _ => None,
    };
    let (reason, message) = words(case, facts);
    ConditionContent {
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
            let generations =
                facts.adapters.iter().filter_map(|a| Some(format!("{} ({})", a.name, a.summary?.generation)));
            let message = format!("Required adapters report different generations: {}", join(generations));
            ("AdaptersNotAtSameGeneration", message.into())
        }
        Case::SomeNotAvailable | Case::NotAvailableAtTheTrackedGeneration => {
            let unavailable = facts
                .adapters
                .iter()
                .filter(|a| a.summary.is_some_and(|s| !s.is_available()))
                .map(|a| a.name);
            let message =
                format!("One or more required adapters report Available=False: {}", join(unavailable));
            ("AdapterReportedNotAvailable", message.into())
        }
    }
}
