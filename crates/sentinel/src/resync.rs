//! When to search for everything that may be due. The watch tells changes; a resync is the safety net, and the only way if
//! there is no watch.

use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::{after_failures, later};

/// Between two resyncs while the watch is connected.
pub const WITH_WATCH: Duration = Duration::from_secs(30);
/// With more kinds than this the interval of each grows, so that the load on the API does not.
const KINDS: u32 = 4;
/// Between two resyncs without a watch.
pub(crate) const WITHOUT_WATCH: Duration = Duration::from_secs(5);

/// The resyncs of one kind.
#[derive(Debug)]
pub struct Resync {
    interval: Option<Duration>,
    /// How many kinds this process watches.
    kinds: u32,
    watching: bool,
    running: bool,
    failures: u32,
    next: Timestamp,
}

impl Resync {
    /// The first resync is due now. A configured interval applies with and without a watch.
    pub fn new(interval: Option<Duration>, now: Timestamp) -> Self {
        Self { interval, kinds: 1, watching: false, running: false, failures: 0, next: now }
    }

    /// Sets how many kinds this process watches, this one included.
    pub(crate) fn set_kinds(&mut self, kinds: u32) {
        self.kinds = kinds;
    }

    /// Begins a resync if one is due.
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let due = !self.running && self.next <= now;
        if due {
            self.running = true;
            self.next = later(now, self.interval());
        }
        due
    }

    /// When the next resync is due; `None` while one runs.
    pub fn wake_at(&self) -> Option<Timestamp> {
        (!self.running).then_some(self.next)
    }

    /// Requests a resync as soon as possible, after a running one, which may have begun too early.
    pub fn request(&mut self, now: Timestamp) {
        if self.failures == 0 {
            self.next = self.next.min(now);
        }
    }

    /// Resets the back-off.
    pub fn succeeded(&mut self) {
        self.running = false;
        self.failures = 0;
    }

    /// Schedules a retry.
    pub fn failed(&mut self, now: Timestamp, jitter: f64, retry_after: Option<Duration>) {
        self.running = false;
        self.failures = self.failures.saturating_add(1);
        self.next = later(now, after_failures(self.failures, jitter, retry_after));
    }

    /// Tells whether the watch is connected, and returns whether it has just connected. The next resync finds what the
    /// watch missed.
    pub fn set_watching(&mut self, watching: bool, now: Timestamp) -> bool {
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
    fn the_resync_interval_grows_with_the_kinds_except_without_a_watch_and_as_configured() {
        let begun = Timestamp::from_micros(0);
        for kinds in [1, 4, 5, 12, 100] {
            let mut resync = Resync::new(None, begun);
            resync.set_kinds(kinds);
            assert!(resync.begin(begun));
            resync.succeeded();
            assert_eq!(resync.wake_at(), Some(later(begun, WITHOUT_WATCH)));
            resync.set_watching(true, begun);
            assert!(resync.begin(later(begun, WITHOUT_WATCH)));
            resync.succeeded();
            let next =
                later(later(begun, WITHOUT_WATCH), Duration::from_millis(7_500 * u64::from(kinds.max(4))));
            assert_eq!(resync.wake_at(), Some(next), "{kinds} kinds");
        }
        let mut configured = Resync::new(Some(Duration::from_secs(1)), begun);
        configured.set_kinds(100);
        assert!(configured.begin(begun));
        configured.succeeded();
        assert_eq!(configured.wake_at(), Some(later(begun, Duration::from_secs(1))));
    }
}
