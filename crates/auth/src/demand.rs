//! Requests that ask for newer keys. However many ask, one fetch answers them all, and the next comes no sooner than the
//! pace allows: tokens with made-up keys cannot be used to hammer an issuer, nor to keep requests waiting.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// See above. The one who fetches [`begin`](Demand::begin)s and [`finish`](Demand::finish)es.
#[derive(Debug)]
pub(crate) struct Demand {
    progress: watch::Sender<Progress>,
    /// From the beginning of one fetch to the beginning of the next that is asked for.
    interval: Duration,
    /// From the beginning of a fetch to the end of everybody's waiting for it.
    patience: Duration,
}

/// How many fetches there were.
#[derive(Debug, Clone, Copy)]
struct Progress {
    begun: u64,
    finished: u64,
    /// When the last one began.
    at: Instant,
}

impl Demand {
    /// For keys that are being fetched for the first time.
    pub(crate) fn new(interval: Duration, patience: Duration) -> Self {
        let progress = Progress { begun: 1, finished: 0, at: Instant::now() };
        Self { progress: watch::Sender::new(progress), interval, patience }
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
            // Whether it came in time shows in the keys.
            let _ = timeout_at(at + self.patience, progress.wait_for(|now| now.finished >= begun)).await;
        }
    }

    /// Completes when somebody has asked for a fetch that is not finished.
    pub(crate) async fn asked(&self) {
        // The sender is here, so it cannot be gone.
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
