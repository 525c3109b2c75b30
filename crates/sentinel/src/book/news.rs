//! Changes that only their moment shows, of resources that others look after. Nothing tells later that an event for
//! one was due, and whoever was to publish it may be gone: so everybody remembers them for as long as a range takes to
//! change hands, and whoever gets the range, or stands in for who does, publishes them, once more perhaps.
//!
//! There is one for a resource, its latest, and never more than [`MOST`]. What is done for every input of a replica
//! must not look through them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::decide::never_published;
use crate::ranges::Ranges;
use crate::seen::Seen;

/// Twice as long as it takes until the ranges of a dead replica have moved: it may have had trouble before it died.
const REMEMBERED: Duration = Duration::from_secs(20);
/// How many are remembered: of 1,500 resources a second for that long. Nothing becomes old while nobody knows whose
/// the ranges are, so that only this bounds what an outage collects.
const MOST: usize = 30_000;

#[derive(Debug, Default)]
pub(super) struct News {
    /// In the order in which they were heard.
    heard: BTreeMap<u64, (Timestamp, Seen)>,
    places: HashMap<Arc<str>, u64>,
    /// Counts what was heard.
    counter: u64,
    /// Those that made room for others before they were old, since that was last asked.
    pub(super) displaced: u64,
}

impl News {
    /// Whether an event for it would be owed now and by nothing that a look can find.
    pub(super) fn is_such(seen: &Seen) -> bool {
        seen.is_reconciled() && never_published(seen, None)
    }

    pub(super) fn hear(&mut self, seen: Seen, now: Timestamp) {
        self.forget(&seen.id);
        if self.heard.len() >= MOST {
            self.forget_first();
            self.displaced += 1;
        }
        self.counter += 1;
        self.places.insert(seen.id.clone(), self.counter);
        self.heard.insert(self.counter, (now, seen));
    }

    /// Nobody is owed an event for this any more.
    pub(super) fn forget(&mut self, id: &str) {
        if let Some(place) = self.places.remove(id) {
            self.heard.remove(&place);
        }
    }

    /// Those of these ranges, which are not others' any more. This looks at every one.
    pub(super) fn take(&mut self, ranges: Ranges) -> Vec<Seen> {
        let of_them = self.heard.values().map(|(_, seen)| seen).filter(|seen| ranges.covers(&seen.id));
        let taken: Vec<_> = of_them.cloned().collect();
        taken.iter().for_each(|seen| self.forget(&seen.id));
        taken
    }

    /// Forgets what is old.
    pub(super) fn expire(&mut self, now: Timestamp) {
        if self.heard.last_key_value().is_some_and(|(_, (heard, _))| *heard > now) {
            // The clock was put back. Once is enough: whatever is heard from here on is later than this.
            self.heard.values_mut().for_each(|(heard, _)| *heard = now.min(*heard));
        }
        while self.heard.first_key_value().is_some_and(|(_, (heard, _))| later(*heard, REMEMBERED) <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, (_, seen))) = self.heard.pop_first() {
            self.places.remove(&seen.id);
        }
    }
}

#[cfg(test)]
mod tests;
