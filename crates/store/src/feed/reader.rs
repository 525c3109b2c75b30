//! The one task that reads the feed, for as long as anybody follows.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyperfleet_core::{Timestamp, Version};

use super::Feed;
use crate::{Failure, Metrics, Reader};

/// How often to look without a bell.
const PATIENCE: Duration = Duration::from_secs(1);

/// Under load, how long to let changes gather: a read costs the same for one as for many.
const PACE: Duration = Duration::from_millis(5);

/// How many changes to read at once.
pub(super) const PAGE_SIZE: i64 = 256;

/// Reads until `feed` is the last that holds on to it.
pub(crate) async fn run(feed: Feed, reader: Reader, metrics: Metrics, timeout: Duration) {
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
        let read = tokio::time::timeout(timeout, read(&feed, &reader, &metrics, position)).await;
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
) -> Result<(Version, bool), Failure> {
    let Some(position) = position else {
        let newest = reader.bounds().await?.1;
        feed.ring().restart(Some(newest));
        feed.0.head.send_replace(newest);
        return Ok((newest, false));
    };
    let trail = reader.trail(position, PAGE_SIZE).await?;
    let (through, newest) = (trail.through, trail.newest);
    if trail.forgotten > position {
        // Nobody read for so long that changes are missing in between: what is held must not look complete.
        feed.ring().restart(Some(newest));
        feed.0.head.send_replace(newest);
        return Ok((newest, false));
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
    Ok((through, through < newest || feed.0.heard.load(Ordering::Relaxed) > through.0))
}
