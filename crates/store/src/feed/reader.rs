//! The one task that reads the feed, for as long as anybody follows.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use hyperfleet_core::{Timestamp, Version};

use super::Feed;
use crate::{Failure, Metrics, Reader, Reading};

/// How often to look without a bell.
const PATIENCE: Duration = Duration::from_secs(1);

/// Under load, how long to let changes gather: a read costs the same for one as for many.
pub(crate) const PACE: Duration = Duration::from_millis(5);

/// How many changes to read at once.
pub(crate) const PAGE_SIZE: i64 = 256;

/// Reads for as long as the process runs, whatever happens inside.
pub(crate) async fn run(feed: Feed, reader: Reader, metrics: Metrics, timeout: Duration) {
    while AssertUnwindSafe(follow(&feed, &reader, &metrics, timeout)).catch_unwind().await.is_err() {
        tracing::error!("the reader of the feed failed and is started again");
        feed.ring().restart(None);
    }
}

async fn follow(feed: &Feed, reader: &Reader, metrics: &Metrics, timeout: Duration) {
    let mut position = None;
    let mut last_read = Instant::now();
    loop {
        if !feed.is_followed() {
            feed.ring().restart(None);
            position = None;
            feed.0.bell.notified().await;
            continue;
        }
        tokio::time::sleep_until((last_read + PACE).into()).await;
        last_read = Instant::now();
        // What has rung so far is answered by what is read now, and not by another look.
        let _ = feed.0.bell.notified().now_or_never();
        let read = tokio::time::timeout(timeout, read(feed, reader, metrics, position, timeout)).await;
        let more = match read {
            Ok(Ok((through, more))) => {
                position = Some(through);
                more
            }
            Ok(Err(failure)) => {
                tracing::warn!(error = failure.cause, "cannot read the feed");
                false
            }
            Err(_) => {
                tracing::warn!("cannot read the feed in time");
                false
            }
        };
        if !more {
            let _ = tokio::time::timeout(PATIENCE, feed.0.bell.notified()).await;
        }
    }
}

/// Reads what comes after `position`. Returns how far that was, and whether there is more.
async fn read(
    feed: &Feed,
    reader: &Reader,
    metrics: &Metrics,
    position: Option<Version>,
    timeout: Duration,
) -> Result<(Version, bool), Failure> {
    let begin_anew = async || {
        let newest = reader.bounds().await?.1;
        feed.ring().restart(Some(newest));
        feed.0.head.send_replace(newest);
        Ok((newest, false))
    };
    let Some(position) = position else { return begin_anew().await };
    // What is more than can be held, those who follow must ask for themselves.
    let Some(trail) = reader.trail(Reading::First, position, timeout).await? else {
        return begin_anew().await;
    };
    let (through, newest) = (trail.through, trail.newest);
    if newest < position {
        tracing::error!(known = position.0, found = newest.0, "the database knows less than before");
        feed.0.losses.fetch_add(1, Ordering::Relaxed);
        feed.0.heard.store(newest.0, Ordering::Relaxed);
        return begin_anew().await;
    }
    if trail.forgotten > position {
        // Nobody read for so long that changes are missing in between: what is held must not look complete.
        return begin_anew().await;
    }
    // Whatever was told of, there is no more than this.
    let heard = feed.0.heard.load(Ordering::Relaxed);
    if heard > newest.0 {
        let _ = feed.0.heard.compare_exchange(heard, newest.0, Ordering::Relaxed, Ordering::Relaxed);
    }
    metrics.feed.lag_versions.set(newest.0 - through.0);
    if through > position {
        let steps = trail.steps(reader.catalog());
        if let Some(last) = steps.last() {
            let age = Timestamp::now().micros() - last.at.micros();
            metrics.feed.lag_seconds.set(age.max(0) as f64 / 1e6);
        }
        feed.ring().extend(steps, through);
        feed.0.heard.fetch_max(through.0, Ordering::Relaxed);
        feed.0.head.send_replace(through);
    }
    Ok((through, through < newest || feed.0.heard.load(Ordering::Relaxed) > newest.0))
}
