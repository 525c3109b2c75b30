//! What is known of the resources of one kind that are not done, and what is owed for them. Inputs are what was seen,
//! what came of publishing, and which ranges are held; the outputs are the next event to publish and the next moment at
//! which to ask. Reconciled resources take no room here: when one is due again, a look finds it.
//!
//! An event that could not be published stays owed. Nothing here does I/O or reads a clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};
use crate::custom::MessageDecision;
use crate::decide::{COALESCE, Decision, Published, Reason, STALE_AFTER, Skip, decide, never_published};
use crate::ranges::Ranges;
use crate::seen::{Reconciled, Seen};

/// The memory of one kind.
#[derive(Debug)]
pub struct Book {
    custom: Option<MessageDecision>,
    /// What the configured decision last failed with.
    fault: Option<String>,
    entries: HashMap<Arc<str>, Entry>,
    /// When something is to be done, for which entry. A line that is not the entry's newest means nothing.
    queue: BinaryHeap<Reverse<(Timestamp, u64, Arc<str>)>>,
    /// Counts lines of the queue and publications.
    counter: u64,
    held: Ranges,
    paused: bool,
    in_flight: usize,
    parallel: usize,
    outage: Option<Outage>,
    look: Look,
}

#[derive(Debug)]
struct Entry {
    seen: Seen,
    published: Option<Published>,
    next: Next,
    /// The line of the queue that counts.
    line: u64,
    /// The look during or after which it was last seen.
    look: u64,
    /// When the newest change was noticed.
    noticed: Timestamp,
    failures: u32,
    not_before: Option<Timestamp>,
    /// Seen again since its event went out.
    seen_since: bool,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Publish(Reason),
    /// Reconciled; only the time of its last event is worth knowing, until it is not.
    Forget,
    InFlight {
        ticket: u64,
        record: Published,
    },
}

/// Publishing fails: one event at a time tries whether it works again.
#[derive(Debug)]
struct Outage {
    failures: u32,
    until: Timestamp,
    /// Failures of what was under way when it began tell nothing new.
    first_try: u64,
}

