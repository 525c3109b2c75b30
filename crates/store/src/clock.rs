//! The store's time, by which everything is stored, compared and expired. The wall clock of this process is compared with it
//! and otherwise not used, because a wrong one would erase history.
//!
//! On PostgreSQL it is the database's clock, which every commit and every ping reads. On SQLite it is the machine's clock
//! when the database was opened. In between, the machine's monotonic clock advances it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyperfleet_core::Timestamp;
use rustix::time::{ClockId, clock_gettime};

const SECOND: i64 = 1_000_000;

/// By how much the wall clock may differ from the store's time.
const TOLERANCE: i64 = 5 * SECOND;

/// On SQLite, how long the wall clock must run on after a jump before the store's time follows it.
const SETTLED_AFTER: i64 = 10 * 60 * SECOND;

/// Clones share it. All times inside are in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The store's time less [`ticks`].
    offset: AtomicI64,
    /// SQLite: the newest stored time when the database was opened, less [`ticks`] then.
    opened: Option<i64>,
    /// SQLite: a jump of the wall clock, and the [`ticks`] since which it is of that size.
    jump: Mutex<Option<(i64, i64)>>,
}

/// Time since the machine was booted, its sleep included.
pub(crate) fn ticks() -> i64 {
    #[cfg(target_os = "linux")]
    let now = clock_gettime(ClockId::Boottime);
    #[cfg(not(target_os = "linux"))]
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * SECOND + now.tv_nsec / 1_000
}

fn wall() -> i64 {
    Timestamp::now().micros()
}

impl Clock {
    /// A clock that shows the wall clock's time until [`Self::read`] corrects it.
    pub(crate) fn of_database() -> Self {
        Self::new(None)
    }

    /// A clock that continues by itself; `newest` is the newest stored time.
    pub(crate) fn of_machine(newest: Option<Timestamp>) -> Self {
        Self::new(newest.map(|newest| newest.micros() - ticks()))
    }

    fn new(opened: Option<i64>) -> Self {
        let offset = AtomicI64::new(wall() - ticks());
        Self(Arc::new(Shared { offset, opened, jump: Mutex::default() }))
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.offset.load(Ordering::Relaxed) + ticks())
    }

    /// The database's clock was read between `asked` and now. The offset moves by no more than that reading demands.
    pub(crate) fn read(&self, time: Timestamp, asked: i64) {
        let (least, most) = (time.micros() - ticks(), time.micros() - asked);
        let offset = self.0.offset.load(Ordering::Relaxed);
        self.0.offset.store(offset.clamp(least, most.max(least)), Ordering::Relaxed);
    }

    /// On SQLite: follows a wall clock that is a little ahead, as after a correction over the network, and one that jumped
    /// once it has settled.
    pub(crate) fn follow_wall(&self) {
        self.follow(wall(), ticks());
    }

    fn follow(&self, wall: i64, ticks: i64) {
        let ahead = wall - (self.0.offset.load(Ordering::Relaxed) + ticks);
        let mut jump = self.0.jump.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = match *jump {
            _ if ahead.abs() <= TOLERANCE => {
                *jump = None;
                ahead > 0
            }
            Some((by, since)) if (ahead - by).abs() <= SECOND => ticks - since >= SETTLED_AFTER,
            _ => {
                *jump = Some((ahead, ticks));
                false
            }
        };
        if settled {
            self.0.offset.fetch_add(ahead, Ordering::Relaxed);
        }
    }

    /// By how much the wall clock is ahead of the store's time.
    pub(crate) fn skew(&self) -> i64 {
        wall() - self.now().micros()
    }

    /// Whether such a difference is more than the time of a reading and small corrections.
    pub(crate) fn is_skew(difference: i64) -> bool {
        difference.abs() > TOLERANCE
    }

    /// On SQLite: what is stored at this time or before is older than `age`. Nothing gets older than it was when the database
    /// was opened, plus the time since, because the clock may have been wrong ever since.
    pub(crate) fn expired(&self, age: Duration) -> Timestamp {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let now = self.now().micros();
        let known = self.0.opened.map_or(now, |opened| now.min(opened + ticks()));
        Timestamp::from_micros(known.saturating_sub(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * SECOND;

    /// How far ahead of the wall clock it is, in whole seconds.
    fn ahead(clock: &Clock) -> i64 {
        (-clock.skew() as f64 / SECOND as f64).round() as i64
    }

    fn in_future(by: i64) -> Timestamp {
        Timestamp::from_micros(wall() + by)
    }

    #[test]
    fn a_reading_of_the_database_bounds_the_clock_and_a_slow_one_moves_it_no_more_than_it_must() {
        let clock = Clock::of_database();
        clock.read(in_future(HOUR), ticks());
        assert_eq!(ahead(&clock), 3600);
        // Asked ten seconds ago, the database's time is now between these and ten seconds later.
        clock.read(in_future(HOUR - 4 * SECOND), ticks() - 10 * SECOND);
        assert_eq!(ahead(&clock), 3600);
        clock.read(in_future(HOUR + 4 * SECOND), ticks() - 10 * SECOND);
        assert_eq!(ahead(&clock), 3604);
        clock.read(in_future(-HOUR), ticks() - 10 * SECOND);
        assert_eq!(ahead(&clock), 10 - 3600);
        assert!(Clock::is_skew(clock.skew()));
    }

    #[test]
    fn a_jump_of_the_wall_clock_is_followed_once_it_has_settled() {
        for jump in [32 * 24 * HOUR, -HOUR] {
            let clock = Clock::of_machine(None);
            let (wall, ticks) = (wall() + jump, ticks());
            for second in [0, 1, 599] {
                clock.follow(wall + second * SECOND, ticks + second * SECOND);
                assert_eq!(ahead(&clock), 0);
            }
            // It jumps again, and settles there.
            for second in [600, 1199] {
                clock.follow(wall + (second + 60) * SECOND, ticks + second * SECOND);
                assert_eq!(ahead(&clock), 0);
            }
            clock.follow(wall + 1260 * SECOND, ticks + 1200 * SECOND);
            assert_eq!(ahead(&clock), jump / SECOND + 60);
        }
    }

    #[test]
    fn a_small_step_is_followed_forwards_only() {
        let clock = Clock::of_machine(None);
        clock.follow(wall() - 4 * SECOND, ticks());
        assert_eq!(ahead(&clock), 0);
        clock.follow(wall() + 4 * SECOND, ticks());
        assert_eq!(ahead(&clock), 4);
    }

    #[test]
    fn nothing_expires_by_a_clock_that_is_ahead_of_what_was_stored() {
        let age =
            |clock: &Clock| (clock.now().micros() - clock.expired(Duration::ZERO).micros() + HOUR / 2) / HOUR;
        assert_eq!(age(&Clock::of_machine(None)), 0, "an empty database");
        assert_eq!(age(&Clock::of_machine(Some(in_future(HOUR)))), 0, "the clock is behind");
        assert_eq!(age(&Clock::of_machine(Some(in_future(-768 * HOUR)))), 768, "the clock may be ahead");
    }
}
