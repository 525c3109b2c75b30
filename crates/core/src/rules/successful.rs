//! `<Name>Successful`: what each required adapter says itself.

use super::facts::{Claim, Facts};
use crate::entity::adapter_condition_type;
use crate::{Condition, Status};

/// One condition per required adapter that has reported, in configured order.
pub(super) fn conditions<'a>(
    facts: &Facts<'_>,
    previous: impl Fn(&str) -> Option<&'a Condition>,
) -> Vec<Condition> {
    let reported = facts.adapters.iter().filter_map(|adapter| Some((adapter.name, adapter.snapshot?)));
    reported
        .map(|(name, snapshot)| {
            let kind = adapter_condition_type(name);
            let previous = previous(&kind);
            let claim = Claim {
                status: if snapshot.is_available() { Status::True } else { Status::False },
                reason: snapshot.reason.to_string(),
                message: snapshot.message.to_string(),
                observed_generation: snapshot.generation,
                last_updated_time: snapshot.time,
            };
            let since = previous
                .filter(|p| p.status == claim.status)
                .map_or(snapshot.time, |p| p.last_transition_time);
            facts.condition_since(&kind, previous, claim, since)
        })
        .collect()
}
