//! How fast a peer takes what waits for it. A limit that begins anew with every byte would let a peer keep a response in
//! memory for as long as it likes, so the peer must take a number of bytes within it.

use std::time::Duration;

use tokio::time::Instant;

/// What a peer must take before it has waited for as long as the limit is.
const MIN_TAKEN: usize = 64 << 10;

/// The wait for one peer. Time in which nothing waits for the peer does not count.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Since when bytes wait.
    since: Option<Instant>,
    /// How long bytes have waited before.
    waited: Duration,
    /// What the peer has taken meanwhile.
    taken: usize,
}

impl Backlog {
    /// Bytes wait for the peer; says whether none did before.
    pub(super) fn waits(&mut self, now: Instant) -> bool {
        let begins = self.since.is_none();
        self.since.get_or_insert(now);
        begins
    }

    /// The peer takes bytes; says whether they had to wait.
    pub(super) fn takes(&mut self, bytes: usize, now: impl FnOnce() -> Instant) -> bool {
        let since = self.since.take();
        self.waited += since.map_or(Duration::ZERO, |since| now().saturating_duration_since(since));
        self.taken = self.taken.saturating_add(bytes);
        if self.taken >= MIN_TAKEN {
            (self.waited, self.taken) = (Duration::ZERO, 0);
        }
        since.is_some()
    }

    /// When the peer has waited for too long; `None` while nothing waits.
    pub(super) fn due(&self, limit: Duration) -> Option<Instant> {
        Some(self.since? + limit.saturating_sub(self.waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn only_time_in_which_bytes_wait_counts_and_only_many_bytes_renew_it() {
        let mut now = Instant::now();
        let mut backlog = Backlog::default();
        assert!(!backlog.takes(10, || now) && backlog.due(LIMIT).is_none());
        for waited in [0, 8, 16, 24] {
            assert!(backlog.waits(now));
            assert_eq!(backlog.due(LIMIT), Some(now + LIMIT - Duration::from_secs(waited)));
            now += Duration::from_secs(8);
            assert!(!backlog.waits(now), "they wait already");
            assert!(backlog.takes(2 << 10, || now) && backlog.due(LIMIT).is_none());
            now += Duration::from_secs(600);
        }
        assert!(backlog.waits(now));
        assert_eq!(backlog.due(LIMIT), Some(now), "they have waited for 32 s in all");
        assert!(backlog.takes(MIN_TAKEN, || now) && backlog.waits(now));
        assert_eq!(backlog.due(LIMIT), Some(now + LIMIT));
    }
}
