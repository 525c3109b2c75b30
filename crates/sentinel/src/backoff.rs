//! Waits after failures, and arithmetic on times. Randomness is an argument, so that a simulation can repeat it.

use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_events::backoff::doubled;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// The wait after consecutive failures: 0.5 s doubling to 30 s, shortened by up to a quarter. `jitter` is from 0 to 1. A
/// `Retry-After` is respected up to the longest wait.
pub fn after_failures(failures: u32, jitter: f64, retry_after: Option<Duration>) -> Duration {
    let wait =
        doubled(failures.saturating_sub(1), FIRST, LONGEST).mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 4.0);
    wait.max(retry_after.unwrap_or_default().min(LONGEST))
}

/// The time that much later.
pub fn later(moment: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(moment.micros().saturating_add(by))
}

/// The time that many microseconds later, or earlier.
pub(crate) fn shifted(moment: Timestamp, by: i64) -> Timestamp {
    Timestamp::from_micros(moment.micros().saturating_add(by))
}

/// How long ago a time was; zero for a time in the future.
pub fn age(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(now.micros().saturating_sub(moment.micros())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_half_a_second_to_thirty_and_jitter_only_shortens_them() {
        let waits: Vec<_> = (1..=9).map(|n| after_failures(n, 0.0, None).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!(after_failures(1, 1.0, None), Duration::from_millis(375));
        assert_eq!(after_failures(1, 0.5, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(after_failures(u32::MAX, 0.0, Some(Duration::from_secs(600))), LONGEST);
    }
}
