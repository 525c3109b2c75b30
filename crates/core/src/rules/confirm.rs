//! The short way for a report that says what its adapter has said before: every condition stays, and only the
//! times at which they were confirmed move. Nothing is computed that is known not to change; if the conditions
//! are not those that the facts lead to, because the configuration says something new, it is left to the long
//! way.

use std::borrow::Cow;

use serde::Deserialize;

use super::facts::{Claim, Facts};
use super::{last_known, reconciled};
use crate::entity::adapter_condition_type;
use crate::{Condition, RawJson, Status, Timestamp, condition};

/// A condition, looked at where it stands.
#[derive(Deserialize)]
struct Glance<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    status: Status,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    observed_generation: i64,
    last_updated_time: Timestamp,
}

/// `conditions` with the times that `facts` give them; `None` when more than times would change.
pub(super) fn confirmed(facts: &Facts<'_>, conditions: &RawJson) -> Option<RawJson> {
    let glances: Vec<Glance<'_>> = serde_json::from_str(conditions.as_str()).ok()?;
    let [reconciled, known, adapters @ ..] = glances.as_slice() else { return None };
    let mut times = Vec::with_capacity(glances.len());
    times.push(reconciled.confirmed(reconciled::TYPE, &reconciled::claim(facts))?);
    times.push(known.confirmed(last_known::TYPE, &last_known::claim(facts, Some(&known.condition())))?);

    let reported = facts.adapters.iter().filter_map(|adapter| Some((adapter.name, adapter.snapshot?)));
    if reported.clone().count() != adapters.len() {
        return None;
    }
    for ((name, snapshot), glance) in reported.zip(adapters) {
        let status = if snapshot.is_available() { Status::True } else { Status::False };
        let stays = glance.kind == adapter_condition_type(name)
            && glance.says(status, &snapshot.reason, &snapshot.message, snapshot.generation);
        times.push(stays.then_some(snapshot.time)?);
    }
    Some(condition::with_last_updated_times(conditions.as_str(), times))
}

impl Glance<'_> {
    /// When the condition is confirmed by `claim`, if that is what it says.
    fn confirmed(&self, kind: &str, claim: &Claim) -> Option<Timestamp> {
        let stays = self.kind == kind
            && self.says(claim.status, &claim.reason, &claim.message, claim.observed_generation);
        stays.then_some(claim.last_updated_time)
    }

    fn says(&self, status: Status, reason: &str, message: &str, observed_generation: i64) -> bool {
        self.status == status
            && self.reason == reason
            && self.message == message
            && self.observed_generation == observed_generation
    }

    fn condition(&self) -> Condition {
        Condition {
            kind: String::new(),
            status: self.status,
            reason: String::new(),
            message: String::new(),
            observed_generation: self.observed_generation,
            created_time: self.last_updated_time,
            last_updated_time: self.last_updated_time,
            last_transition_time: self.last_updated_time,
        }
    }
}
