//! `<Name>Successful`: what each required adapter says itself.

use super::facts::{Claim, Facts};
use crate::{Condition, Standing, Status};

/// One condition per required adapter that has reported, in configured order.
pub(super) fn conditions<'a>(
    facts: &Facts<'_>,
    previous: impl Fn(&str) -> Option<&'a Condition>,
) -> Vec<Condition> {
    let reported = facts.adapters.iter().filter_map(|adapter| Some((adapter.condition, adapter.snapshot?)));
    reported
        .map(|(kind, snapshot)| {
            let previous = previous(kind);
            let claim = claim(snapshot);
            let since = previous
                .filter(|p| p.status == claim.status)
                .map_or(snapshot.time, |p| p.last_transition_time);
            facts.condition_since(kind, previous, claim, since)
        })
        .collect()
}

/// What an adapter that stands like this says.
pub(super) fn claim(standing: &Standing) -> Claim<'_> {
    Claim {
        status: if standing.is_available() { Status::True } else { Status::False },
        reason: (&*standing.reason).into(),
        message: (&*standing.message).into(),
        observed_generation: standing.generation,
        last_updated_time: standing.time,
    }
}
