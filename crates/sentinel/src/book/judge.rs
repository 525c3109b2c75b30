//! The table of decisions, or what is configured instead of it.

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::custom::MessageDecision;
use crate::decide::{COALESCE, Decision, Published, Reason, Skip, decide};
use crate::seen::Seen;

#[derive(Debug)]
pub(super) struct Judge {
    custom: Option<MessageDecision>,
    /// What the configured decision last failed with.
    pub(super) fault: Option<String>,
}

impl Judge {
    pub(super) fn new(custom: Option<MessageDecision>) -> Self {
        Self { custom, fault: None }
    }

    /// Whether a decision of one's own is configured.
    pub(super) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    pub(super) fn decide(&mut self, seen: &Seen, published: Option<&Published>, now: Timestamp) -> Decision {
        let Some(custom) = &self.custom else { return decide(seen, published, now) };
        match custom.holds(&seen.resource, now) {
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