#[derive(Debug, Default)]
struct Look {
    number: u64,
    /// Of what left the book while a look runs, the version: the look may bring an older state of it.
    left: Option<HashMap<Arc<str>, Option<u64>>>,
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
            custom,
            fault: None,
            entries: HashMap::new(),
            queue: BinaryHeap::new(),
            counter: 0,
            held: Ranges::NONE,
            paused: false,
            in_flight: 0,
            parallel,
            outage: None,
            look: Look::default(),
        }
    }

    /// A resource was seen. Tells why there is nothing to publish for it now, if so.
    pub fn see(&mut self, mut seen: Seen, now: Timestamp) -> Option<Skip> {
        let id = seen.id.clone();
        if !self.held.covers(&id) {
            return Some(Skip::OtherReplica);
        }
        if let Some(left) = self.look.left.as_ref().and_then(|left| left.get(&id))
            && left.zip(seen.learned.as_of()).is_some_and(|(left, seen)| seen <= left)
        {
            return Some(Skip::Reconciled);
        }
        let look = self.look.number;
        match self.entries.get_mut(&id) {
            Some(entry) => {
                entry.look = look;
                if seen.is_older_than(&entry.seen) {
                    return None;
                }
                seen.follow(&entry.seen);
                if (seen.generation, seen.inputs) != (entry.seen.generation, entry.seen.inputs) {
                    entry.noticed = now;
                }
                entry.seen = seen;
                entry.seen_since = true;
            }
            None => {
                // Most of what is seen is reconciled, and never gets in.
                if let Decision::Rest(skip) = judge(self.custom.as_ref(), &mut self.fault, &seen, None, now) {
                    return Some(skip);
                }
                let entry = Entry {
                    seen,
                    published: None,
                    next: Next::Forget,
                    line: 0,
                    look,
                    noticed: now,
                    failures: 0,
                    not_before: None,
                    seen_since: false,
                };
                self.entries.insert(id.clone(), entry);
            }
        }
        self.plan(&id, now)
    }

    /// A resource is gone, or out of the selection.
    pub fn gone(&mut self, id: &str, version: Option<u64>) {
        if let Some((id, entry)) = self.entries.remove_entry(id) {
            self.look.leaves(id, version.or(entry.seen.learned.as_of()));
        }
    }

    /// A look at everything that may be due begins.
    pub fn look_begins(&mut self) {
        self.look.number += 1;
        self.look.left = Some(HashMap::new());
    }

    /// It ended, and everything it found was seen. Whatever was not among it is not due any more, except for
    /// generations that were never published: for these an event is owed, even if the work is done meanwhile.
    pub fn look_ends(&mut self, complete: bool) {
        self.look.left = None;
        if complete {
            let current = self.look.number;
            self.entries.retain(|_, entry| {
                entry.look == current
                    || !matches!(entry.next, Next::Publish(_))
                    || never_published(&entry.seen, entry.published.as_ref())
            });
        }
    }

    /// These ranges are ours from now on, and no others. True when some are new: what is due there must be looked for.
    pub fn hold(&mut self, ranges: Ranges) -> bool {
        let gained = !ranges.minus(self.held).is_empty();
        if self.held != ranges {
            self.held = ranges;
            self.entries.retain(|id, _| ranges.covers(id));
        }
        self.paused = false;
        gained
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
        if !entry.seen_since && self.custom.is_some() {
            // Nothing is known but what was published; only looking again tells whether it still holds.
            return self.schedule(id, later(now, COALESCE), Next::Forget);
        }
        self.plan(id, now);
    }

    /// The broker did not take it, or nobody knows. It stays owed.
    pub fn failed(&mut self, publication: &Publication, now: Timestamp, chance: f64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let next_ticket = self.counter + 1;
        let outage = self.outage.get_or_insert(Outage { failures: 0, until: now, first_try: 0 });
        if publication.ticket >= outage.first_try {
            outage.failures += 1;
            outage.until = later(now, after_failures(outage.failures, chance, None));
            outage.first_try = next_ticket;
        }
        let Some((entry, _)) = self.flown(publication) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let retry = later(now, after_failures(entry.failures, chance, None));
        entry.not_before = Some(retry);
        if !entry.seen_since && self.custom.is_some() {
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

    /// How many events are on their way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether publishing fails.
    pub fn is_cut_off(&self) -> bool {
        self.outage.is_some()
    }

    /// What the configured decision failed with since this was last asked.
    pub fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
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
        let published = entry.published.as_ref();
        let (at, next, skip) = match judge(self.custom.as_ref(), &mut self.fault, &entry.seen, published, now)
        {
            Decision::Publish(reason) => (now, Next::Publish(reason), None),
            Decision::Wait { until, reason, skip } => (until, Next::Publish(reason), Some(skip)),
            Decision::Rest(skip) => {
                let Some(until) = worth_keeping(entry).filter(|until| *until > now) else {
                    let version = entry.seen.learned.as_of();
                    self.entries.remove(id);
                    self.look.leaves(id.clone(), version);
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

impl Look {
    fn leaves(&mut self, id: Arc<str>, version: Option<u64>) {
        if let Some(left) = &mut self.left {
            left.insert(id, version);
        }
    }
}

/// The table, or what is configured instead of it.
fn judge(
    custom: Option<&MessageDecision>,
    fault: &mut Option<String>,
    seen: &Seen,
    published: Option<&Published>,
    now: Timestamp,
) -> Decision {
    let Some(custom) = custom else { return decide(seen, published, now) };
    match custom.holds(&seen.resource, now) {
        Ok(true) => match published
            .map(|published| later(published.at, COALESCE))
            .filter(|until| *until > now)
        {
            Some(until) => Decision::Wait { until, reason: Reason::MessageDecision, skip: Skip::Coalesced },
            None => Decision::Publish(Reason::MessageDecision),
        },
        Ok(false) => Decision::Rest(Skip::MessageDecision),
        Err(message) => {
            *fault = Some(message);
            Decision::Rest(Skip::DecisionFailed)
        }
    }
}

/// Until when the last event of a reconciled resource says more than the resource itself does.
fn worth_keeping(entry: &Entry) -> Option<Timestamp> {
    let Reconciled::Yes { confirmed } = entry.seen.reconciled else { return None };
    let published = entry.published.filter(|_| entry.seen.has_adapters)?;
    (confirmed < Some(published.at)).then(|| later(published.at, STALE_AFTER))
}
