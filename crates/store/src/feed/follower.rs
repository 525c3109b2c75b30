//! A follower of the feed: an access scope, a filter and a position.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::search::{Candidate, Filter};
use hyperfleet_core::{
    AccessScope, Error, ErrorKind, Fault, FaultKind, Resource, Timestamp, Version, printed_size,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::reader::PAGE_SIZE;
use super::ring_buffer::Buffered;
use super::{Feed, FeedChange};
use crate::Store;

/// Roughly the most bytes of events in a batch.
const MAX_BYTES: usize = 4 << 20;

/// As good as no deadline.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// What a change means for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The object entered the result.
    Added,
    /// The object changed in the result.
    Modified,
    /// The object left the result or was deleted.
    Deleted,
}

impl EventKind {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change of a result.
#[derive(Debug, Clone)]
pub struct Event {
    /// What it means for the result.
    pub kind: EventKind,
    /// The version of the change.
    pub version: Version,
    /// When; `None` for an object of a snapshot.
    pub at: Option<Timestamp>,
    /// The object after the change; if it was deleted or left the scope, its last visible state.
    pub object: Arc<Resource>,
}

/// Events up to some version.
#[derive(Debug)]
pub struct EventPage {
    /// In the order of versions.
    pub events: Vec<Event>,
    /// There are no other events up to this version.
    pub through: Version,
}

/// See the module.
pub struct Follower {
    store: Store,
    head: watch::Receiver<Version>,
    scope: AccessScope,
    filter: Filter,
    position: Version,
    resets: usize,
    _subscription: Subscription,
}

/// Keeps the task reading.
struct Subscription(Feed);

impl Subscription {
    fn new(feed: Feed) -> Self {
        feed.0.followers.fetch_add(1, Ordering::Relaxed);
        feed.0.wake.notify_one();
        Self(feed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Follower {
    /// Follows the changes after `position`.
    pub(crate) fn new(
        store: Store,
        scope: AccessScope,
        filter: Filter,
        position: Version,
    ) -> Result<Self, Error> {
        let filter = scope.confine(filter)?;
        let head = store.feed.0.head.subscribe();
        let subscription = Subscription::new(store.feed.clone());
        let resets = store.feed.resets();
        Ok(Self { store, head, scope, filter, position, resets, _subscription: subscription })
    }

    /// The last version that was delivered.
    pub fn position(&self) -> Version {
        self.position
    }

    /// Waits for the next changes, of the result or of others.
    pub async fn next(&mut self) -> Result<EventPage, Error> {
        loop {
            if let Some(batch) = self.next_before(Instant::now() + LONG).await? {
                return Ok(batch);
            }
        }
    }

    /// The same; `None` if there is no change before `deadline`, which does not interrupt a read.
    pub async fn next_before(&mut self, deadline: Instant) -> Result<Option<EventPage>, Error> {
        loop {
            self.head.mark_unchanged();
            if self.resets != self.store.feed.resets() {
                return Err(history_expired(self.position));
            }
            let buffered = self.store.feed.buffer().after(self.position, PAGE_SIZE as usize);
            let batch = match buffered {
                Buffered::Items(changes, through) => {
                    self.events(changes.iter().map(|change| &**change), through).await?
                }
                Buffered::TooOld => {
                    let page = self.store.feed_page(self.position).await?;
                    let page = page.filter(|page| self.position >= page.pruned);
                    let page = page.ok_or_else(|| history_expired(self.position))?;
                    let through = page.through;
                    self.events(page.changes(&self.store.rulebook.catalog).iter(), through).await?
                }
            };
            if batch.through > self.position {
                self.position = batch.through;
                return Ok(Some(batch));
            }
            tokio::select! {
                changed = self.head.changed() => changed.map_err(Error::internal)?,
                () = tokio::time::sleep_until(deadline) => return Ok(None),
            }
        }
    }

    /// The events of changes, as many as fit a batch.
    async fn events<'s>(
        &self,
        changes: impl Iterator<Item = &'s FeedChange> + Send,
        through: Version,
    ) -> Result<EventPage, Error> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        for change in changes {
            if let Some((kind, object)) = evaluate(&self.store.rulebook, &self.scope, &self.filter, change)? {
                events.push(Event {
                    kind,
                    version: change.version,
                    at: Some(change.at),
                    object: object.clone(),
                });
                bytes += printed_size(object);
                if bytes > MAX_BYTES {
                    return Ok(EventPage { events, through: change.version });
                }
            }
            // Filters may read large specs, so the task yields.
            tokio::task::consume_budget().await;
        }
        Ok(EventPage { events, through })
    }
}

/// What a change means for a follower. An object that leaves its scope is shown in its last visible state.
fn evaluate<'s>(
    rulebook: &Rulebook,
    scope: &AccessScope,
    filter: &Filter,
    change: &'s FeedChange,
) -> Result<Option<(EventKind, &'s Arc<Resource>)>, Error> {
    let matches = |resource: &Resource| filter.matches(&Candidate::new(rulebook.view(), resource));
    let before = match &change.before {
        Some(before) if matches(before)? => Some(before),
        _ => None,
    };
    let exists = !change.deleted && matches(&change.after)?;
    Ok(match (before, exists) {
        (None, false) => None,
        (None, true) => Some((EventKind::Added, &change.after)),
        (Some(_), true) => Some((EventKind::Modified, &change.after)),
        (Some(_), false) if scope.sees(&change.after)? => Some((EventKind::Deleted, &change.after)),
        (Some(before), false) => Some((EventKind::Deleted, before)),
    })
}

/// The error for a position whose changes were pruned.
pub fn history_expired(since: Version) -> Error {
    let message = format!("What came after version {since} is not kept any more. Please list again.");
    let fault =
        Fault::new(FaultKind::Parameter, "since", message.clone()).given(&since.0.into()).rule("kept");
    Error::new(ErrorKind::HistoryExpired, message).with_faults(vec![fault])
}
