//! Recomputes the conditions of kinds whose settings changed since they were computed. It sends small commands through the
//! committer, so that no caller waits for long. Several replicas may do it at once, because a second computation changes
//! nothing. The settings are stored at the end.
//!
//! During a rolling update replicas with the previous settings may still write, so the kind is checked once more later.

use std::time::Duration;

use hyperfleet_core::{AccessScope, Caller, Command, Entity, Error, Intent, ResourceId, Timestamp};

use crate::Store;
use crate::read::on_store;

/// The resources of one command, few enough not to delay the commands behind it.
const STEP: usize = 50;

/// How long to wait before another attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// After this time a rolling update is over.
const RECHECK_AFTER: Duration = Duration::from_secs(15 * 60);

/// The settings of a kind that is being recomputed.
const UNFINISHED: &str = "unfinished";

/// The actor of recomputed conditions.
const ACTOR: &str = "system@hyperfleet.local";

/// A position in the order of creation.
type Position = (Timestamp, ResourceId);

impl Store {
    /// Recomputes every kind whose settings changed, and checks it once more later. It returns when it has succeeded.
    pub async fn recompute_conditions(&self) {
        let mut later = Vec::new();
        for entity in self.rulebook.catalog.kinds() {
            let settings = self.rulebook.condition_settings(entity);
            match self.until_done(|| self.stored_settings(&entity.kind)).await {
                Some((stored, None)) if stored == settings => {}
                Some((stored, Some(due))) if stored == settings => later.push((due, entity)),
                _ => {
                    self.until_done(|| self.store_settings(&entity.kind, UNFINISHED, None)).await;
                    let recomputed = self.recompute_kind(entity).await;
                    let due = (recomputed > 0).then(|| self.after(RECHECK_AFTER));
                    self.until_done(|| self.store_settings(&entity.kind, &settings, due)).await;
                    later.extend(due.map(|due| (due, entity)));
                }
            }
        }
        for (due, entity) in later {
            let wait = due.micros().saturating_sub(self.clock.now().micros());
            tokio::time::sleep(Duration::from_micros(u64::try_from(wait).unwrap_or_default())).await;
            self.recompute_kind(entity).await;
            let settings = self.rulebook.condition_settings(entity);
            self.until_done(|| self.store_settings(&entity.kind, &settings, None)).await;
        }
    }

    /// Recomputes all resources of a kind and returns their number.
    async fn recompute_kind(&self, entity: &Entity) -> usize {
        let mut position = None;
        let mut recomputed = 0;
        loop {
            let next = self.until_done(|| self.ids_of_kind(&entity.kind, position)).await;
            let Some(last) = next.last() else { break };
            position = Some(*last);
            recomputed += next.len();
            let ids: Vec<ResourceId> = next.into_iter().map(|(_, id)| id).collect();
            if self.recompute(ids.clone()).await.is_err() {
                // One by one, so that a resource that cannot be computed does not keep the others from it.
                for id in ids {
                    self.recompute_one(id).await;
                }
            }
        }
        if recomputed > 0 {
            tracing::info!(
                resource_type = &*entity.kind,
                resources = recomputed,
                "recomputed conditions by changed settings"
            );
        }
        recomputed
    }

    /// Recomputes a resource, as often as another attempt may help.
    async fn recompute_one(&self, id: ResourceId) {
        while let Err(error) = self.recompute(vec![id]).await {
            tracing::warn!(resource_id = %id, error = error.chain(), "cannot recompute conditions");
            if !error.is_temporary() {
                return;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn recompute(&self, ids: Vec<ResourceId>) -> Result<(), Error> {
        let request_id = format!("recompute-{}", ResourceId::generate());
        let caller = Caller { actor: ACTOR.to_owned(), request_id, scope: AccessScope::everything() };
        self.execute(Command { caller, dry_run: false, intent: Intent::Recompute(ids), idempotency: None })
            .await
            .map(drop)
    }

    /// Repeats an operation until it succeeds.
    async fn until_done<T, F: Future<Output = Result<T, Error>>>(&self, attempt: impl Fn() -> F) -> T {
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) => {
                    tracing::warn!(error = error.chain(), "cannot recompute conditions yet");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    async fn stored_settings(&self, kind: &str) -> Result<Option<(String, Option<Timestamp>)>, Error> {
        self.call("recompute", async { on_store!(&self.reader, |store| store.stored_settings(kind)) }).await
    }

    async fn store_settings(
        &self,
        kind: &str,
        settings: &str,
        recheck_time: Option<Timestamp>,
    ) -> Result<(), Error> {
        self.call("recompute", async {
            on_store!(&self.reader, |store| store.store_settings(kind, settings, recheck_time))
        })
        .await
    }

    async fn ids_of_kind(&self, kind: &str, after: Option<Position>) -> Result<Vec<Position>, Error> {
        self.call("recompute", async {
            on_store!(&self.reader, |store| store.ids_of_kind(kind, after, STEP as i64))
        })
        .await
    }

    /// The time that much later.
    fn after(&self, time: Duration) -> Timestamp {
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.clock.now().micros().saturating_add(time))
    }
}
