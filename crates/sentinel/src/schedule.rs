//! The resources of one kind that are not reconciled, and when their events are due. Inputs are observations, outcomes of
//! publishing and the owned ranges; outputs are the next event to publish and the time of the next one. Reconciled resources
//! take no memory: a resync finds them when they are due.
//!
//! An event that could not be published stays due. Nothing here does I/O or reads a clock.

mod decider;
mod entry;
mod outage;
mod resyncs;
mod takeover;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};
use crate::custom::MessageDecision;
use crate::decide::{COALESCE, Decision, Published, Reason, Skip, never_published};
use crate::observed::Observed;
use crate::ranges::Ranges;
use decider::Decider;
use entry::{Entry, Next};
use outage::Outage;
use resyncs::Resyncs;
use takeover::TakeoverBuffer;

/// The schedule of one kind.
#[derive(Debug)]
pub struct Schedule {
    decider: Decider,
    entries: HashMap<Arc<str>, Entry>,
    /// Due times of entries. Only the newest line of an entry counts.
    queue: BinaryHeap<Reverse<(Timestamp, u64, Arc<str>)>>,
    /// Counts lines of the queue and publications.
    counter: u64,
    owned: Ranges,
    standby: Ranges,
    paused: bool,
    in_flight: usize,
    parallel: usize,
    outage: Option<Outage>,
    resyncs: Resyncs,
    takeover: TakeoverBuffer,
}

/// An event to publish.
#[derive(Debug, Clone)]
pub struct Publication {
    /// Its unique number.
    pub ticket: u64,
    /// What it is about.
    pub observed: Observed,
    /// Why.
    pub reason: Reason,
    /// When its change was observed.
    pub noticed: Timestamp,
}

impl Schedule {
    /// An empty schedule without ranges. `parallel` events may be in flight at a time.
    pub fn new(parallel: usize, custom: Option<MessageDecision>) -> Self {
        Self {
            decider: Decider::new(custom),
            entries: HashMap::new(),
            queue: BinaryHeap::new(),
            counter: 0,
            owned: Ranges::NONE,
            standby: Ranges::NONE,
            paused: false,
            in_flight: 0,
            parallel,
            outage: None,
            resyncs: Resyncs::default(),
            takeover: TakeoverBuffer::default(),
        }
    }

    /// Takes an observation, and returns why there is nothing to publish now, if so.
    pub fn observe(&mut self, observed: Observed, now: Timestamp) -> Option<Skip> {
        let id = observed.id.clone();
        let standby = self.standby.covers(&id) && self.is_only_watched(&observed);
        if !self.owned.covers(&id) && !standby {
            if self.is_only_watched(&observed) {
                self.takeover.remember(observed, now);
            }
            return Some(Skip::OtherReplica);
        }
        if self.resyncs.outdated(&observed) {
            return Some(Skip::Reconciled);
        }
        let resync = self.resyncs.number;
        match self.entries.get_mut(&id) {
            Some(entry) => {
                if !entry.observe(observed, resync, now) {
                    return None;
                }
            }
            None => {
                let published = Published::by_others(&observed);
                // Most resources are reconciled, and are not kept.
                if let Decision::Rest(skip) = self.decider.decide(&observed, published.as_ref(), now) {
                    return Some(skip);
                }
                self.entries.insert(id.clone(), Entry::new(observed, published, resync, now));
            }
        }
        self.plan(&id, now)
    }

    /// A resource was removed, or left the selection.
    pub fn gone(&mut self, id: &str, version: Option<u64>) {
        self.takeover.forget(id);
        if let Some((id, entry)) = self.entries.remove_entry(id) {
            self.resyncs.leaves(id, version.or(entry.observed.origin.as_of()));
        }
    }

