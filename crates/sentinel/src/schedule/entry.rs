//! The entry of one resource.

use hyperfleet_core::Timestamp;

use super::takeover::TakeoverBuffer;
use crate::backoff::later;
use crate::decide::{Published, Reason, STALE_AFTER, never_published};
use crate::observed::{Observed, Reconciled};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) observed: Observed,
    pub(super) published: Option<Published>,
    pub(super) next: Next,
    /// Its newest line in the queue.
    pub(super) line: u64,
    /// The resync during or after which it was last observed.
    pub(super) resync: u64,
    /// When its newest change was observed.
    pub(super) noticed: Timestamp,
    pub(super) failures: u32,
    pub(super) not_before: Option<Timestamp>,
    /// Whether it was observed since its event was published.
    pub(super) observed_since: bool,
    /// Whether it is of a history that the API may not have any more.
    pub(super) is_outdated: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Publish(Reason),
    /// Reconciled; kept for a while because of the time of its last event.
    Forget,
    InFlight {
        ticket: u64,
        record: Published,
    },
}

impl Entry {
    /// A new entry, with what another replica has published.
    pub(super) fn new(observed: Observed, published: Option<Published>, resync: u64, now: Timestamp) -> Self {
        Self {
            observed,
            published,
            next: Next::Forget,
            line: 0,
            resync,
            noticed: now,
            failures: 0,
            not_before: None,
            observed_since: false,
            is_outdated: false,
        }
    }

    /// Takes an observation. Returns false if the entry has a newer one.
    pub(super) fn observe(&mut self, mut observed: Observed, resync: u64, now: Timestamp) -> bool {
        self.resync = resync;
        if std::mem::take(&mut self.is_outdated) {
            self.published = None;
        } else if observed.is_older_than(&self.observed) {
            return false;
        } else {
            observed.follow(&self.observed);
        }
        if (observed.generation, observed.inputs) != (self.observed.generation, self.observed.inputs) {
            self.noticed = now;
        }
        self.observed = observed;
        self.observed_since = true;
        true
    }

    /// Whether an event is due that no resync would find.
    pub(super) fn only_known_here(&self) -> bool {
        TakeoverBuffer::accepts(&self.observed) && never_published(&self.observed, self.published.as_ref())
    }

    /// Until when the time of the last event of a reconciled resource decides whether it is stale.
    pub(super) fn worth_keeping(&self) -> Option<Timestamp> {
        let Reconciled::Yes { confirmed } = self.observed.reconciled else { return None };
        let published = self.published.filter(|_| self.observed.has_adapters)?;
        (confirmed < Some(published.at)).then(|| later(published.at, STALE_AFTER))
    }
}
