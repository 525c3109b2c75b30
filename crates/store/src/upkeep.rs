//! What the server does with its database on its own account: it asks whether it is there, counts what waits, and
//! removes what is too old. Nobody's request waits for any of it.

use std::time::Duration;

use hyperfleet_core::{Error, KEPT_FOR, Timestamp};

use crate::{Reader, Store};

impl Store {
    /// Shows in the metrics what waits for its adapters, and what has for longer than `threshold`.
    pub async fn measure_pending(&self, threshold: Duration) -> Result<(), Error> {
        let now = Timestamp::now();
        let threshold = i64::try_from(threshold.as_micros()).unwrap_or(i64::MAX);
        let stuck_before = Timestamp::from_micros(now.micros().saturating_sub(threshold));
        let pending = self
            .door("pending", async {
                match &self.reader {
                    Reader::Sqlite(sqlite) => sqlite.pending(stuck_before).await,
                    Reader::Postgres(postgres) => postgres.pending(stuck_before).await,
                }
            })
            .await?;
        self.metrics.fleet.show(&self.rulebook.catalog, &pending, now);
        Ok(())
    }

    /// Asks the database whether it answers, within `timeout`.
    pub async fn ping(&self, timeout: Duration) -> Result<(), Error> {
        let ping = async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.ping().await,
                Reader::Postgres(postgres) => postgres.ping().await,
            }
        };
        let (open, in_use) = match &self.reader {
            Reader::Sqlite(sqlite) => sqlite.connections(),
            Reader::Postgres(postgres) => postgres.connections(),
        };
        self.metrics.connections_open.set(open as i64);
        self.metrics.connections_in_use.set(in_use as i64);
        self.measured("ping", timeout, ping).await
    }

    /// Removes history older than `before`, at most one small step of it. Returns how many rows
    /// went; none means that there is nothing left to remove.
    pub async fn prune_history(&self, before: Timestamp) -> Result<u64, Error> {
        let pruned = self
            .door("prune_history", async {
                match &self.reader {
                    Reader::Sqlite(sqlite) => sqlite.clone().prune_history(before).await,
                    Reader::Postgres(postgres) => postgres.prune_history(before).await,
                }
            })
            .await?;
        self.metrics.feed.pruned.inc_by(pruned);
        let (forgotten, newest) = self.bounds().await?;
        // Each version has its row.
        self.metrics.feed.rows.set(newest.0 - forgotten.0);
        Ok(pruned)
    }

    /// Removes answers that are too old to be given again, at most one small step of them. Returns how many went.
    pub async fn prune_retries(&self) -> Result<u64, Error> {
        let before = Timestamp::from_micros(Timestamp::now().micros() - KEPT_FOR);
        self.door("prune_retries", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.clone().prune_retries(before).await,
                Reader::Postgres(postgres) => postgres.prune_retries(before).await,
            }
        })
        .await
    }
}
