//! The change feed: every change in the order of versions. One task per process reads it from the database into a ring
//! buffer. Each follower has an access scope and a filter, and gets an event for every object that enters its result,
//! changes in it or leaves it.
//!
//! The task reads when the committer or a `NOTIFY` of another replica announces a version, and once a second in case
//! an announcement was lost.

mod follower;
mod page;
mod reader;
mod ring_buffer;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyperfleet_core::{Epoch, FeedPosition, Resource, Timestamp, Version, printed_size};
use tokio::sync::{Notify, watch};

pub(crate) use follower::just_restored;
pub use follower::{Event, EventKind, EventPage, Follower, history_expired, history_replaced, not_kept};
pub(crate) use page::{FeedPage, FeedRow, Later, StoredChange};
pub(crate) use reader::{BATCH_WINDOW, PAGE_SIZE, run};
pub use ring_buffer::{Buffered, RingBuffer, Versioned};
pub use snapshot::FeedSnapshot;

/// One change: the resource before and after it.
#[derive(Debug)]
pub(crate) struct FeedChange {
    version: Version,
    at: Timestamp,
    /// `None` for a created resource.
    before: Option<Arc<Resource>>,
    /// For a deleted resource, its last state.
    after: Arc<Resource>,
    deleted: bool,
}

impl Versioned for FeedChange {
    fn version(&self) -> Version {
        self.version
    }

    fn size(&self) -> usize {
        let after = &self.after;
        // Both states share unchanged members.
        let own = |before: &Arc<Resource>| {
            let parts = [
                (&before.spec, &after.spec),
                (&before.labels, &after.labels),
                (&before.references, &after.references),
                (&before.conditions, &after.conditions),
            ];
            let changed = parts.into_iter().filter(|(before, after)| !before.shares(after));
            changed.map(|(before, _)| before.as_str().len()).sum::<usize>()
        };
        printed_size(after) + self.before.as_ref().map_or(0, own) + 1024
    }
}

/// Recent changes, and the wake-up of the task that reads them.
#[derive(Clone, Default)]
pub(crate) struct Feed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    buffer: Mutex<RingBuffer<FeedChange>>,
    /// The last version in the buffer.
    head: watch::Sender<Version>,
    seen: Mutex<Seen>,
    wake: Notify,
    followers: AtomicUsize,
}

/// The newest versions that this process has seen or heard of.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    epoch: Epoch,
    newest: BTreeMap<Epoch, Version>,
}

impl Seen {
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn newest(&self) -> Version {
        self.newest.get(&self.epoch).copied().unwrap_or_default()
    }

    /// Whether a database that is found at this position afterwards has lost changes, such as by a restored backup.
    pub(crate) fn is_ahead_of(&self, found: FeedPosition) -> bool {
        self.newest.get(&found.epoch).is_some_and(|newest| *newest > found.version)
    }
}

/// The ends of the history that the database keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedBounds {
    /// The newest version that was pruned.
    pub pruned: Version,
    /// The newest version.
    pub newest: FeedPosition,
}

impl Feed {
    /// Announces that `version` is committed.
    pub(crate) fn announce(&self, version: Version) {
        let Seen { epoch, newest } = &mut *self.lock_seen();
        if let Some(known) = newest.get_mut(epoch).filter(|known| **known < version) {
            *known = version;
            if self.is_followed() {
                self.0.wake.notify_one();
            }
        }
    }

    /// The epoch that the database had last. What is read or written afterwards is of this epoch or a later one. So a
    /// position with it may be refused, but is never taken for a part of another history.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lock_seen().epoch
    }

    pub(crate) fn seen(&self) -> Seen {
        self.lock_seen().clone()
    }

    /// Begins the buffer after the newest position of the database. In a new epoch every follower ends.
    pub(crate) fn restart(&self, newest: FeedPosition) {
        let mut seen = self.lock_seen();
        if seen.epoch != newest.epoch && !seen.newest.is_empty() {
            tracing::warn!(
                before = %seen.epoch, now = %newest.epoch,
                "the database has a new epoch: watches begin again, and entity tags of before are refused"
            );
        }
        seen.epoch = newest.epoch;
        let known = seen.newest.entry(newest.epoch).or_default();
        *known = newest.version.max(*known);
        drop(seen);
        self.buffer().restart(Some(newest.version));
        self.0.head.send_replace(newest.version);
    }

    /// Has the task read, whatever was announced.
    pub(crate) fn wake(&self) {
        self.0.wake.notify_one();
    }

    fn is_followed(&self) -> bool {
        self.0.followers.load(Ordering::Relaxed) > 0
    }

    /// Nothing panics while it is locked.
    fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic while the buffer is locked leaves it unchanged or empty; both are valid.
    fn buffer(&self) -> MutexGuard<'_, RingBuffer<FeedChange>> {
        self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
