//! Requests for newer keys. One fetch answers all concurrent requests, and the schedule limits how often a fetch
//! starts: tokens with invented key ids can neither overload an issuer nor delay other requests.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Requests for newer keys of one issuer. The refresh task calls [`begin`](FetchRequests::begin) and
/// [`finish`](FetchRequests::finish).
#[derive(Debug)]
pub(crate) struct FetchRequests {
    progress: watch::Sender<Progress>,
    /// The shortest time between the starts of two requested fetches.
    interval: Duration,
    /// How long after the start of a fetch requests wait for it.
    unknown_key_timeout: Duration,
}

/// How many fetches there were.
#[derive(Debug, Clone, Copy)]
struct Progress {
    begun: u64,
    finished: u64,
    /// When the last one began.
    at: Instant,
}

impl FetchRequests {
    /// For keys that are being fetched for the first time.
    pub(crate) fn new(interval: Duration, unknown_key_timeout: Duration) -> Self {
        let progress = Progress { begun: 1, finished: 0, at: Instant::now() };
        Self { progress: watch::Sender::new(progress), interval, unknown_key_timeout }
    }

    /// Waits for the fetch that is under way, or for a new one when one is due; returns at once when none is.
    pub(crate) async fn newer_keys(&self) {
        let mut progress = self.progress.subscribe();
        let now = Instant::now();
        let mut awaited = None;
        self.progress.send_if_modified(|progress| {
            let under_way = progress.finished < progress.begun;
            let due = !under_way && now.duration_since(progress.at) >= self.interval;
            if due {
                progress.begun += 1;
                progress.at = now;
            }
            awaited = (under_way || due).then_some(*progress);
            due
        });
        if let Some(Progress { begun, at, .. }) = awaited {
            // The caller looks at the keys again, whether or not the fetch ended in time.
            let _ = timeout_at(at + self.unknown_key_timeout, progress.wait_for(|now| now.finished >= begun))
                .await;
        }
    }

    /// Completes when a requested fetch is not finished.
    pub(crate) async fn asked(&self) {
        // The sender is a member of this value, so it is alive.
        let _ = self.progress.subscribe().wait_for(|progress| progress.finished < progress.begun).await;
    }

    /// A fetch begins, asked for or not.
    pub(crate) fn begin(&self) {
        self.progress.send_if_modified(|progress| {
            if progress.finished == progress.begun {
                progress.begun += 1;
                progress.at = Instant::now();
            }
            false
        });
    }

    /// The fetch has ended, well or not.
    pub(crate) fn finish(&self) {
        self.progress.send_modify(|progress| progress.finished = progress.begun);
    }
}
