//! The task that reads the feed.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use hyperfleet_core::FeedPosition;

use super::Feed;
use crate::clock::Clock;
use crate::database_health::DatabaseHealth;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::read::{FeedReader, Reader};

/// How often to read without an announcement.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Under load, how long to collect changes: one read costs as much as another, however many changes it returns.
pub(crate) const BATCH_WINDOW: Duration = Duration::from_millis(5);

/// How many changes to read at once.
pub(crate) const PAGE_SIZE: i64 = 256;

/// Runs as long as the process, also after a panic.
pub(crate) async fn run(
    feed: Feed,
    reader: Reader,
    metrics: Metrics,
    state: (Clock, DatabaseHealth),
    timeout: Duration,
) {
    while AssertUnwindSafe(follow(&feed, &reader, &metrics, &state, timeout)).catch_unwind().await.is_err() {
        tracing::error!("the reader of the feed failed and is started again");
        feed.buffer().restart(None);
    }
}

/// Without followers only the position of the database is read: a database that was restored must be noticed.
async fn follow(
    feed: &Feed,
    reader: &Reader,
    metrics: &Metrics,
    (clock, health): &(Clock, DatabaseHealth),
    timeout: Duration,
) {
    let mut position = None;
    let mut last_read = Instant::now();
    loop {
        tokio::time::sleep_until((last_read + BATCH_WINDOW).into()).await;
        last_read = Instant::now();
        // Announcements up to here are answered by the read that follows.
        let _ = feed.0.wake.notified().now_or_never();
        let is_followed = feed.is_followed();
        let read = health.or_fail(read(feed, reader, metrics, clock, position));
        let read = tokio::time::timeout(timeout, read).await;
        let more = match read {
            Ok(Ok((through, more))) => {
                position = Some(through);
                more
            }
            Ok(Err(failure)) => {
                tracing::warn!(error = failure.chain(), "cannot read the feed");
                false
            }
            Err(_) => {
                tracing::warn!("cannot read the feed in time");
                false
            }
        };
        if !is_followed {
            feed.buffer().restart(None);
            position = None;
        }
        if !more {
            let _ = tokio::time::timeout(POLL_INTERVAL, feed.0.wake.notified()).await;
        }
    }
}

/// Reads the page after `position`. Returns its last position, and whether there is more.
async fn read(
    feed: &Feed,
    reader: &Reader,
    metrics: &Metrics,
    clock: &Clock,
    position: Option<FeedPosition>,
) -> Result<(FeedPosition, bool), Failure> {
    let seen = feed.seen();
    let restart = async || {
        let mut newest = reader.bounds().await?.newest;
        if seen.is_ahead_of(newest) {
            tracing::error!(
                known = %seen.newest(),
                found = %newest,
                "the database is at an older version than before, so it gets a new epoch"
            );
            reader.renew_epoch(newest.epoch).await?;
            newest = reader.bounds().await?.newest;
        }
        feed.restart(newest);
        Ok((newest, false))
    };
    let Some(FeedPosition { epoch, version: position }) = position else { return restart().await };
    // Followers read for themselves if the page is larger than the buffer.
    let Some(page) = reader.feed_page(FeedReader::Shared, position).await? else {
        return restart().await;
    };
    // Changes in between may be of another history, lost or pruned, so the buffer would have a gap.
    if page.newest.epoch != epoch || seen.is_ahead_of(page.newest) || page.pruned > position {
        return restart().await;
    }
    let (through, newest) = (page.through, page.newest.version);
    metrics.feed.lag_versions.set(newest.0 - through.0);
    if through > position {
        let changes = page.changes(reader.catalog());
        if let Some(last) = changes.last() {
            let age = clock.now().micros() - last.at.micros();
            metrics.feed.lag_seconds.set(age.max(0) as f64 / 1e6);
        }
        feed.buffer().extend(changes, through);
        feed.announce(through);
        feed.0.head.send_replace(through);
    }
    let is_behind = through < newest || feed.lock_seen().newest() > newest;
    Ok((FeedPosition { epoch, version: through }, is_behind))
}
