//! When to look at everything that may be due. The watch is how changes are learned; looking is the safety net, and
//! the only way where there is no watch.

use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};

/// Between two looks while a watch tells of changes.
pub const WITH_WATCH: Duration = Duration::from_secs(30);
/// Between two looks without one.
pub const WITHOUT_WATCH: Duration = Duration::from_secs(5);

/// The rhythm of looks at one kind.
#[derive(Debug)]
pub struct Cycle {
    interval: Option<Duration>,
    watching: bool,
    looking: bool,
    failures: u32,
    next: Timestamp,
}

impl Cycle {
    /// A rhythm whose first look is due now. A configured interval holds with and without a watch.
    pub fn new(interval: Option<Duration>, now: Timestamp) -> Self {
        Self { interval, watching: false, looking: false, failures: 0, next: now }
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
        self.interval.unwrap_or(if self.watching { WITH_WATCH } else { WITHOUT_WATCH })
    }
}
