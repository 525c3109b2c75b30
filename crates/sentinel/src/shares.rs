//! Which ranges this replica looks after. Each range is a lease that the API keeps, and so is each replica's presence:
//! from the leases there are, every replica works out the same fair shares, gives up what is too much, and takes what is
//! free. Whoever dies stops renewing, and its ranges are free [`TTL`] later.
//!
//! A lease counts as held from the moment it was asked for, on this machine's clock: so it ends here before it
//! ends at the API. Nothing here does I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::later;
use crate::ranges::{COUNT, Ranges};

/// How long a lease lasts. With [`BEAT`] and a second for the API to answer, the ranges of a dead replica move within
/// ten seconds.
pub const TTL: Duration = Duration::from_secs(6);
/// How often leases are looked at and renewed.
pub const BEAT: Duration = Duration::from_secs(2);

const RANGE: &str = "range-";
const REPLICA: &str = "replica-";

/// A lease that has not expired, as the API lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub name: String,
    /// Who has it.
    pub holder: String,
}

/// Something to ask of the API about one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The lease.
    pub name: String,
    /// To have or keep it, or to let it go.
    pub wants: Wants,
}

/// What a claim wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// A lease that we have, for longer.
    Renew,
    /// A lease that nobody has.
    Take,
    /// Others to have it.
    Release,
}

/// Where this replica stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It looks after these.
    Holds(Ranges),
    /// It did, could not renew them in time, and does not know who does now.
    Lapsed,
}

/// A standing, for those who cannot ask again at every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    standing: Standing,
    until: Option<Timestamp>,
}

impl Held {
    /// Nothing yet.
    pub const NOTHING: Self = Self { standing: Standing::Holds(Ranges::NONE), until: None };

    /// The standing now. When its time is over and nobody has said more, that is not known.
    pub fn at(self, now: Timestamp) -> Standing {
        if self.until.is_some_and(|until| until <= now) { Standing::Lapsed } else { self.standing }
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
    alone: bool,
    /// Until when each range is held.
    held: BTreeMap<u8, Timestamp>,
    uncovered: u8,
}

impl Shares {
    /// A replica of this name, which no other has, that holds nothing yet.
    pub fn new(me: impl Into<String>) -> Self {
        Self { me: me.into(), alone: false, held: BTreeMap::new(), uncovered: COUNT }
    }

    /// The API knows no leases: everything is ours.
    pub fn alone(&mut self) {
        self.alone = true;
        self.uncovered = 0;
    }

    /// The name of this replica.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// All leases there are: what to ask for now. What is to be released is not held any more.
    pub fn listed(&mut self, leases: &[Lease]) -> Vec<Claim> {
        let mut owners: BTreeMap<u8, &str> = BTreeMap::new();
        let mut replicas = BTreeSet::from([self.me.as_str()]);
        for lease in leases {
            if let Some(range) = lease.name.strip_prefix(RANGE).and_then(|range| range.parse().ok()) {
                owners.insert(range, lease.holder.as_str());
            } else if lease.name.starts_with(REPLICA) {
                replicas.insert(lease.holder.as_str());
            }
        }
        self.uncovered = COUNT.saturating_sub(owners.len() as u8);
        self.held.retain(|range, _| owners.get(range).is_none_or(|owner| *owner == self.me));

        let share = fair_share(&replicas, &self.me);
        let mine: Vec<u8> =
            owners.iter().filter(|(_, owner)| **owner == self.me).map(|(range, _)| *range).collect();
        let (kept, given) = mine.split_at(share.count.min(mine.len()));
        let missing = share.count - kept.len();
        // Each replica starts elsewhere, so that two that look at the same moment want different ones.
        let free = (0..COUNT).map(|i| (i + share.first) % COUNT).filter(|range| !owners.contains_key(range));
        let taken: Vec<u8> = free.take(missing).collect();

        let claim = |range: &u8, wants| Claim { name: range_name(*range), wants };
        let presence = Claim { name: format!("{REPLICA}{}", self.me), wants: Wants::Renew };
        let mut claims = vec![presence];
        claims.extend(kept.iter().map(|range| claim(range, Wants::Renew)));
        claims.extend(taken.iter().map(|range| claim(range, Wants::Take)));
        claims.extend(given.iter().map(|range| claim(range, Wants::Release)));
        for range in given {
            self.held.remove(range);
        }
        claims
    }

    /// The API answered to a claim that was sent at that moment.
    pub fn answered(&mut self, claim: &Claim, granted: bool, sent: Timestamp) {
        let Some(range) = claim.name.strip_prefix(RANGE).and_then(|range| range.parse().ok()) else { return };
        match claim.wants {
            Wants::Renew | Wants::Take if granted => {
                self.held.insert(range, later(sent, TTL));
                if claim.wants == Wants::Take {
                    self.uncovered = self.uncovered.saturating_sub(1);
                }
            }
            Wants::Renew | Wants::Take | Wants::Release => drop(self.held.remove(&range)),
        }
    }

    /// What to let go of at the end. Nothing is held from here on.
    pub fn released(&mut self) -> Vec<Claim> {
        let names = std::mem::take(&mut self.held).into_keys().map(range_name);
        let names = names.chain([format!("{REPLICA}{}", self.me)]);
        names.map(|name| Claim { name, wants: Wants::Release }).collect()
    }

    /// What is held now.
    pub fn standing(&self, now: Timestamp) -> Standing {
        if self.alone {
            return Standing::Holds(Ranges::ALL);
        }
        let held: Ranges =
            self.held.iter().filter(|(_, until)| **until > now).map(|(range, _)| *range).collect();
        if held.is_empty() && !self.held.is_empty() { Standing::Lapsed } else { Standing::Holds(held) }
    }

    /// What is held now, and for how long all of it.
    pub fn held(&self, now: Timestamp) -> Held {
        Held { standing: self.standing(now), until: self.wake_at(now) }
    }

    /// When the standing changes by itself.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.held.values().copied().filter(|until| *until > now && !self.alone).min()
    }

    /// How many ranges nobody looked after when leases were last listed, less what was taken since.
    pub fn uncovered(&self) -> u8 {
        self.uncovered
    }
}

struct Share {
    count: usize,
    first: u8,
}

/// The ranges as equally as they divide: the first replicas by name have one more.
fn fair_share(replicas: &BTreeSet<&str>, me: &str) -> Share {
    let rank = replicas.iter().take_while(|replica| **replica < me).count();
    let each = usize::from(COUNT) / replicas.len();
    let more = usize::from(COUNT) % replicas.len();
    let first = rank * each + rank.min(more);
    Share { count: each + usize::from(rank < more), first: (first % usize::from(COUNT)) as u8 }
}

fn range_name(range: u8) -> String {
    format!("{RANGE}{range:02}")
}
