//! A token bucket: so many requests a second, and more at once after a pause.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Spreads the requests to one cluster.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Below zero when callers wait for their turn.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full one. A rate of zero or less does not limit.
    pub(super) fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { rate, burst, level: Mutex::new(Level { tokens: burst, at: Instant::now() }) }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) {
        if let Some(wait) = self.reserve(Instant::now()) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes a token, and tells how long it takes until there is one.
    fn reserve(&self, now: Instant) -> Option<Duration> {
        if self.rate <= 0.0 {
            return None;
        }
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(level.at).as_secs_f64();
        level.tokens = passed.mul_add(self.rate, level.tokens).min(self.burst) - 1.0;
        level.at = now;
        (level.tokens < 0.0).then(|| Duration::from_secs_f64(-level.tokens / self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_passes_and_the_rest_is_spread() {
        let bucket = Bucket::new(10.0, 2);
        let now = Instant::now();
        assert_eq!([bucket.reserve(now), bucket.reserve(now)], [None, None]);
        let waits: Vec<_> = (0..3).filter_map(|_| bucket.reserve(now)).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [100, 200, 300]);
        let later = now + Duration::from_secs(60);
        assert_eq!([bucket.reserve(later), bucket.reserve(later)], [None, None], "a pause fills it");
        assert!(bucket.reserve(later).is_some(), "but not beyond the burst");
    }

    #[tokio::test]
    async fn no_rate_is_no_limit() {
        let bucket = Bucket::new(0.0, 1);
        assert!((0..1000).all(|_| bucket.reserve(Instant::now()).is_none()));
    }
}
