//! `<Name>Successful`: what each required adapter reports itself.

use super::facts::{ConditionContent, Facts};
use crate::{Condition, ReportSummary, Status};

/// One condition per required adapter that has reported, in configured order.
pub(super) fn conditions<'a>(
    facts: &Facts<'_>,
    previous: impl Fn(&str) -> Option<&'a Condition>,
) -> Vec<Condition> {
    let reported = facts.adapters.iter().filter_map(|adapter| Some((adapter.condition, adapter.summary?)));
    reported
        .map(|(kind, summary)| {
            let previous = previous(kind);
            let content = content(summary);
            let since = previous
                .filter(|p| p.status == content.status)
                .map_or(summary.time, |p| p.last_transition_time);
            facts.condition_since(kind, previous, content, since)
        })
        .collect()
}

/// The condition of an adapter with this summary.
pub(super) fn content(summary: &ReportSummary) -> ConditionContent<'_> {
    ConditionContent {
        status: if summary.is_available() { Status::True } else { Status::False },
        reason: (&*summary.reason).into(),
        message: (&*summary.message).into(),
        observed_generation: summary.generation,
        last_updated_time: summary.time,
    }
}
