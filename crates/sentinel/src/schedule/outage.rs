//! While publishing fails, one event at a time is tried after a back-off.

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};

#[derive(Debug)]
pub(super) struct Outage {
    failures: u32,
    /// When to try again.
    pub(super) until: Timestamp,
    /// Failures of earlier tickets were in flight before and do not count.
    first_try: u64,
}

impl Outage {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { failures: 0, until: now, first_try: 0 }
    }

    /// The event of `ticket` failed.
    pub(super) fn failed(&mut self, ticket: u64, next_ticket: u64, now: Timestamp, jitter: f64) {
        if ticket >= self.first_try {
            self.failures += 1;
            self.until = later(now, after_failures(self.failures, jitter, None));
            self.first_try = next_ticket;
        }
    }
}
