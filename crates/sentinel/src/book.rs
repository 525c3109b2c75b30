//! What is known of the resources of one kind that are not done, and what is owed for them. Inputs are what was seen,
//! what came of publishing, and which ranges are held; the outputs are the next event to publish and the next moment at
//! which to ask. Reconciled resources take no room here: when one is due again, a look finds it.
//!
//! An event that could not be published stays owed. Nothing here does I/O or reads a clock.

mod entry;
mod judge;
mod looks;
mod news;
mod outage;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};
use crate::custom::MessageDecision;
use crate::decide::{COALESCE, Decision, Published, Reason, Skip, never_published};
use crate::ranges::Ranges;
use crate::seen::Seen;
use entry::{Entry, Next};
use judge::Judge;
use looks::Looks;
use news::News;
use outage::Outage;

/// The memory of one kind.
#[derive(Debug)]
pub struct Book {
    judge: Judge,
    entries: HashMap<Arc<str>, Entry>,
    /// When something is to be done, for which entry. A line that is not the entry's newest means nothing.
    queue: BinaryHeap<Reverse<(Timestamp, u64, Arc<str>)>>,
    /// Counts lines of the queue and publications.
    counter: u64,
    held: Ranges,
    stands_in: Ranges,
    paused: bool,
    in_flight: usize,
    parallel: usize,
    outage: Option<Outage>,
    looks: Looks,
    of_others: News,
}

/// An event to publish, and what to hand back with the outcome.
#[derive(Debug, Clone)]
pub struct Publication {
    /// Tells it from all others.
    pub ticket: u64,
    /// What it is about.
    pub seen: Seen,
    /// Why.
    pub reason: Reason,
    /// When the change that it is about was noticed.
    pub noticed: Timestamp,
}

impl Book {
    /// An empty book that holds no range, and publishes so many events at a time, by the built-in table or by what is
    /// configured instead.
    pub fn new(parallel: usize, custom: Option<MessageDecision>) -> Self {
        Self {
            judge: Judge::new(custom),
            entries: HashMap::new(),
            queue: BinaryHeap::new(),
            counter: 0,
            held: Ranges::NONE,
            stands_in: Ranges::NONE,
            paused: false,
            in_flight: 0,
            parallel,
            outage: None,
            looks: Looks::default(),
            of_others: News::default(),
        }
    }

    /// A resource was seen. Tells why there is nothing to publish for it now, if so.
    pub fn see(&mut self, seen: Seen, now: Timestamp) -> Option<Skip> {
        let id = seen.id.clone();
        let stands_in = self.stands_in.covers(&id) && self.is_news(&seen);
        if !self.held.covers(&id) && !stands_in {
            if self.is_news(&seen) {
                self.of_others.hear(seen, now);
            }
            return Some(Skip::OtherReplica);
        }
        if self.looks.outdated(&seen) {
            return Some(Skip::Reconciled);
        }
        let look = self.looks.number;
        match self.entries.get_mut(&id) {
            Some(entry) => {
                if !entry.see(seen, look, now) {
                    return None;
                }
            }
            None => {
                let published = Published::by_others(&seen);
                // Most of what is seen is reconciled, and never gets in.
                if let Decision::Rest(skip) = self.judge.decide(&seen, published.as_ref(), now) {
                    return Some(skip);
                }
                self.entries.insert(id.clone(), Entry::new(seen, published, look, now));
            }
        }
        self.plan(&id, now)
    }

    /// A resource is gone, or out of the selection.
    pub fn gone(&mut self, id: &str, version: Option<u64>) {
        self.of_others.forget(id);
        if let Some((id, entry)) = self.entries.remove_entry(id) {
            self.looks.leaves(id, version.or(entry.seen.learned.as_of()));
        }
    }

    /// A look at everything that may be due begins.
    pub fn look_begins(&mut self) {
        self.looks.begin();
    }

    /// It ended, and everything it found was seen. Whatever was not among it is not due any more, except for
    /// generations that were never published: for these an event is owed, even if the work is done meanwhile.
    pub fn look_ends(&mut self, complete: bool) {
        self.looks.end();
        if complete {
            let current = self.looks.number;
            self.entries.retain(|_, entry| {
                entry.look == current
                    || !matches!(entry.next, Next::Publish(_))
                    || never_published(&entry.seen, entry.published.as_ref())
            });
        }
    }

    /// These ranges are ours from now on, and no others. True when some are new: what is due there must be looked for.
    ///
    /// What no look would find is published here too where we stand in for those who may not have heard of it, and where
    /// a range is gone for which an event is owed.
    pub fn hold(&mut self, ranges: Ranges, stands_in: Ranges, now: Timestamp) -> bool {
        let gained = ranges.minus(self.held);
        // This runs for every input, and there may be many changes of others; none of them is of what was ours before.
        let taken_over = ranges.and(stands_in).minus(self.held.and(self.stands_in));
        if self.held != ranges {
            self.held = ranges;
            let custom = self.judge.is_custom();
            self.entries.retain(|id, entry| ranges.covers(id) || (!custom && entry.only_known_here()));
        }
        self.stands_in = stands_in;
        self.paused = false;
        if !taken_over.is_empty() {
            for seen in self.of_others.take(taken_over) {
                self.see(seen, now);
            }
        }
        self.of_others.expire(now);
        !gained.is_empty()
    }

