//! Periodic work: pings, metrics of pending resources, and pruning in small steps.

use std::time::{Duration, Instant};

use hyperfleet_core::{Error, IDEMPOTENCY_RETENTION, Timestamp};

use crate::Store;
use crate::read::{Reader, on_store};

/// A deadline that is noticed so late passed while this process was frozen.
const FROZEN: Duration = Duration::from_millis(500);

impl Store {
    /// Sets the metrics of pending resources, and of those that have been pending for longer than `threshold`.
    pub async fn measure_pending(&self, threshold: Duration) -> Result<(), Error> {
        let now = self.clock.now();
        let threshold = i64::try_from(threshold.as_micros()).unwrap_or(i64::MAX);
        let stuck_before = Timestamp::from_micros(now.micros().saturating_sub(threshold));
        let pending = self
            .call("pending", async { on_store!(&self.reader, |store| store.pending(stuck_before)) })
            .await?;
        self.metrics.fleet.show(&self.rulebook.catalog, &pending, now);
        Ok(())
    }

    /// Pings the database, with its own timeout, and compares the clocks. Requests fail at once after a ping of PostgreSQL that
    /// failed, until there is one that succeeds.
    pub async fn ping(&self, timeout: Duration) -> Result<(), Error> {
        let ping = || async {
            self.health.check_damage()?;
            on_store!(&self.reader, |store| store.ping())
        };
        let (open, in_use) = match &self.reader {
            Reader::Sqlite(sqlite) => sqlite.connections(),
            Reader::Postgres(postgres) => postgres.connections(),
        };
        self.metrics.connections_open.set(open as i64);
        self.metrics.connections_in_use.set(in_use as i64);
        let began = Instant::now();
        let mut answer = self.observe("ping", timeout, ping()).await;
        if answer.is_err() && began.elapsed() > timeout + FROZEN {
            answer = self.observe("ping", timeout, ping()).await;
        }
        if let Reader::Postgres(_) = &self.reader {
            self.health.set_unreachable(answer.is_err());
        }
        self.metrics.clock_skew.set(self.clock.skew() as f64 / 1e6);
        answer
    }

    /// Removes a small number of changes older than `age`. Returns how many; 0 at the end.
    pub async fn prune_history(&self, age: Duration) -> Result<u64, Error> {
        let pruned = self
            .call("prune_history", async { on_store!(&self.reader, |store| store.prune_history(age)) })
            .await?;
        self.metrics.feed.pruned.inc_by(pruned);
        let bounds = self.bounds().await?;
        // Each version has its row.
        self.metrics.feed.rows.set(bounds.newest.version.0 - bounds.pruned.0);
        Ok(pruned)
    }

    /// Removes a small number of expired idempotency records. Returns how many.
    pub async fn prune_idempotency_records(&self) -> Result<u64, Error> {
        self.call("prune_idempotency_records", async {
            on_store!(&self.reader, |store| store.prune_idempotency_records(IDEMPOTENCY_RETENTION))
        })
        .await
    }
}
