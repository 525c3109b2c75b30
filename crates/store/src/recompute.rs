//! Conditions are computed by the configuration of their time. When a start finds other settings for a kind
//! than its conditions were made by, they are computed anew: in small commands that take their turn with
//! everyone else's, so that nothing waits for it. Several replicas may do it at once, because what is computed
//! twice comes out the same and is not written again; the settings are remembered only after the last.

use std::time::Duration;

use hyperfleet_core::{Caller, Command, Entity, Error, Intent, ResourceId, Timestamp};

use crate::{Reader, Store};

/// Resources in one command. Few enough not to hold up those who wait behind it.
const STEP: usize = 50;

/// How long to wait before trying again what failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who changes conditions when nobody asked.
const ACTOR: &str = "system@hyperfleet.local";

impl Store {
    /// Brings the conditions of every kind whose settings changed up to date. Does not end before it has
    /// succeeded.
    pub async fn recompute_conditions(&self) {
        for entity in self.rulebook.catalog.kinds() {
            while let Err(error) = self.recompute_kind(entity).await {
                tracing::warn!(
                    resource_type = &*entity.kind,
                    error = error.chain(),
                    "cannot recompute conditions yet"
                );
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }

    async fn recompute_kind(&self, entity: &Entity) -> Result<(), Error> {
        let basis = self.rulebook.basis(entity);
        if self.basis(&entity.kind).await?.as_deref() == Some(&basis) {
            return Ok(());
        }
        let mut after = None;
        let mut looked_at: usize = 0;
        loop {
            let next = self.ids_of_kind(&entity.kind, after).await?;
            let Some(last) = next.last() else { break };
            after = Some(*last);
            looked_at += next.len();
            let caller =
                Caller { actor: ACTOR.to_owned(), request_id: format!("recompute-{}", ResourceId::generate()) };
            let ids = next.into_iter().map(|(_, id)| id).collect();
            self.execute(Command { caller, dry_run: false, intent: Intent::Recompute(ids) }).await?;
        }
        self.set_basis(&entity.kind, &basis).await?;
        if looked_at > 0 {
            tracing::info!(
                resource_type = &*entity.kind,
                resources = looked_at,
                "recomputed conditions by changed settings"
            );
        }
        Ok(())
    }

    async fn basis(&self, kind: &str) -> Result<Option<String>, Error> {
        self.door("recompute", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.basis(kind).await,
                Reader::Postgres(postgres) => postgres.basis(kind).await,
            }
        })
        .await
    }

    async fn set_basis(&self, kind: &str, basis: &str) -> Result<(), Error> {
        self.door("recompute", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.set_basis(kind, basis).await,
                Reader::Postgres(postgres) => postgres.set_basis(kind, basis).await,
            }
        })
        .await
    }

    async fn ids_of_kind(
        &self,
        kind: &str,
        after: Option<(Timestamp, ResourceId)>,
    ) -> Result<Vec<(Timestamp, ResourceId)>, Error> {
        let limit = STEP as i64;
        self.door("recompute", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.ids_of_kind(kind, after, limit).await,
                Reader::Postgres(postgres) => postgres.ids_of_kind(kind, after, limit).await,
            }
        })
        .await
    }
}
