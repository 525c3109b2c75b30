//! The change feed: what happened, in the order of versions, told at once. One task per process reads it from the
//! database, however many follow. Whoever follows does so with their own sight and filter, and is told what came into
//! their result, changed in it, and left it.
//!
//! A bell tells that there is something to read: the committer's for what was written here, a `NOTIFY` for what was
//! written elsewhere. Nobody relies on bells; a timer looks too.

mod follower;
mod present;
mod reader;
mod ring;
mod trail;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyperfleet_core::{Resource, Timestamp, Version, printed_size};
use tokio::sync::{Notify, watch};

pub use follower::no_longer_kept;
pub use follower::{Batch, Event, EventKind, Follower};
pub use present::Present;
pub(crate) use reader::{PACE, PAGE_SIZE, run};
pub use ring::{Held, Ring, SLICE_BYTES, Versioned};
pub(crate) use trail::{KeptChange, PAGE, STATES, Trail, TrailRow};

/// One change: the resource before and after it.
#[derive(Debug)]
pub(crate) struct Step {
    version: Version,
    at: Timestamp,
    /// `None` if it was just made.
    before: Option<Arc<Resource>>,
    /// If it is gone, what was left of it.
    after: Arc<Resource>,
    gone: bool,
}

impl Versioned for Step {
    fn version(&self) -> Version {
        self.version
    }

    fn size(&self) -> usize {
        let after = &self.after;
        // Both states share what did not change.
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

/// What happened lately, and the bell.
#[derive(Clone, Default)]
pub(crate) struct Feed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    ring: Mutex<Ring<Step>>,
    /// Changes when the ring does.
    head: watch::Sender<Version>,
    /// The newest version that anyone told of.
    heard: AtomicI64,
    bell: Notify,
    /// How often the database was found to know less than before: another one, or an older copy.
    losses: AtomicUsize,
    followers: AtomicUsize,
}

impl Feed {
    /// Tells that there is something up to `version`.
    pub(crate) fn tell(&self, version: Version) {
        let before = self.0.heard.fetch_max(version.0, Ordering::Relaxed);
        if before < version.0 && self.is_followed() {
            self.0.bell.notify_one();
        }
    }

    /// Has the reader look, whatever it knows.
    pub(crate) fn look(&self) {
        self.0.bell.notify_one();
    }

    fn losses(&self) -> usize {
        self.0.losses.load(Ordering::Relaxed)
    }

    fn is_followed(&self) -> bool {
        self.0.followers.load(Ordering::Relaxed) > 0
    }

    /// A panic while the ring is held leaves it as it was or emptied; both are true.
    fn ring(&self) -> MutexGuard<'_, Ring<Step>> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
