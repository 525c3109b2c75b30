//! Conditions are computed by the configuration of their time. When a start finds other settings for a kind
//! than its conditions were made by, they are computed anew: in small commands that take their turn with
//! everyone else's, so that nothing waits for it. Several replicas may do it at once, because what is computed
//! twice comes out the same and is not written again; the settings are remembered only after the last.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::{Caller, Command, Entity, Error, Intent, ResourceId, Timestamp};

use crate::{Reader, Store};

/// Resources in one command. Few enough not to hold up those who wait behind it.
const STEP: usize = 50;

/// How long to wait before trying again what failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// After this time the replicas of before are gone.
const SECOND_LOOK: Duration = Duration::from_secs(15 * 60);

/// Stands for settings that no configuration has.
const UNFINISHED: &str = "unfinished";

/// Who changes conditions when nobody asked.
const ACTOR: &str = "system@hyperfleet.local";

impl Store {
    /// Brings the conditions of every kind whose settings changed up to date. Does not end before it has
    /// succeeded.
    ///
    /// While replicas are replaced one by one, those with the settings of before may still write. So what was
    /// computed anew is looked at once more when they are surely gone.
    pub async fn recompute_conditions(&self) {
        let changed = self.recompute_kinds(self.rulebook.catalog.kinds(), false).await;
        if !changed.is_empty() {
            tokio::time::sleep(SECOND_LOOK).await;
            self.recompute_kinds(changed, true).await;
        }
    }

    /// Recomputes those of `kinds` whose settings changed, or all of them. Returns which it were.
    async fn recompute_kinds<'a>(
        &self,
        kinds: impl IntoIterator<Item = &'a Arc<Entity>>,
        all: bool,
    ) -> Vec<&'a Arc<Entity>> {
        let mut changed = Vec::new();
        for entity in kinds {
            loop {
                match self.recompute_kind(entity, all).await {
                    Ok(true) => changed.push(entity),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(
                            resource_type = &*entity.kind,
                            error = error.chain(),
                            "cannot recompute conditions yet"
                        );
                        tokio::time::sleep(PATIENCE).await;
                        continue;
                    }
                }
                break;
            }
        }
        changed
    }

    /// Whether there was anything to look at.
    async fn recompute_kind(&self, entity: &Entity, always: bool) -> Result<bool, Error> {
        let basis = self.rulebook.basis(entity);
        if !always && self.basis(&entity.kind).await?.as_deref() == Some(&basis) {
            return Ok(false);
        }
        // From now on the conditions are of no settings: whatever ends this early, the next start begins anew.
        self.set_basis(&entity.kind, UNFINISHED).await?;
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
        Ok(looked_at > 0)
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
