//! How long to wait: for the next delivery of an event that failed, and for the next try to reach a broker.

use std::time::Duration;

use uuid::Uuid;

const FIRST_RECONNECT: Duration = Duration::from_millis(500);
const LONGEST_RECONNECT: Duration = Duration::from_secs(30);

/// `initial`, doubled with every failure after the first, up to `longest`.
pub(crate) fn after_failures(failures: u32, initial: Duration, longest: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    initial.saturating_mul(1 << doublings).min(longest)
}

/// The waits between tries to reach a broker. They are spread at random, so that the processes that lost a broker
/// at one moment do not all come back to it at one moment.
#[derive(Debug, Default)]
pub(crate) struct Reconnect {
    failures: u32,
}

impl Reconnect {
    pub(crate) fn next(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        reconnect_after(self.failures)
    }

    /// Forgets earlier failures when the connection held for a while.
    pub(crate) fn held_for(&mut self, time: Duration) {
        if time > LONGEST_RECONNECT {
            self.failures = 0;
        }
    }
}

/// Between half and all of the wait after this many failures.
pub(crate) fn reconnect_after(failures: u32) -> Duration {
    let longest = after_failures(failures, FIRST_RECONNECT, LONGEST_RECONNECT);
    let random = Uuid::new_v4().as_u128() as u8;
    longest.mul_f64(0.5 + f64::from(random) / 510.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::Options;

    #[test]
    fn a_failed_event_waits_one_second_then_twice_as_long_up_to_five_minutes() {
        let Options { backoff_initial, backoff_max, .. } = Options::default();
        let waits: Vec<u64> = (1..=11)
            .map(|failures| after_failures(failures, backoff_initial, backoff_max).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(after_failures(u32::MAX, Duration::from_secs(1), Duration::MAX).as_secs(), 1 << 31);
    }

    #[test]
    fn reconnects_wait_longer_each_time_between_half_and_all_of_a_bound() {
        let mut reconnect = Reconnect::default();
        for bound in [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000_u128] {
            let wait = reconnect.next().as_millis();
            assert!((bound / 2..=bound).contains(&wait), "{wait} for {bound}");
        }
        reconnect.held_for(Duration::ZERO);
        assert!(reconnect.next() > FIRST_RECONNECT, "a connection that broke at once was none");
        reconnect.held_for(LONGEST_RECONNECT * 2);
        assert!(reconnect.next() <= FIRST_RECONNECT);
    }
}
