//! A replica: the real deciding core, and a shell that sends requests and receives responses, as the real one does with
//! tasks and sockets.

use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::backoff::{after_failures, later};
use hyperfleet_sentinel::membership::{Membership, Ownership};
use hyperfleet_sentinel::observed::Origin;
use hyperfleet_sentinel::resync::Resync;
use hyperfleet_sentinel::schedule::{Publication, Schedule};

use super::world::Change;
use crate::fixtures::Cluster;

/// What comes in.
#[derive(Debug, Clone)]
pub(super) enum Input {
    Wake,
    Watching,
    Changed(Change),
    WatchEnded,
    WatchTooOld,
    /// The version and what may be due, or nothing when it failed.
    Resynced(Option<(u64, Vec<Cluster>)>),
    /// The outcome of a renewal; `None` when its answer was lost.
    Leased(Option<()>, Timestamp),
    /// Who was present, by a list that was asked for then.
    Listed(Option<Vec<String>>, Timestamp),
    Published(Publication, bool),
}

/// What goes out.
#[derive(Debug)]
pub(super) enum Effect {
    Resync,
    Lease,
    List,
    Watch(Option<u64>),
    Publish(Publication),
}

pub(super) struct Replica {
    schedule: Schedule,
    resync: Resync,
    membership: Membership,
    renewal_begun: Timestamp,
    renewal_worked: bool,
    /// Nothing while one runs.
    next_renewal: Option<Timestamp>,
    watch: Watch,
    watch_failures: u32,
    /// The moment that was asked for last, so that the agenda does not fill up with the same one.
    woken_at: Option<Timestamp>,
}

enum Watch {
    /// A resync tells the version to begin at.
    Unknown,
    Down {
        since: u64,
        retry: Timestamp,
    },
    Opening {
        since: u64,
    },
    Up {
        since: u64,
    },
}

impl Replica {
    pub(super) fn new(name: String, now: Timestamp) -> Self {
        Self {
            schedule: Schedule::new(8, None),
            resync: Resync::new(None, now),
            membership: Membership::new(name),
            renewal_begun: now,
            renewal_worked: false,
            next_renewal: Some(now),
            watch: Watch::Unknown,
            watch_failures: 0,
            woken_at: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.membership.me()
    }

    pub(super) fn ownership(&self, now: Timestamp) -> Ownership {
        self.membership.ownership(now)
    }

    /// Whether the API was asked and has not answered.
    pub(super) fn is_renewing(&self) -> bool {
        self.next_renewal.is_none()
    }

    pub(super) fn take(&mut self, input: Input, now: Timestamp, jitter: f64) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Wake => {}
            Input::Watching => {
                if let Watch::Opening { since } = self.watch {
                    self.watch = Watch::Up { since };
                    self.watch_failures = 0;
                    self.resync.set_watching(true, now);
                }
            }
            Input::Changed((version, id, cluster)) => {
                if let Watch::Up { since } = &mut self.watch
                    && *since < version
                {
                    *since = version;
                    match cluster {
                        Some(cluster) => {
                            let _ = self.schedule.observe(cluster.observed(Origin::Watch(version), now), now);
                        }
                        None => self.schedule.gone(&id, Some(version)),
                    }
                }
            }
            Input::WatchEnded => {
                if let Watch::Up { since } | Watch::Opening { since } = self.watch {
                    self.watch_failures += 1;
                    let retry = later(now, after_failures(self.watch_failures, jitter, None));
                    self.watch = Watch::Down { since, retry };
                    self.resync.set_watching(false, now);
                }
            }
            Input::WatchTooOld => {
                self.watch = Watch::Unknown;
                self.resync.set_watching(false, now);
                self.resync.request(now);
            }
            Input::Resynced(Some((version, found))) => {
                for cluster in found {
                    self.schedule.observe(cluster.observed(Origin::List(Some(version)), now), now);
                }
                self.schedule.resync_ends(true);
                self.resync.succeeded();
                if matches!(self.watch, Watch::Unknown) {
                    self.watch = Watch::Opening { since: version };
                    effects.push(Effect::Watch(Some(version)));
                }
            }
            Input::Resynced(None) => {
                self.schedule.resync_ends(false);
                self.resync.failed(now, jitter, None);
            }
            Input::Leased(granted, asked) => {
                self.renewal_worked = granted.is_some();
                if self.renewal_worked {
                    self.membership.granted(asked, now);
                }
                effects.push(Effect::List);
            }
            Input::Listed(listed, asked) => {
                self.renewal_worked &= listed.is_some();
                if let Some(present) = listed {
                    self.membership.listed(present.iter().map(String::as_str), asked, now);
                }
                self.next_renewal =
                    Some(self.membership.next_renewal(self.renewal_begun, self.renewal_worked, now));
            }
            Input::Published(publication, true) => self.schedule.published(&publication, now),
            Input::Published(publication, false) => self.schedule.failed(&publication, now, jitter),
        }
        self.act(now, &mut effects);
        effects
    }

    /// Whatever is due by now.
    fn act(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.next_renewal.is_some_and(|next| next <= now) {
            self.next_renewal = None;
            self.renewal_begun = now;
            effects.push(Effect::Lease);
        }
        match self.membership.ownership(now) {
            Ownership::Lapsed => self.schedule.pause(),
            Ownership::Owns(ranges) => {
                if self.schedule.set_ranges(ranges, self.membership.standby(), now) {
                    self.resync.request(now);
                }
            }
        }
        if let Watch::Down { since, retry } = self.watch
            && retry <= now
        {
            self.watch = Watch::Opening { since };
            effects.push(Effect::Watch(Some(since)));
        }
        if self.resync.begin(now) {
            self.schedule.resync_begins();
            effects.push(Effect::Resync);
        }
        effects.extend(std::iter::from_fn(|| self.schedule.take_due(now)).map(Effect::Publish));
    }

    pub(super) fn wake_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        let retry = match self.watch {
            Watch::Down { retry, .. } => Some(retry),
            _ => None,
        };
        let moments = [
            self.next_renewal,
            self.resync.wake_at(),
            self.schedule.wake_at(),
            self.membership.wake_at(now),
            retry,
        ];
        let next = moments.into_iter().flatten().min()?.max(later(now, Duration::from_millis(1)));
        if self.woken_at.is_some_and(|woken| woken > now && woken <= next) {
            return None;
        }
        self.woken_at = Some(next);
        Some(next)
    }
}
