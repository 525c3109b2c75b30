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

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyperfleet_core::{Resource, Timestamp, Version, printed_size};
use tokio::sync::{Notify, watch};

pub use follower::history_expired;
pub use follower::{Event, EventKind, EventPage, Follower};
pub(crate) use page::{FeedPage, FeedRow, Later, StoredChange};
pub(crate) use reader::{BATCH_WINDOW, PAGE_SIZE, run};
pub use ring_buffer::{Buffered, RingBuffer, SLICE_BYTES, Versioned};
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
    /// The newest version that was announced.
    announced: AtomicI64,
    wake: Notify,
    /// How often the database was found at an older version than before, such as after a restored backup.
    resets: AtomicUsize,
    followers: AtomicUsize,
}

impl Feed {
    /// Announces that `version` is committed.
    pub(crate) fn announce(&self, version: Version) {
        let before = self.0.announced.fetch_max(version.0, Ordering::Relaxed);
        if before < version.0 && self.is_followed() {
            self.0.wake.notify_one();
        }
    }

    /// Has the task read, whatever was announced.
    pub(crate) fn wake(&self) {
        self.0.wake.notify_one();
    }

    fn resets(&self) -> usize {
        self.0.resets.load(Ordering::Relaxed)
    }

    fn is_followed(&self) -> bool {
        self.0.followers.load(Ordering::Relaxed) > 0
    }

    /// A panic while the buffer is locked leaves it unchanged or empty; both are valid.
    fn buffer(&self) -> MutexGuard<'_, RingBuffer<FeedChange>> {
        self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
