//! Waits after failures, which double: between deliveries of an event, and between attempts to connect to a broker.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

const FIRST_RECONNECT: Duration = Duration::from_millis(500);
const LONGEST_RECONNECT: Duration = Duration::from_secs(30);
/// After this many doublings every wait has reached its maximum.
const DOUBLINGS: u32 = 31;

/// `first`, doubled this many times, up to `longest`.
pub fn doubled(times: u32, first: Duration, longest: Duration) -> Duration {
    let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
    nth(delays.build(), times).min(longest)
}

/// The wait before connecting again: between half and all of 500 ms, doubled with every failure up to 30 s. The jitter
/// keeps processes that lost a broker together from returning to it together.
pub(crate) fn reconnect_after(failures: u32) -> Duration {
    nth(reconnects(), failures.saturating_sub(1))
}

fn nth(mut delays: ExponentialBackoff, times: u32) -> Duration {
    delays.nth(times.min(DOUBLINGS) as usize).unwrap_or_default()
}

/// Jitter adds up to the delay itself, so the delays are half of the bounds.
fn reconnects() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(FIRST_RECONNECT / 2)
        .with_max_delay(LONGEST_RECONNECT / 2)
        .without_max_times()
        .with_jitter()
        .build()
}

/// The waits of one connection that reconnects for as long as it is used.
#[derive(Debug)]
pub(crate) struct Reconnect(ExponentialBackoff);

impl Default for Reconnect {
    fn default() -> Self {
        Self(reconnects())
    }
}

impl Reconnect {
    pub(crate) fn next(&mut self) -> Duration {
        self.0.next().unwrap_or(LONGEST_RECONNECT)
    }

    /// Starts over if the connection held for a while.
    pub(crate) fn held_for(&mut self, time: Duration) {
        if time > LONGEST_RECONNECT {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::Options;

    #[test]
    fn redeliveries_wait_one_second_doubling_to_five_minutes() {
        let Options { backoff_initial, backoff_max, .. } = Options::default();
        let waits: Vec<u64> =
            (0..11).map(|times| doubled(times, backoff_initial, backoff_max).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(doubled(u32::MAX, Duration::from_secs(1), Duration::MAX).as_secs(), 1 << 31);
    }

    #[test]
    fn reconnects_wait_between_half_and_all_of_a_doubling_bound() {
        let mut reconnect = Reconnect::default();
        for bound in [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000_u128] {
            let wait = reconnect.next().as_millis();
            assert!((bound / 2..=bound).contains(&wait), "{wait} for {bound}");
        }
        reconnect.held_for(Duration::ZERO);
        assert!(
            reconnect.next() > FIRST_RECONNECT,
            "a connection that broke at once does not start the waits over"
        );
        reconnect.held_for(LONGEST_RECONNECT * 2);
        assert!(reconnect.next() <= FIRST_RECONNECT);
    }
}
