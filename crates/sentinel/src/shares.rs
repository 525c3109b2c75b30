//! Which ranges this replica looks after. A replica that works has one lease at the API, its presence; from the list of
//! those present every replica works out by itself who comes first for each range. So renewing costs the same however
//! the ranges lie, and whoever dies is off the list [`TTL`] later.
//!
//! No range has two owners, although nobody is asked for it: what a list gave ends [`TTL`] after that list was asked
//! for, and whoever comes anew waits as long before it begins, so every list without it has ended by then. Who of two
//! that know of each other comes first does not depend on third ones. All times count from before the API was asked,
//! on this machine's clock, so they end here before they end there. Nothing here does I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::ranges::{COUNT, Ranges, priority};

/// How long a lease lasts, and what a list gave. With [`BEAT`] and a second for the API to answer, the ranges of a dead
/// replica move within ten seconds.
pub const TTL: Duration = Duration::from_secs(6);
/// How often the lease is renewed and the others are listed.
pub const BEAT: Duration = Duration::from_secs(3);
/// How soon that is tried again after it failed, while there is a lease to lose.
const BEAT_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Where this replica stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It looks after these.
    Holds(Ranges),
    /// It looked after some, could not renew in time, and does not know who does now.
    Lapsed,
}

/// A standing, for those who cannot ask again at every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    standing: Standing,
    stands_in: Ranges,
    until: Option<Timestamp>,
}

impl Held {
    /// Nothing yet.
    pub const NOTHING: Self =
        Self { standing: Standing::Holds(Ranges::NONE), stands_in: Ranges::NONE, until: None };

    /// The standing now. When its time is over and nobody has said more, that is not known.
    pub fn at(self, now: Timestamp) -> Standing {
        if self.until.is_some_and(|until| until <= now) { Standing::Lapsed } else { self.standing }
    }

    /// Where this replica would come first without those who may not have begun.
    pub fn stands_in(self) -> Ranges {
        self.stands_in
    }

    /// When it is over.
    pub fn until(self) -> Option<Timestamp> {
        self.until
    }
}

/// The share of one replica.
#[derive(Debug)]
pub struct Shares {
    me: String,
    /// The API knows no leases.
    alone: bool,
    /// Until when our lease lasts at least; it had no gap since we came.
    leased: Option<Timestamp>,
    /// When the last list without us has ended.
    known_from: Timestamp,
    /// What lists gave that have not ended, newest last. The newest stays when it has ended, until there is another.
    given: Vec<Given>,
    /// Since when who is on every list.
    present: BTreeMap<String, Timestamp>,
    /// See [`Self::stands_in`].
    stands_in: Ranges,
    /// Ranges that wait for us, as of the newest list, and when that ends.
    waiting: (u8, Timestamp),
}

#[derive(Debug, Clone, Copy)]
struct Given {
    ranges: Ranges,
    until: Timestamp,
}

impl Shares {
    /// A replica of this name, which no other has, that holds nothing yet.
    pub fn new(me: impl Into<String>) -> Self {
        let never = Timestamp::from_micros(i64::MIN);
        Self {
            me: me.into(),
            alone: false,
            leased: None,
            known_from: never,
            given: Vec::new(),
            present: BTreeMap::new(),
            stands_in: Ranges::NONE,
            waiting: (COUNT, never),
        }
    }

    /// The API knows no leases: everything is ours.
    pub fn alone(&mut self) {
        self.alone = true;
    }

    /// The name of this replica.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// The lease that was asked for at that moment is ours.
    pub fn granted(&mut self, asked: Timestamp, now: Timestamp) {
        self.alone = false;
        if self.leased.is_none_or(|until| until <= now) {
            self.known_from = later(now, TTL);
        }
        self.leased = Some(later(asked, TTL));
    }

    /// Those who are present, by a list that was asked for at that moment and after the last grant.
    pub fn listed<'a>(
        &mut self,
        present: impl IntoIterator<Item = &'a str>,
        asked: Timestamp,
        now: Timestamp,
    ) {
        let present: Vec<_> = present.into_iter().collect();
        self.present.retain(|name, _| present.contains(&name.as_str()));
        for name in &present {
            self.present.entry((*name).to_owned()).or_insert(now);
        }
        // By then whoever came has begun, and has heard of changes since it came.
        let settled = self.present.iter().filter(|(_, since)| later(**since, TTL + BEAT) <= now);
        self.stands_in = first_of(&settled.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), &self.me);
        if !present.contains(&self.me.as_str()) {
            self.leased = None;
        }
        let Some(leased) = self.leased.filter(|until| *until > now) else { return };
        if present.len() == 1 {
            // Nobody is there who could hold anything, and whoever comes later finds us.
            self.known_from = self.known_from.min(now);
        }
        let until = later(asked, TTL).min(leased);
        let ranges = first_of(&present, &self.me);
        if self.known_from <= now {
            for older in &mut self.given {
                older.ranges = older.ranges.minus(ranges);
            }
            self.given.retain(|older| older.until > now && !older.ranges.is_empty());
            self.given.push(Given { ranges, until });
            self.waiting = (0, until);
        } else {
            self.waiting = (ranges.len(), until);
        }
    }

    /// It is over: nothing is held from here on, and the lease can go.
    pub fn leave(&mut self) {
        (self.alone, self.leased, self.stands_in) = (false, None, Ranges::NONE);
        self.given.clear();
    }

    /// When to renew and list again after a beat that began then.
    pub fn next_beat(&self, begun: Timestamp, worked: bool, now: Timestamp) -> Timestamp {
        let hurry = !worked && self.leased.is_some_and(|until| until > now);
        let next = later(begun, if hurry { BEAT_AFTER_FAILURE } else { BEAT }).max(now);
        if self.known_from > now { next.min(self.known_from) } else { next }
    }

    /// What is held now.
    pub fn standing(&self, now: Timestamp) -> Standing {
        if self.alone {
            return Standing::Holds(Ranges::ALL);
        }
        let mut live = self.given.iter().filter(|given| given.until > now).peekable();
        if live.peek().is_none() && !self.given.is_empty() {
            return Standing::Lapsed;
        }
        Standing::Holds(live.fold(Ranges::NONE, |held, given| held.and(given.ranges)))
    }

    /// Where this replica would come first without those who may not have begun. They heard nothing of what happened
    /// before they came, although the ranges of one that died may have become theirs.
    pub fn stands_in(&self) -> Ranges {
        self.stands_in
    }

    /// What is held now, and for how long all of it.
    pub fn held(&self, now: Timestamp) -> Held {
        Held { standing: self.standing(now), stands_in: self.stands_in, until: self.wake_at(now) }
    }

    /// When the standing changes by itself.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.given.iter().map(|given| given.until).filter(|until| *until > now && !self.alone).min()
    }

    /// How many ranges nobody is known to look after: those that wait for us, and all while nothing is known.
    pub fn uncovered(&self, now: Timestamp) -> u8 {
        match self.waiting {
            _ if self.alone => 0,
            (waiting, until) if until > now => waiting,
            _ => COUNT,
        }
    }
}

/// The ranges for which `me` comes first of all that are present.
fn first_of(present: &[&str], me: &str) -> Ranges {
    let first = |range: u8| present.iter().max_by_key(|name| (priority(name, range), **name));
    (0..COUNT).filter(|range| first(*range).is_some_and(|name| *name == me)).collect()
}
