//! A replica: the real deciding core, and a shell that puts wishes out and takes answers in, as the real one does with
//! tasks and sockets.

use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::backoff::{after_failures, later};
use hyperfleet_sentinel::book::{Book, Publication};
use hyperfleet_sentinel::cycle::Cycle;
use hyperfleet_sentinel::seen::Learned;
use hyperfleet_sentinel::shares::{Shares, Standing};

use super::world::Change;
use crate::given::Cluster;

/// What comes in.
#[derive(Debug, Clone)]
pub(super) enum Input {
    Wake,
    Watching,
    Changed(Change),
    WatchEnded,
    WatchTooOld,
    /// The version and what may be due, or nothing when it failed.
    Looked(Option<(u64, Vec<Cluster>)>),
    /// What became of the lease that was asked for then; nothing when nobody knows.
    Leased(Option<()>, Timestamp),
    /// Who was present, by a list that was asked for then.
    Listed(Option<Vec<String>>, Timestamp),
    Published(Publication, bool),
}

/// What goes out.
#[derive(Debug)]
pub(super) enum Wish {
    Look,
    Lease,
    List,
    Watch(Option<u64>),
    Publish(Publication),
}

pub(super) struct Replica {
    book: Book,
    cycle: Cycle,
    shares: Shares,
    beat_begun: Timestamp,
    beat_worked: bool,
    /// Nothing while one runs.
    next_beat: Option<Timestamp>,
    watch: Watch,
    watch_failures: u32,
    /// The moment that was asked for last, so that the agenda does not fill up with the same one.
    woken_at: Option<Timestamp>,
}

enum Watch {
    /// A look must tell where to begin.
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
            book: Book::new(8, None),
            cycle: Cycle::new(None, now),
            shares: Shares::new(name),
            beat_begun: now,
            beat_worked: false,
            next_beat: Some(now),
            watch: Watch::Unknown,
            watch_failures: 0,
            woken_at: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.shares.me()
    }

    pub(super) fn standing(&self, now: Timestamp) -> Standing {
        self.shares.standing(now)
    }

    /// Whether the API was asked and has not answered.
    pub(super) fn is_renewing(&self) -> bool {
        self.next_beat.is_none()
    }

    pub(super) fn take(&mut self, input: Input, now: Timestamp, chance: f64) -> Vec<Wish> {
        let mut wishes = Vec::new();
        match input {
            Input::Wake => {}
            Input::Watching => {
                if let Watch::Opening { since } = self.watch {
                    self.watch = Watch::Up { since };
                    self.watch_failures = 0;
                    self.cycle.watch(true, now);
                }
            }
            Input::Changed((version, id, cluster)) => {
                if let Watch::Up { since } = &mut self.watch
                    && *since < version
                {
                    *since = version;
                    match cluster {
                        Some(cluster) => {
                            let _ = self.book.see(cluster.seen(Learned::Change(version), now), now);
                        }
                        None => self.book.gone(&id, Some(version)),
                    }
                }
            }
            Input::WatchEnded => {
                if let Watch::Up { since } | Watch::Opening { since } = self.watch {
                    self.watch_failures += 1;
                    let retry = later(now, after_failures(self.watch_failures, chance, None));
                    self.watch = Watch::Down { since, retry };
                    self.cycle.watch(false, now);
                }
            }
            Input::WatchTooOld => {
                self.watch = Watch::Unknown;
                self.cycle.watch(false, now);
                self.cycle.hurry(now);
            }
            Input::Looked(Some((version, found))) => {
                for cluster in found {
                    self.book.see(cluster.seen(Learned::State(Some(version)), now), now);
                }
                self.book.look_ends(true);
                self.cycle.succeeded();
                if matches!(self.watch, Watch::Unknown) {
                    self.watch = Watch::Opening { since: version };
                    wishes.push(Wish::Watch(Some(version)));
                }
            }
            Input::Looked(None) => {
                self.book.look_ends(false);
                self.cycle.failed(now, chance, None);
            }
            Input::Leased(granted, asked) => {
                self.beat_worked = granted.is_some();
                if self.beat_worked {
                    self.shares.granted(asked, now);
                }
                wishes.push(Wish::List);
            }
            Input::Listed(listed, asked) => {
                self.beat_worked &= listed.is_some();
                if let Some(present) = listed {
                    self.shares.listed(present.iter().map(String::as_str), asked, now);
                }
                self.next_beat = Some(self.shares.next_beat(self.beat_begun, self.beat_worked, now));
            }
            Input::Published(publication, true) => self.book.published(&publication, now),
            Input::Published(publication, false) => self.book.failed(&publication, now, chance),
        }
        self.pursue(now, &mut wishes);
        wishes
    }

    /// Whatever is due by now.
    fn pursue(&mut self, now: Timestamp, wishes: &mut Vec<Wish>) {
        if self.next_beat.is_some_and(|next| next <= now) {
            self.next_beat = None;
            self.beat_begun = now;
            wishes.push(Wish::Lease);
        }
        match self.shares.standing(now) {
            Standing::Lapsed => self.book.pause(),
            Standing::Holds(ranges) => {
                if self.book.hold(ranges, self.shares.stands_in(), now) {
                    self.cycle.hurry(now);
                }
            }
        }
        if let Watch::Down { since, retry } = self.watch
            && retry <= now
        {
            self.watch = Watch::Opening { since };
            wishes.push(Wish::Watch(Some(since)));
        }
        if self.cycle.begin(now) {
            self.book.look_begins();
            wishes.push(Wish::Look);
        }
        wishes.extend(std::iter::from_fn(|| self.book.take_due(now)).map(Wish::Publish));
    }

    pub(super) fn wake_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        let retry = match self.watch {
            Watch::Down { retry, .. } => Some(retry),
            _ => None,
        };
        let moments =
            [self.next_beat, self.cycle.wake_at(), self.book.wake_at(), self.shares.wake_at(now), retry];
        let next = moments.into_iter().flatten().min()?.max(later(now, Duration::from_millis(1)));
        if self.woken_at.is_some_and(|woken| woken > now && woken <= next) {
            return None;
        }
        self.woken_at = Some(next);
        Some(next)
    }
}
