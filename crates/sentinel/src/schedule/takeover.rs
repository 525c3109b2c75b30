//! Watched changes of resources in ranges of other replicas, for which no resync would find a due event. The owner may die
//! before it publishes. So every replica buffers these changes for as long as a takeover lasts, and the new owner or a
//! standby publishes them, possibly again.
//!
//! The buffer holds the latest change of a resource, and at most [`CAPACITY`]. It is not scanned for every input.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::decide::never_published;
use crate::observed::Observed;
use crate::ranges::Ranges;

/// Twice the time of a takeover, because a replica may fail for a while before it dies.
const RETENTION: Duration = Duration::from_secs(20);
/// 1,500 changes a second for that long. Nothing expires while ownership has lapsed, so this bounds the buffer then.
const CAPACITY: usize = 30_000;

#[derive(Debug, Default)]
pub(super) struct TakeoverBuffer {
    /// In order of arrival.
    changes: BTreeMap<u64, (Timestamp, Observed)>,
    positions: HashMap<Arc<str>, u64>,
    counter: u64,
    /// Changes that were dropped because the buffer was full.
    pub(super) displaced: u64,
}

impl TakeoverBuffer {
    /// Whether an event is due that no resync would find.
    pub(super) fn accepts(observed: &Observed) -> bool {
        observed.is_reconciled() && never_published(observed, None)
    }

    pub(super) fn remember(&mut self, observed: Observed, now: Timestamp) {
        self.forget(&observed.id);
        if self.changes.len() >= CAPACITY {
            self.forget_first();
            self.displaced += 1;
        }
        self.counter += 1;
        self.positions.insert(observed.id.clone(), self.counter);
        self.changes.insert(self.counter, (now, observed));
    }

    pub(super) fn forget(&mut self, id: &str) {
        if let Some(position) = self.positions.remove(id) {
            self.changes.remove(&position);
        }
    }

    /// Takes the changes of these ranges, scanning the buffer.
    pub(super) fn take(&mut self, ranges: Ranges) -> Vec<Observed> {
        let of_them = self
            .changes
            .values()
            .map(|(_, observed)| observed)
            .filter(|observed| ranges.covers(&observed.id));
        let taken: Vec<_> = of_them.cloned().collect();
        taken.iter().for_each(|observed| self.forget(&observed.id));
        taken
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        while self.changes.first_key_value().is_some_and(|(_, (at, _))| later(*at, RETENTION) <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, (_, observed))) = self.changes.pop_first() {
            self.positions.remove(&observed.id);
        }
    }
}

#[cfg(test)]
mod tests;
