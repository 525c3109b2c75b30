//! Changes that only their moment shows, of resources that others look after. Nothing tells later that an event for
//! one was due, and whoever was to publish it may be gone: so everybody remembers them for as long as a range takes to
//! change hands, and whoever gets the range, or stands in for who does, publishes them, once more perhaps.

use std::collections::VecDeque;
use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::decide::never_published;
use crate::ranges::Ranges;
use crate::seen::Seen;

/// Twice as long as it takes until the ranges of a dead replica have moved: it may have had trouble before it died.
const REMEMBERED: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(super) struct News(VecDeque<(Timestamp, Seen)>);

impl News {
    /// Whether an event for it would be owed now and by nothing that a look can find.
    pub(super) fn is_such(seen: &Seen) -> bool {
        seen.is_reconciled() && never_published(seen, None)
    }

    pub(super) fn hear(&mut self, seen: Seen, now: Timestamp) {
        self.0.push_back((now, seen));
    }

    /// Those of these ranges, which are not others' any more. The rest is forgotten when it is old.
    pub(super) fn take(&mut self, ranges: Ranges, now: Timestamp) -> Vec<Seen> {
        let mut taken = Vec::new();
        if self.0.iter().any(|(_, seen)| ranges.covers(&seen.id)) {
            self.0.retain(|(_, seen)| {
                let moves = ranges.covers(&seen.id);
                if moves {
                    taken.push(seen.clone());
                }
                !moves
            });
        }
        while self.0.front().is_some_and(|(heard, _)| later(*heard, REMEMBERED) <= now) {
            self.0.pop_front();
        }
        taken
    }
}
