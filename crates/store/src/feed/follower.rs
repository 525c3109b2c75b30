//! A follower of the feed: an access scope, a filter and a position.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::search::{Candidate, Filter};
use hyperfleet_core::{
    AccessScope, Epoch, Error, ErrorKind, Fault, FaultKind, FeedPosition, Resource, Timestamp, Version,
    printed_size,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::reader::PAGE_SIZE;
use super::ring_buffer::Buffered;
use super::{Feed, FeedChange};
use crate::Store;

/// Roughly the most bytes of events in a batch.
const MAX_BYTES: usize = 4 << 20;

/// Longer than any process runs.
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

/// A reader of the feed with a scope and a filter.
pub struct Follower {
    store: Store,
    head: watch::Receiver<Version>,
    scope: AccessScope,
    filter: Filter,
    epoch: Epoch,
    position: Version,
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
    /// Follows the changes after `position`. Its epoch is refused while the reader of the feed has not seen it.
    pub(crate) fn new(
        store: Store,
        scope: AccessScope,
        filter: Filter,
        FeedPosition { epoch, version: position }: FeedPosition,
    ) -> Result<Self, Error> {
        let filter = scope.confine(filter)?;
        store.check_epoch(epoch)?;
        let head = store.feed.0.head.subscribe();
        let subscription = Subscription::new(store.feed.clone());
        Ok(Self { store, head, scope, filter, epoch, position, _subscription: subscription })
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
            self.check_epoch(self.store.feed.epoch())?;
            let buffered = self.store.feed.buffer().after(self.position, PAGE_SIZE as usize);
            let batch = match buffered {
                Buffered::Items(changes, through) => {
                    self.events(changes.iter().map(|change| &**change), through).await?
                }
                Buffered::TooOld => {
                    let page = self.store.feed_page(self.position).await?;
                    let page = page.filter(|page| self.position >= page.pruned);
                    let page = page.ok_or_else(|| history_expired("since", self.position))?;
                    self.check_epoch(page.newest.epoch)?;
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

    fn check_epoch(&self, now: Epoch) -> Result<(), Error> {
        let position = FeedPosition { epoch: self.epoch, version: self.position };
        if now == self.epoch { Ok(()) } else { Err(history_replaced("since", position)) }
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

/// The error until the reader of the feed has noticed that the database was restored, which takes a moment.
pub(crate) fn just_restored() -> Error {
    Error::new(ErrorKind::Overloaded, "The database was restored a moment ago. Please try again.")
}

/// The error for a version whose later changes were pruned.
pub fn history_expired(name: &str, since: Version) -> Error {
    not_kept(name, &since.0.into(), "kept", &format!("What came after version {since} is not kept any more."))
}

/// The error for a position in a history that the database does not have any more.
pub fn history_replaced(name: &str, since: FeedPosition) -> Error {
    let message = format!("{since} is of a history that was replaced when the database was restored.");
    not_kept(name, &since.to_string().into(), "epoch", &message)
}

/// The error for a parameter that names no position from which the history can be told. The caller lists again.
pub fn not_kept(name: &str, given: &Value, rule: &'static str, message: &str) -> Error {
    let message = format!("{message} Please list again.");
    let fault = Fault::new(FaultKind::Parameter, name, message.clone()).given(given).rule(rule);
    Error::new(ErrorKind::HistoryExpired, message).with_faults(vec![fault])
}
