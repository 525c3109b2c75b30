//! The server's clock, as the `Date` of its answers shows it. Times in answers are compared with it, because the clock of this
//! machine may be wrong. It is advanced by the monotonic clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::DATE;
use hyperfleet_core::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<(Timestamp, Instant)>>);

impl ServerClock {
    /// The time now; `None` before the first answer with a date.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        let (time, read) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(after(time, read.elapsed()))
    }

    /// Reads the head of an answer to a request that was sent at `asked`.
    pub(crate) fn read(&self, headers: &HeaderMap, asked: Instant) {
        if let Some(date) = headers.get(DATE).and_then(|date| parse(date.to_str().ok()?)) {
            self.correct(date, asked, Instant::now());
        }
    }

    /// A date holds for a second, which passed between `asked` and `now`. The time moves by no more than that demands.
    fn correct(&self, date: Timestamp, asked: Instant, now: Instant) {
        let latest = after(date, Duration::from_secs(1) + now.duration_since(asked));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let time = match *known {
            Some((time, read)) => after(time, now.duration_since(read)).clamp(date, latest),
            None => after(date, Duration::from_millis(500)),
        };
        *known = Some((time, now));
    }
}

/// A date of HTTP.
pub(crate) fn parse(date: &str) -> Option<Timestamp> {
    Some(chrono::DateTime::parse_from_rfc2822(date.trim()).ok()?.to_utc().into())
}

fn after(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_micros(time.micros().saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_bound_the_servers_time_and_a_slow_answer_bounds_it_less() {
        let (clock, begun) = (ServerClock::default(), Instant::now());
        let at = |milliseconds: u64| begun + Duration::from_millis(milliseconds);
        let date = |second: i64| Timestamp::from_micros(1_800_000_000_000_000 + second * 1_000_000);
        let milliseconds = || {
            let (time, _) = clock.0.lock().unwrap().unwrap();
            (time.micros() - date(0).micros()) / 1_000
        };
        assert_eq!(clock.now(), None);
        for (sent, received, second, expected) in [
            (0, 10, 0, 500),
            // The second has not ended after 600 ms more, so it began later than it was thought to.
            (600, 610, 0, 1_010),
            (700, 710, 1, 1_110),
            // An answer took five seconds: the date is of any moment in between.
            (800, 5_800, 2, 6_200),
            (5_900, 5_910, 7, 7_000),
            // The clock of the server was set back.
            (6_000, 6_010, -3_600, -3_600_000 + 1_010),
        ] {
            clock.correct(date(second), at(sent), at(received));
            assert_eq!(milliseconds(), expected, "at {received}");
        }
    }
}
