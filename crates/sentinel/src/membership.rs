//! Which ranges this replica owns. Every replica has one lease at the API. From the list of leases each replica computes
//! the owner of every range by rendezvous hashing. A dead replica leaves the list after [`TTL`].
//!
//! No range has two owners: a list is valid for [`TTL`] after its request, and a new replica waits as long before it begins,
//! so every list without it has expired by then. Which of two listed replicas owns a range does not depend on a third. All
//! times count from before the request on this machine's clock, so a lease expires here before it expires at the API.

use std::collections::BTreeMap;
use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::ranges::{COUNT, Ranges, priority};

/// Validity of a lease and of a list. With [`RENEW_INTERVAL`] and a second for the answer, the ranges of a dead replica move
/// within ten seconds.
pub const TTL: Duration = Duration::from_secs(6);
/// How often the lease is renewed and the leases are listed.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// The same after a failure, while the lease is valid.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The ranges of this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// The replica owns these ranges.
    Owns(Ranges),
    /// The replica could not renew in time, and other replicas may own its ranges.
    Lapsed,
}

/// Ownership with its expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    ownership: Ownership,
    standby: Ranges,
    until: Option<Timestamp>,
}

impl Assignment {
    /// No ranges.
    pub(crate) const NOTHING: Self =
        Self { ownership: Ownership::Owns(Ranges::NONE), standby: Ranges::NONE, until: None };

    /// The ownership now, which lapses at the expiry.
    pub fn at(self, now: Timestamp) -> Ownership {
        if self.until.is_some_and(|until| until <= now) { Ownership::Lapsed } else { self.ownership }
    }

    /// See [`Membership::standby`].
    pub fn standby(self) -> Ranges {
        self.standby
    }

    /// The expiry.
    pub fn until(self) -> Option<Timestamp> {
        self.until
    }
}

/// The view of one replica.
#[derive(Debug)]
pub struct Membership {
    me: String,
    /// The API has no leases.
    alone: bool,
    /// Until when the lease is valid, without a gap since this replica began.
    leased: Option<Timestamp>,
    /// When the last list without this replica has expired.
    known_from: Timestamp,
    /// Ranges by lists that have not expired, newest last. The newest is kept after its expiry until there is another.
    grants: Vec<Grant>,
    /// Replicas by the time since which every list has them.
    present: BTreeMap<String, Timestamp>,
    /// See [`Self::standby`].
    standby: Ranges,
    /// Ranges that this replica will own by the newest list, and its expiry.
    waiting: (u8, Timestamp),
}

#[derive(Debug, Clone, Copy)]
struct Grant {
    ranges: Ranges,
    until: Timestamp,
}

impl Membership {
    /// A replica with a unique name and without ranges.
    pub fn new(me: impl Into<String>) -> Self {
        let never = Timestamp::from_micros(i64::MIN);
        Self {
            me: me.into(),
            alone: false,
            leased: None,
            known_from: never,
            grants: Vec::new(),
            present: BTreeMap::new(),
            standby: Ranges::NONE,
            waiting: (COUNT, never),
        }
    }

    /// The API has no leases: this replica owns everything.
    pub fn alone(&mut self) {
        self.alone = true;
    }

    /// The name of this replica.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// The lease was granted, as of the request at `asked`.
    pub fn granted(&mut self, asked: Timestamp, now: Timestamp) {
        self.alone = false;
        if self.leased.is_none_or(|until| until <= now) {
            self.known_from = later(now, TTL);
        }
        self.leased = Some(later(asked, TTL));
    }

    /// Takes a list of replicas, requested at `asked`, after the last grant.
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
        // After this time a new replica has begun, and knows the changes since it came.
        let settled = self.present.iter().filter(|(_, since)| later(**since, TTL + RENEW_INTERVAL) <= now);
        self.standby = first_of(&settled.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), &self.me);
        if !present.contains(&self.me.as_str()) {
            self.leased = None;
        }
        let Some(leased) = self.leased.filter(|until| *until > now) else { return };
        if present.len() == 1 {
            // No other replica can own anything, and later ones find this one.
            self.known_from = self.known_from.min(now);
        }
        let until = later(asked, TTL).min(leased);
        let ranges = first_of(&present, &self.me);
        if self.known_from <= now {
            for older in &mut self.grants {
                older.ranges = older.ranges.minus(ranges);
            }
            self.grants.retain(|older| older.until > now && !older.ranges.is_empty());
            self.grants.push(Grant { ranges, until });
            self.waiting = (0, until);
        } else {
            self.waiting = (ranges.len(), until);
        }
    }

    /// Gives up all ranges.
    pub fn leave(&mut self) {
        (self.alone, self.leased, self.standby) = (false, None, Ranges::NONE);
        self.grants.clear();
    }

    /// When to renew and list after a renewal that began at `begun`.
    pub fn next_renewal(&self, begun: Timestamp, worked: bool, now: Timestamp) -> Timestamp {
        let hurry = !worked && self.leased.is_some_and(|until| until > now);
        let next = later(begun, if hurry { RETRY_INTERVAL } else { RENEW_INTERVAL }).max(now);
        if self.known_from > now { next.min(self.known_from) } else { next }
    }

    /// What this replica owns now.
    pub fn ownership(&self, now: Timestamp) -> Ownership {
        if self.alone {
            return Ownership::Owns(Ranges::ALL);
        }
        let mut live = self.grants.iter().filter(|grant| grant.until > now).peekable();
        if live.peek().is_none() && !self.grants.is_empty() {
            return Ownership::Lapsed;
        }
        Ownership::Owns(live.fold(Ranges::NONE, |owned, grant| owned.and(grant.ranges)))
    }

    /// The ranges that this replica would own without replicas that may not have begun. Those do not know the changes from
    /// before they came, although ranges of a dead replica may be theirs.
    pub fn standby(&self) -> Ranges {
        self.standby
    }

    /// What this replica owns now, and until when.
    pub(crate) fn assignment(&self, now: Timestamp) -> Assignment {
        Assignment { ownership: self.ownership(now), standby: self.standby, until: self.wake_at(now) }
    }

    /// When the next list expires.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.grants.iter().map(|grant| grant.until).filter(|until| *until > now && !self.alone).min()
    }

    /// How many ranges have no known owner: those that this replica will own, or all before the first list of leases.
    pub fn uncovered(&self, now: Timestamp) -> u8 {
        match self.waiting {
            _ if self.alone => 0,
            (waiting, until) if until > now => waiting,
            _ => COUNT,
        }
    }
}

/// The ranges for which `me` has the highest priority of all replicas.
fn first_of(present: &[&str], me: &str) -> Ranges {
    let first = |range: u8| present.iter().max_by_key(|name| (priority(name, range), **name));
    (0..COUNT).filter(|range| first(*range).is_some_and(|name| *name == me)).collect()
}
