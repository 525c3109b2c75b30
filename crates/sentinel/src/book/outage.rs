//! Publishing fails: one event at a time tries whether it works again.

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};

#[derive(Debug)]
pub(super) struct Outage {
    failures: u32,
    /// When to try again.
    pub(super) until: Timestamp,
    /// Failures of what was under way when it began tell nothing new.
    first_try: u64,
}

impl Outage {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { failures: 0, until: now, first_try: 0 }
    }

    /// The event of this ticket failed; the next one will have that ticket.
    pub(super) fn failed(&mut self, ticket: u64, next_ticket: u64, now: Timestamp, chance: f64) {
        if ticket >= self.first_try {
            self.failures += 1;
            self.until = later(now, after_failures(self.failures, chance, None));
            self.first_try = next_ticket;
        }
    }
}
