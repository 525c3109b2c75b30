//! Someone who follows the feed: with their sight, through their filter, from where they stand.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::search::{Candidate, Filter};
use hyperfleet_core::{
    Error, ErrorKind, Fault, FaultKind, Resource, Sight, Timestamp, Version, printed_size,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::reader::PAGE_SIZE;
use super::ring::Held;
use super::{Feed, Step};
use crate::Store;

/// How many bytes of events are told at once, about.
const MAX_BYTES: usize = 4 << 20;

/// For ever, but for what a clock can hold.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// What happened to an object, seen through a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It came into the result.
    Added,
    /// It changed there.
    Modified,
    /// It left the result, or is gone.
    Deleted,
}

impl EventKind {
    /// As the API says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// The version that the object got by it.
    pub version: Version,
    /// When; `None` of what is only told to be there.
    pub at: Option<Timestamp>,
    /// The object as it was then; if it is gone or left the sight, as it was last.
    pub object: Arc<Resource>,
}

/// What happened up to some version.
#[derive(Debug)]
pub struct Batch {
    /// In the order of versions.
    pub events: Vec<Event>,
    /// Up to this version there is nothing else.
    pub through: Version,
}

/// See the module.
pub struct Follower {
    store: Store,
    head: watch::Receiver<Version>,
    sight: Sight,
    filter: Filter,
    position: Version,
    losses: usize,
    _attendance: Attendance,
}

/// Keeps the reader at work.
struct Attendance(Feed);

impl Attendance {
    fn new(feed: Feed) -> Self {
        feed.0.followers.fetch_add(1, Ordering::Relaxed);
        feed.0.bell.notify_one();
        Self(feed)
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.0.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Follower {
    /// Follows from behind `position`.
    pub(crate) fn new(store: Store, sight: Sight, filter: Filter, position: Version) -> Result<Self, Error> {
        let filter = sight.confine(filter)?;
        let head = store.feed.0.head.subscribe();
        let attendance = Attendance::new(store.feed.clone());
        let losses = store.feed.losses();
        Ok(Self { store, head, sight, filter, position, losses, _attendance: attendance })
    }

    /// Up to where it was told everything.
    pub fn position(&self) -> Version {
        self.position
    }

    /// Waits until something happens, in the result or elsewhere, and tells what that was.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            if let Some(batch) = self.next_before(Instant::now() + LONG).await? {
                return Ok(batch);
            }
        }
    }

    /// The same; `None` if nothing happens before `deadline`. A read that is under way is not given up for it.
    pub async fn next_before(&mut self, deadline: Instant) -> Result<Option<Batch>, Error> {
        loop {
            self.head.mark_unchanged();
            if self.losses != self.store.feed.losses() {
                return Err(no_longer_kept(self.position));
            }
            let held = self.store.feed.ring().after(self.position, PAGE_SIZE as usize);
            let batch = match held {
                Held::Items(steps, through) => self.judge(steps.iter().map(|step| &**step), through).await?,
                Held::NotThatFar => {
                    let trail = self.store.trail(self.position).await?;
                    let trail = trail.filter(|trail| self.position >= trail.forgotten);
                    let trail = trail.ok_or_else(|| no_longer_kept(self.position))?;
                    let through = trail.through;
                    self.judge(trail.steps(&self.store.rulebook.catalog).iter(), through).await?
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

    /// What steps mean; no more of it than someone may hold who does not read.
    async fn judge<'s>(
        &self,
        steps: impl Iterator<Item = &'s Step> + Send,
        through: Version,
    ) -> Result<Batch, Error> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        for step in steps {
            if let Some((kind, object)) = judge(&self.store.rulebook, &self.sight, &self.filter, step)? {
                events.push(Event { kind, version: step.version, at: Some(step.at), object: object.clone() });
                bytes += printed_size(object);
                if bytes > MAX_BYTES {
                    return Ok(Batch { events, through: step.version });
                }
            }
            // Filters may read large specs: others must get their turn.
            tokio::task::consume_budget().await;
        }
        Ok(Batch { events, through })
    }
}

/// What a step means to someone. Whoever loses sight of an object is shown what they last saw of it.
fn judge<'s>(
    rulebook: &Rulebook,
    sight: &Sight,
    filter: &Filter,
    step: &'s Step,
) -> Result<Option<(EventKind, &'s Arc<Resource>)>, Error> {
    let matches = |resource: &Resource| filter.matches(&Candidate::new(rulebook.view(), resource));
    let before = match &step.before {
        Some(before) if matches(before)? => Some(before),
        _ => None,
    };
    let is_there = !step.gone && matches(&step.after)?;
    Ok(match (before, is_there) {
        (None, false) => None,
        (None, true) => Some((EventKind::Added, &step.after)),
        (Some(_), true) => Some((EventKind::Modified, &step.after)),
        (Some(_), false) if sight.sees(&step.after)? => Some((EventKind::Deleted, &step.after)),
        (Some(before), false) => Some((EventKind::Deleted, before)),
    })
}

/// The error of someone who asks for a past that is forgotten, or from which too much has happened since.
pub fn no_longer_kept(since: Version) -> Error {
    let message = format!("What came after version {since} is not kept any more. Please list again.");
    let fault = Fault::new(FaultKind::Query, "since", message.clone()).given(&since.0.into()).rule("kept");
    Error::new(ErrorKind::NoLongerKept, message).with_faults(vec![fault])
}
