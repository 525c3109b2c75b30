//! The table of decisions, or the configured decision.

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::custom::MessageDecision;
use crate::decide::{COALESCE, Decision, Published, Reason, Skip, decide};
use crate::observed::Observed;

#[derive(Debug)]
pub(super) struct Decider {
    custom: Option<MessageDecision>,
    /// The last failure of the configured decision.
    pub(super) fault: Option<String>,
}

impl Decider {
    pub(super) fn new(custom: Option<MessageDecision>) -> Self {
        Self { custom, fault: None }
    }

    /// Whether a decision is configured.
    pub(super) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    pub(super) fn decide(
        &mut self,
        observed: &Observed,
        published: Option<&Published>,
        now: Timestamp,
    ) -> Decision {
        let Some(custom) = &self.custom else { return decide(observed, published, now) };
        match custom.holds(&observed.resource, observed.by_api(now)) {
            Ok(true) => {
                let settled = published.map(|published| later(published.at, COALESCE));
                match settled.filter(|until| *until > now) {
                    Some(until) => {
                        Decision::Wait { until, reason: Reason::MessageDecision, skip: Skip::Coalesced }
                    }
                    None => Decision::Publish(Reason::MessageDecision),
                }
            }
            Ok(false) => Decision::Rest(Skip::MessageDecision),
            Err(message) => {
                self.fault = Some(message);
                Decision::Rest(Skip::DecisionFailed)
            }
        }
    }
}
