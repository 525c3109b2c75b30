//! When to look at everything that may be due. The watch is how changes are learned; looking is the safety net, and
//! the only way where there is no watch.

use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};

/// Between two looks while a watch tells of changes.
pub const WITH_WATCH: Duration = Duration::from_secs(30);
/// So many kinds are looked at that often; where there are more, each is less often, so that the API is not asked more
/// however many there are.
const KINDS: u32 = 4;
/// Between two looks without one.
pub const WITHOUT_WATCH: Duration = Duration::from_secs(5);

/// The rhythm of looks at one kind.
#[derive(Debug)]
pub struct Cycle {
    interval: Option<Duration>,
    /// How many kinds one process looks at.
    kinds: u32,
    watching: bool,
    looking: bool,
    failures: u32,
    next: Timestamp,
}

impl Cycle {
    /// A rhythm whose first look is due now. A configured interval holds with and without a watch.
    pub fn new(interval: Option<Duration>, now: Timestamp) -> Self {
        Self { interval, kinds: 1, watching: false, looking: false, failures: 0, next: now }
    }

    /// So many kinds are looked at from here, this one included.
    pub fn beside(&mut self, kinds: u32) {
        self.kinds = kinds;
    }

    /// Whether a look is due. It counts as begun.
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let due = !self.looking && self.next <= now;
        if due {
            self.looking = true;
            self.next = later(now, self.interval());
        }
        due
    }

    /// When the next look is due; nothing while one runs.
    pub fn wake_at(&self) -> Option<Timestamp> {
        (!self.looking).then_some(self.next)
    }

    /// Look as soon as possible, also if one runs: it may have begun too early to see what is wanted.
    pub fn hurry(&mut self, now: Timestamp) {
        if self.failures == 0 {
            self.next = self.next.min(now);
        }
    }

    /// A look ended well.
    pub fn succeeded(&mut self) {
        self.looking = false;
        self.failures = 0;
    }

    /// A look failed.
    pub fn failed(&mut self, now: Timestamp, chance: f64, asked: Option<Duration>) {
        self.looking = false;
        self.failures = self.failures.saturating_add(1);
        self.next = later(now, after_failures(self.failures, chance, asked));
    }

    /// The watch is there or is not; tells whether it came just now. What was missed without it is found soon.
    pub fn watch(&mut self, watching: bool, now: Timestamp) -> bool {
        let came = watching && !self.watching;
        self.watching = watching;
        self.next = self.next.min(later(now, self.interval()));
        came
    }

    fn interval(&self) -> Duration {
        let with_watch = WITH_WATCH.max(WITH_WATCH * self.kinds / KINDS);
        self.interval.unwrap_or(if self.watching { with_watch } else { WITHOUT_WATCH })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_kinds_there_are_looks_at_them_are_rare_but_without_a_watch_and_as_configured() {
        let begun = Timestamp::from_micros(0);
        for kinds in [1, 4, 5, 12, 100] {
            let mut cycle = Cycle::new(None, begun);
            cycle.beside(kinds);
            assert!(cycle.begin(begun));
            cycle.succeeded();
            assert_eq!(cycle.wake_at(), Some(later(begun, WITHOUT_WATCH)));
            cycle.watch(true, begun);
            assert!(cycle.begin(later(begun, WITHOUT_WATCH)));
            cycle.succeeded();
            let next =
                later(later(begun, WITHOUT_WATCH), Duration::from_millis(7_500 * u64::from(kinds.max(4))));
            assert_eq!(cycle.wake_at(), Some(next), "{kinds} kinds");
        }
        let mut configured = Cycle::new(Some(Duration::from_secs(1)), begun);
        configured.beside(100);
        assert!(configured.begin(begun));
        configured.succeeded();
        assert_eq!(configured.wake_at(), Some(later(begun, Duration::from_secs(1))));
    }
}