    /// The next observation of each resource counts, whatever its version: the database may have been restored. What is
    /// due stays due until then, and a running resync has ended.
    pub fn history_ended(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.is_outdated = true);
        self.resyncs.end();
    }

    /// A search for everything that may be due begins.
    pub fn resync_begins(&mut self) {
        self.resyncs.begin();
    }

    /// The search ended, and its results were observed. Resources that it did not find are no longer due, except for
    /// generations that were never published.
    pub fn resync_ends(&mut self, complete: bool) {
        self.resyncs.end();
        if complete {
            let current = self.resyncs.number;
            self.entries.retain(|_, entry| {
                entry.resync == current
                    || !matches!(entry.next, Next::Publish(_))
                    || never_published(&entry.observed, entry.published.as_ref())
            });
        }
    }

    /// Sets the owned ranges. Returns whether some are new and need a resync.
    ///
    /// Events that no resync would find are published here also for standby ranges, and for lost ranges if they are due.
    pub fn set_ranges(&mut self, ranges: Ranges, standby: Ranges, now: Timestamp) -> bool {
        let gained = ranges.minus(self.owned);
        // This runs for every input, so the buffer is visited for newly covered ranges only.
        let taken_over = ranges.and(standby).minus(self.owned.and(self.standby));
        if self.owned != ranges {
            self.owned = ranges;
            let custom = self.decider.is_custom();
            self.entries.retain(|id, entry| ranges.covers(id) || (!custom && entry.only_known_here()));
        }
        self.standby = standby;
        self.paused = false;
        if !taken_over.is_empty() {
            for observed in self.takeover.take(taken_over) {
                self.observe(observed, now);
            }
        }
        self.takeover.expire(now);
        !gained.is_empty()
    }

    /// The ownership has lapsed: nothing is published or forgotten.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// The next due event. [`Self::published`] or [`Self::failed`] must follow.
    pub fn take_due(&mut self, now: Timestamp) -> Option<Publication> {
        if !self.is_open(now) {
            return None;
        }
        while let Some(Reverse((at, ..))) = self.queue.peek()
            && *at <= now
        {
            let Some(Reverse((_, line, id))) = self.queue.pop() else { break };
            let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.line == line) else { continue };
            match entry.next {
                Next::Publish(reason) => {
                    self.counter += 1;
                    let ticket = self.counter;
                    let record = Published::of(&entry.observed, entry.published.as_ref(), reason, now);
                    entry.next = Next::InFlight { ticket, record };
                    entry.observed_since = false;
                    self.in_flight += 1;
                    return Some(Publication {
                        ticket,
                        observed: entry.observed.clone(),
                        reason,
                        noticed: entry.noticed,
                    });
                }
                Next::Forget => drop(self.entries.remove(&id)),
                Next::InFlight { .. } => {}
            }
        }
        None
    }

    /// The broker confirmed the event.
    pub fn published(&mut self, publication: &Publication, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.outage = None;
        let id = &publication.observed.id;
        let Some((entry, record)) = self.take_in_flight(publication) else { return };
        entry.published = Some(Published { at: now, ..record });
        entry.failures = 0;
        entry.not_before = None;
        if !entry.observed_since && self.decider.is_custom() {
            // The observation is as old as the event; the next resync decides again.
            return self.enqueue(id, later(now, COALESCE), Next::Forget);
        }
        self.plan(id, now);
    }

    /// The broker did not confirm the event, which stays due.
    pub fn failed(&mut self, publication: &Publication, now: Timestamp, jitter: f64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let next_ticket = self.counter + 1;
        let outage = self.outage.get_or_insert_with(|| Outage::new(now));
        outage.failed(publication.ticket, next_ticket, now, jitter);
        let Some((entry, _)) = self.take_in_flight(publication) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let retry = later(now, after_failures(entry.failures, jitter, None));
        entry.not_before = Some(retry);
        if !entry.observed_since && self.decider.is_custom() {
            return self.enqueue(&publication.observed.id, retry, Next::Publish(publication.reason));
        }
        self.plan(&publication.observed.id, now);
    }

    /// When [`Self::take_due`] may next have an event; `None` until the next input.
    pub fn wake_at(&mut self) -> Option<Timestamp> {
        while let Some(Reverse((_, line, id))) = self.queue.peek()
            && self.entries.get(id).is_none_or(|entry| entry.line != *line)
        {
            self.queue.pop();
        }
        let Reverse((at, ..)) = self.queue.peek()?;
        let from = self.outage.as_ref().map_or(*at, |outage| outage.until.max(*at));
        self.is_open(from).then_some(from)
    }

    /// How many resources are not reconciled or have a due event.
    pub fn pending(&self) -> usize {
        self.entries.values().filter(|entry| !matches!(entry.next, Next::Forget)).count()
    }

    /// How many resources are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The last failure of the configured decision, once.
    pub(crate) fn take_fault(&mut self) -> Option<String> {
        self.decider.fault.take()
    }

    /// How many buffered changes of other replicas' resources were dropped since the last call.
    pub(crate) fn take_displaced(&mut self) -> u64 {
        std::mem::take(&mut self.takeover.displaced)
    }

    /// Whether only the watch shows that an event is due. A configured decision is evaluated at every resync instead.
    fn is_only_watched(&self, observed: &Observed) -> bool {
        !self.decider.is_custom() && TakeoverBuffer::accepts(observed)
    }

    fn is_open(&self, now: Timestamp) -> bool {
        match &self.outage {
            _ if self.paused => false,
            None => self.in_flight < self.parallel,
            Some(outage) => self.in_flight == 0 && outage.until <= now,
        }
    }

    /// The entry of a publication that still waits for its outcome.
    fn take_in_flight(&mut self, publication: &Publication) -> Option<(&mut Entry, Published)> {
        let entry = self.entries.get_mut(&publication.observed.id)?;
        match entry.next {
            Next::InFlight { ticket, record } if ticket == publication.ticket => {
                entry.next = Next::Forget;
                Some((entry, record))
            }
            _ => None,
        }
    }

    /// Decides the next step of an entry, and queues it.
    fn plan(&mut self, id: &Arc<str>, now: Timestamp) -> Option<Skip> {
        let entry = self.entries.get_mut(id)?;
        if matches!(entry.next, Next::InFlight { .. }) {
            return None;
        }
        let (at, next, skip) = match self.decider.decide(&entry.observed, entry.published.as_ref(), now) {
            Decision::Publish(reason) => (now, Next::Publish(reason), None),
            Decision::Wait { until, reason, skip } => (until, Next::Publish(reason), Some(skip)),
            Decision::Rest(skip) => {
                let Some(until) = entry.worth_keeping().filter(|until| *until > now) else {
                    let version = entry.observed.origin.as_of();
                    self.entries.remove(id);
                    self.resyncs.leaves(id.clone(), version);
                    return Some(skip);
                };
                (until, Next::Forget, Some(skip))
            }
        };
        let at = if matches!(next, Next::Forget) { at } else { entry.not_before.map_or(at, |it| it.max(at)) };
        self.enqueue(id, at, next);
        skip
    }

    fn enqueue(&mut self, id: &Arc<str>, at: Timestamp, next: Next) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        self.counter += 1;
        entry.next = next;
        entry.line = self.counter;
        self.queue.push(Reverse((at, self.counter, id.clone())));
        if self.queue.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.queue.retain(|Reverse((_, line, id))| entries.get(id).is_some_and(|it| it.line == *line));
        }
    }
}
