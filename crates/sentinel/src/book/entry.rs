//! What is known of one resource.

use hyperfleet_core::Timestamp;

use super::news::News;
use crate::backoff::later;
use crate::decide::{Published, Reason, STALE_AFTER, never_published};
use crate::seen::{Reconciled, Seen};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) seen: Seen,
    pub(super) published: Option<Published>,
    pub(super) next: Next,
    /// The line of the queue that counts.
    pub(super) line: u64,
    /// The look during or after which it was last seen.
    pub(super) look: u64,
    /// When the newest change was noticed.
    pub(super) noticed: Timestamp,
    pub(super) failures: u32,
    pub(super) not_before: Option<Timestamp>,
    /// Seen again since its event went out.
    pub(super) seen_since: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Publish(Reason),
    /// Reconciled; only the time of its last event is worth knowing, until it is not.
    Forget,
    InFlight {
        ticket: u64,
        record: Published,
    },
}

impl Entry {
    /// A resource that was not known, and what somebody else has published for it.
    pub(super) fn new(seen: Seen, published: Option<Published>, look: u64, now: Timestamp) -> Self {
        Self {
            seen,
            published,
            next: Next::Forget,
            line: 0,
            look,
            noticed: now,
            failures: 0,
            not_before: None,
            seen_since: false,
        }
    }

    /// It was seen again. False when what was seen is older than what is known.
    pub(super) fn see(&mut self, mut seen: Seen, look: u64, now: Timestamp) -> bool {
        self.look = look;
        if seen.is_older_than(&self.seen) {
            return false;
        }
        seen.follow(&self.seen);
        if (seen.generation, seen.inputs) != (self.seen.generation, self.seen.inputs) {
            self.noticed = now;
        }
        self.seen = seen;
        self.seen_since = true;
        true
    }

    /// Whether an event is owed that no look would find.
    pub(super) fn only_known_here(&self) -> bool {
        News::is_such(&self.seen) && never_published(&self.seen, self.published.as_ref())
    }

    /// Until when the last event of a reconciled resource says more than the resource itself does.
    pub(super) fn worth_keeping(&self) -> Option<Timestamp> {
        let Reconciled::Yes { confirmed } = self.seen.reconciled else { return None };
        let published = self.published.filter(|_| self.seen.has_adapters)?;
        (confirmed < Some(published.at)).then(|| later(published.at, STALE_AFTER))
    }
}
