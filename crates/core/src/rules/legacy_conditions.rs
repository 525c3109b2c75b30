//! `Available` and `Ready`, the conditions of the first API revision, for clients that still read them. They follow the
//! tables of that revision, which update a condition from the incoming report instead of computing it anew: a condition
//! that no row names stays as it was.

use super::facts::{ConditionContent, Facts};
use crate::{Condition, ReportSummary, ReportedStatus, Status, Timestamp};

const AVAILABLE: &str = "Available";
const READY: &str = "Ready";

/// The types of these conditions.
pub(super) const TYPES: [&str; 2] = [AVAILABLE, READY];

const AWAITING: (&str, &str) = ("AwaitingAdapters", "Waiting for adapters to report status");

/// Both conditions, after `previous`.
pub(super) fn conditions<'a>(
    facts: &Facts<'_>,
    previous: impl Fn(&str) -> Option<&'a Condition>,
) -> [Condition; 2] {
    let make = |kind: &str, step: Step| {
        let content = step.content(facts, previous(kind));
        facts.condition_since(kind, previous(kind), content.0, content.1)
    };
    [make(AVAILABLE, available(facts, previous(AVAILABLE))), make(READY, ready(facts, previous(READY)))]
}

/// What a row of the tables does to a condition. `None` is the tables' "no change".
struct Step {
    status: Status,
    words: Option<(&'static str, String)>,
    observed_generation: Option<i64>,
    last_updated_time: Option<Timestamp>,
    last_transition_time: Option<Timestamp>,
}

impl Step {
    /// The condition stays as it was; one that was not there is as at creation.
    fn unchanged(status: Status) -> Self {
        Self {
            status,
            words: None,
            observed_generation: None,
            last_updated_time: None,
            last_transition_time: None,
        }
    }

    fn content(
        self,
        facts: &Facts<'_>,
        previous: Option<&Condition>,
    ) -> (ConditionContent<'static>, Timestamp) {
        let (reason, message) = match (self.words, previous) {
            (Some((reason, message)), _) => (reason.to_owned(), message),
            (None, Some(p)) => (p.reason.clone(), p.message.clone()),
            (None, None) => (AWAITING.0.to_owned(), AWAITING.1.to_owned()),
        };
        let content = ConditionContent {
            status: self.status,
            reason: reason.into(),
            message: message.into(),
            observed_generation: self
                .observed_generation
                .unwrap_or_else(|| previous.map_or(1, |p| p.observed_generation)),
            last_updated_time: self
                .last_updated_time
                .unwrap_or_else(|| previous.map_or(facts.changed, |p| p.last_updated_time)),
        };
        let since = self
            .last_transition_time
            .unwrap_or_else(|| previous.map_or(facts.changed, |p| p.last_transition_time));
        (content, since)
    }
}

/// `Ready`: every required adapter is available at the present generation.
fn ready(facts: &Facts<'_>, previous: Option<&Condition>) -> Step {
    let generation = facts.generation;
    let was = previous.map_or(Status::False, |p| p.status);
    let ready = facts.adapters.iter().all(|a| a.is_at(generation))
        && facts.summaries().all(ReportSummary::is_available);
    let unavailable = facts.summaries().any(|s| s.generation == generation && !s.is_available());
    let words = if ready {
        ("ResourceReady", "All adapters report ready at current generation".to_owned())
    } else if unavailable {
        not_available(facts, generation)
    } else {
        (AWAITING.0, AWAITING.1.to_owned())
    };
    let step = |status, updated, transition| Step {
        status,
        words: Some(words.clone()),
        observed_generation: Some(generation),
        last_updated_time: updated,
        last_transition_time: transition,
    };

    let is_new = previous.is_none_or(|p| p.observed_generation != generation);
    match cause(facts) {
        // Creation, a new generation, or other adapters configured.
        None => {
            let status = if ready { Status::True } else { Status::False };
            let transition = (previous.is_none() || status != was).then_some(facts.changed);
            step(status, (is_new || transition.is_some()).then_some(facts.changed), transition)
        }
        Some(report) if report.available == ReportedStatus::True => {
            if report.generation == generation && ready {
                let transition = (was == Status::False).then_some(report.time);
                step(Status::True, oldest(facts), transition)
            } else if was == Status::False && facts.adapters.iter().any(|a| a.summary.is_none()) {
                step(was, Some(facts.now), None)
            } else {
                Step { words: (was == Status::False).then_some(words), ..Step::unchanged(was) }
            }
        }
        Some(report) if report.generation == generation => match was {
            Status::False => step(was, oldest(facts), None),
            Status::True => step(Status::False, Some(report.time), Some(report.time)),
        },
        Some(_) => Step::unchanged(was),
    }
}

/// `Available`: the adapters' common status at one generation, whichever it is.
fn available(facts: &Facts<'_>, previous: Option<&Condition>) -> Step {
    let was = previous.map_or(Status::False, |p| p.status);
    let Some(common) = common_generation(facts) else {
        return match previous {
            None => Step { observed_generation: Some(facts.generation), ..Step::unchanged(was) },
            Some(_) => Step::unchanged(was),
        };
    };
    let report = cause(facts);
    if report.is_some_and(|report| report.generation != common) {
        return Step::unchanged(was);
    }
    let status =
        if facts.summaries().all(ReportSummary::is_available) { Status::True } else { Status::False };
    // A generation, a deletion or a child changes nothing here; only another set of adapters does.
    if report.is_none() && status == was && previous.is_some() {
        return Step::unchanged(was);
    }
    let moment = report.map_or(facts.changed, |report| report.time);
    let became_false = was == Status::True && status == Status::False;
    Step {
        status,
        words: Some(match status {
            Status::True => ("ResourceAvailable", format!("{} is accessible", facts.kind)),
            Status::False => not_available(facts, common),
        }),
        observed_generation: Some(common),
        last_updated_time: if became_false { Some(moment) } else { oldest(facts).or(Some(moment)) },
        last_transition_time: (status != was || previous.is_none()).then_some(moment),
    }
}

/// The summary of the adapter whose report is being processed. Adapters that are not required do not affect these
/// conditions.
fn cause<'a>(facts: &Facts<'a>) -> Option<&'a ReportSummary> {
    let report = facts.cause?;
    facts.adapters.iter().find(|a| *a.name == *report.adapter).and_then(|a| a.summary)
}

/// The generation that every required adapter has reported on, if it is one.
fn common_generation(facts: &Facts<'_>) -> Option<i64> {
    let Some(first) = facts.adapters.first() else { return Some(facts.generation) };
    let generation = first.summary?.generation;
    facts.adapters.iter().all(|a| a.is_at(generation)).then_some(generation)
}

fn oldest(facts: &Facts<'_>) -> Option<Timestamp> {
    facts.summaries().map(|s| s.time).min()
}

fn not_available(facts: &Facts<'_>, generation: i64) -> (&'static str, String) {
    let unavailable = facts
        .adapters
        .iter()
        .filter(|a| a.summary.is_some_and(|s| s.generation == generation && !s.is_available()))
        .map(super::facts::Adapter::with_reason);
    let message = format!("Adapters reporting Available=False: {}", super::facts::join(unavailable));
    ("AdapterReportedNotAvailable", message)
}
