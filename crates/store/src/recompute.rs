//! Conditions are computed by the configuration of their time. When a start finds other settings for a kind
//! than its conditions were made by, they are computed anew: in small commands that take their turn with
//! everyone else's, so that nothing waits for it. Several replicas may do it at once, because what is computed
//! twice comes out the same and is not written again; the settings are remembered only after the last.
//!
//! While replicas are replaced one by one, those with the settings of before may still write. So what was
//! computed anew is looked at once more when they are surely gone, by whoever runs then.

use std::time::Duration;

use hyperfleet_core::{Caller, Command, Entity, Error, Intent, ResourceId, Sight, Timestamp};

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

/// A place in the order of creation.
type Place = (Timestamp, ResourceId);

impl Store {
    /// Brings the conditions of every kind whose settings changed up to date, and looks at them once more
    /// later. Does not end before it has succeeded.
    pub async fn recompute_conditions(&self) {
        let mut later = Vec::new();
        for entity in self.rulebook.catalog.kinds() {
            let basis = self.rulebook.basis(entity);
            match self.until_done(|| self.basis(&entity.kind)).await {
                Some((known, None)) if known == basis => {}
                Some((known, Some(due))) if known == basis => later.push((due, entity)),
                _ => {
                    self.until_done(|| self.set_basis(&entity.kind, UNFINISHED, None)).await;
                    let looked_at = self.recompute_kind(entity).await;
                    let due = (looked_at > 0).then(|| after(SECOND_LOOK));
                    self.until_done(|| self.set_basis(&entity.kind, &basis, due)).await;
                    later.extend(due.map(|due| (due, entity)));
                }
            }
        }
        for (due, entity) in later {
            let wait = due.micros().saturating_sub(Timestamp::now().micros());
            tokio::time::sleep(Duration::from_micros(u64::try_from(wait).unwrap_or_default())).await;
            self.recompute_kind(entity).await;
            let basis = self.rulebook.basis(entity);
            self.until_done(|| self.set_basis(&entity.kind, &basis, None)).await;
        }
    }

    /// Recomputes all resources of a kind, and returns how many they were.
    async fn recompute_kind(&self, entity: &Entity) -> usize {
        let mut place = None;
        let mut looked_at = 0;
        loop {
            let next = self.until_done(|| self.ids_of_kind(&entity.kind, place)).await;
            let Some(last) = next.last() else { break };
            place = Some(*last);
            looked_at += next.len();
            let ids: Vec<ResourceId> = next.into_iter().map(|(_, id)| id).collect();
            if self.recompute(ids.clone()).await.is_err() {
                // One by one: a resource that cannot be computed must not keep the others from it.
                for id in ids {
                    self.recompute_patiently(id).await;
                }
            }
        }
        if looked_at > 0 {
            tracing::info!(
                resource_type = &*entity.kind,
                resources = looked_at,
                "recomputed conditions by changed settings"
            );
        }
        looked_at
    }

    /// Tries for as long as trying again may help.
    async fn recompute_patiently(&self, id: ResourceId) {
        while let Err(error) = self.recompute(vec![id]).await {
            tracing::warn!(resource_id = %id, error = error.chain(), "cannot recompute conditions");
            if !error.is_temporary() {
                return;
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    async fn recompute(&self, ids: Vec<ResourceId>) -> Result<(), Error> {
        let request_id = format!("recompute-{}", ResourceId::generate());
        let caller = Caller { actor: ACTOR.to_owned(), request_id, sight: Sight::everything() };
        self.execute(Command { caller, dry_run: false, intent: Intent::Recompute(ids), retry: None })
            .await
            .map(drop)
    }

    /// Does something until it succeeds.
    async fn until_done<T, F: Future<Output = Result<T, Error>>>(&self, attempt: impl Fn() -> F) -> T {
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) => {
                    tracing::warn!(error = error.chain(), "cannot recompute conditions yet");
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        }
    }

    async fn basis(&self, kind: &str) -> Result<Option<(String, Option<Timestamp>)>, Error> {
        self.door("recompute", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.basis(kind).await,
                Reader::Postgres(postgres) => postgres.basis(kind).await,
            }
        })
        .await
    }

    async fn set_basis(
        &self,
        kind: &str,
        basis: &str,
        look_again_at: Option<Timestamp>,
    ) -> Result<(), Error> {
        self.door("recompute", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.set_basis(kind, basis, look_again_at).await,
                Reader::Postgres(postgres) => postgres.set_basis(kind, basis, look_again_at).await,
            }
        })
        .await
    }

    async fn ids_of_kind(&self, kind: &str, after: Option<Place>) -> Result<Vec<Place>, Error> {
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

fn after(time: Duration) -> Timestamp {
    let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(Timestamp::now().micros().saturating_add(time))
}