    /// Nobody knows whose the ranges are: publish nothing, and forget nothing.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// The next event to publish now, if there is one. [`Self::published`] or [`Self::failed`] must follow.
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
                    let record = Published::of(&entry.seen, entry.published.as_ref(), reason, now);
                    entry.next = Next::InFlight { ticket, record };
                    entry.seen_since = false;
                    self.in_flight += 1;
                    return Some(Publication {
                        ticket,
                        seen: entry.seen.clone(),
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

    /// The broker took the event.
    pub fn published(&mut self, publication: &Publication, now: Timestamp) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.outage = None;
        let id = &publication.seen.id;
        let Some((entry, record)) = self.flown(publication) else { return };
        entry.published = Some(Published { at: now, ..record });
        entry.failures = 0;
        entry.not_before = None;
        if !entry.seen_since && self.judge.is_custom() {
            // Nothing is known but what was published; only looking again tells whether it still holds.
            return self.schedule(id, later(now, COALESCE), Next::Forget);
        }
        self.plan(id, now);
    }

    /// The broker did not take it, or nobody knows. It stays owed.
    pub fn failed(&mut self, publication: &Publication, now: Timestamp, chance: f64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let next_ticket = self.counter + 1;
        let outage = self.outage.get_or_insert_with(|| Outage::new(now));
        outage.failed(publication.ticket, next_ticket, now, chance);
        let Some((entry, _)) = self.flown(publication) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let retry = later(now, after_failures(entry.failures, chance, None));
        entry.not_before = Some(retry);
        if !entry.seen_since && self.judge.is_custom() {
            return self.schedule(&publication.seen.id, retry, Next::Publish(publication.reason));
        }
        self.plan(&publication.seen.id, now);
    }

    /// When [`Self::take_due`] may next have something; nothing while only an input can change that.
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

    /// How many resources are not reconciled, or have an event coming to them.
    pub fn pending(&self) -> usize {
        self.entries.values().filter(|entry| !matches!(entry.next, Next::Forget)).count()
    }

    /// How many resources are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the configured decision failed with since this was last asked.
    pub fn take_fault(&mut self) -> Option<String> {
        self.judge.fault.take()
    }

    /// How many changes to resources of others were forgotten for want of room since this was last asked.
    pub fn take_displaced(&mut self) -> u64 {
        std::mem::take(&mut self.of_others.displaced)
    }

    /// Whether only this moment shows that an event for it is due. A decision of one's own is asked in every look.
    fn is_news(&self, seen: &Seen) -> bool {
        !self.judge.is_custom() && News::is_such(seen)
    }

    fn is_open(&self, now: Timestamp) -> bool {
        match &self.outage {
            _ if self.paused => false,
            None => self.in_flight < self.parallel,
            Some(outage) => self.in_flight == 0 && outage.until <= now,
        }
    }

    /// The entry that this publication was made of, if it is still waiting for the outcome.
    fn flown(&mut self, publication: &Publication) -> Option<(&mut Entry, Published)> {
        let entry = self.entries.get_mut(&publication.seen.id)?;
        match entry.next {
            Next::InFlight { ticket, record } if ticket == publication.ticket => {
                entry.next = Next::Forget;
                Some((entry, record))
            }
            _ => None,
        }
    }

    /// Decides what comes next for an entry, and puts it into the queue.
    fn plan(&mut self, id: &Arc<str>, now: Timestamp) -> Option<Skip> {
        let entry = self.entries.get_mut(id)?;
        if matches!(entry.next, Next::InFlight { .. }) {
            return None;
        }
        let (at, next, skip) = match self.judge.decide(&entry.seen, entry.published.as_ref(), now) {
            Decision::Publish(reason) => (now, Next::Publish(reason), None),
            Decision::Wait { until, reason, skip } => (until, Next::Publish(reason), Some(skip)),
            Decision::Rest(skip) => {
                let Some(until) = entry.worth_keeping().filter(|until| *until > now) else {
                    let version = entry.seen.learned.as_of();
                    self.entries.remove(id);
                    self.looks.leaves(id.clone(), version);
                    return Some(skip);
                };
                (until, Next::Forget, Some(skip))
            }
        };
        let at = if matches!(next, Next::Forget) { at } else { entry.not_before.map_or(at, |it| it.max(at)) };
        self.schedule(id, at, next);
        skip
    }

    fn schedule(&mut self, id: &Arc<str>, at: Timestamp, next: Next) {
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
