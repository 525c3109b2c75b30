//! Recomputes the conditions of kinds whose settings changed since they were computed. It sends small commands through the
//! committer, so that no caller waits for long. Several replicas may do it at once, because a second computation changes
//! nothing. The settings are stored at the end.
//!
//! During a rolling update replicas with the previous settings may still write, so the kind is checked once more later.

use std::time::Duration;

use hyperfleet_core::{AccessScope, Caller, Command, Entity, Error, Intent, ResourceId, Timestamp};

use crate::Store;

/// The resources of one command, few enough not to delay the commands behind it.
pub(crate) const STEP: usize = 50;

/// How long to wait before another attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// After this time a rolling update is over.
const RECHECK_AFTER: Duration = Duration::from_secs(15 * 60);

/// The settings of a kind that is being recomputed.
const UNFINISHED: &str = "unfinished";

/// The actor of recomputed conditions.
const ACTOR: &str = "system@hyperfleet.local";

/// A position in the order of creation.
pub(crate) type Position = (Timestamp, ResourceId);

/// Recomputes every kind whose settings changed, and checks it once more later. It returns when it has succeeded.
pub(crate) async fn recompute_conditions(store: &Store) {
    let mut later = Vec::new();
    for entity in store.rulebook.catalog.kinds() {
        let settings = store.rulebook.condition_settings(entity);
        match until_done(|| store.stored_settings(&entity.kind)).await {
            Some((stored, None)) if stored == settings => {}
            Some((stored, Some(due))) if stored == settings => later.push((due, entity)),
            _ => {
                until_done(|| store.store_settings(&entity.kind, UNFINISHED, None)).await;
                let recomputed = recompute_kind(store, entity).await;
                let due = (recomputed > 0).then(|| after(store, RECHECK_AFTER));
                until_done(|| store.store_settings(&entity.kind, &settings, due)).await;
                later.extend(due.map(|due| (due, entity)));
            }
        }
    }
    for (due, entity) in later {
        let wait = due.micros().saturating_sub(store.clock.now().micros());
        tokio::time::sleep(Duration::from_micros(u64::try_from(wait).unwrap_or_default())).await;
        recompute_kind(store, entity).await;
        let settings = store.rulebook.condition_settings(entity);
        until_done(|| store.store_settings(&entity.kind, &settings, None)).await;
    }
}

/// Recomputes all resources of a kind and returns their number.
async fn recompute_kind(store: &Store, entity: &Entity) -> usize {
    let mut position = None;
    let mut recomputed = 0;
    loop {
        let next = until_done(|| store.ids_of_kind(&entity.kind, position)).await;
        let Some(last) = next.last() else { break };
        position = Some(*last);
        recomputed += next.len();
        let ids: Vec<ResourceId> = next.into_iter().map(|(_, id)| id).collect();
        if recompute(store, ids.clone()).await.is_err() {
            // One by one, so that a resource that cannot be computed does not keep the others from it.
            for id in ids {
                recompute_one(store, id).await;
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
async fn recompute_one(store: &Store, id: ResourceId) {
    while let Err(error) = recompute(store, vec![id]).await {
        tracing::warn!(resource_id = %id, error = error.chain(), "cannot recompute conditions");
        if !error.is_temporary() {
            return;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn recompute(store: &Store, ids: Vec<ResourceId>) -> Result<(), Error> {
    let request_id = format!("recompute-{}", ResourceId::generate());
    let caller = Caller { actor: ACTOR.to_owned(), request_id, scope: AccessScope::everything() };
    store
        .execute(Command { caller, dry_run: false, intent: Intent::Recompute(ids), idempotency: None })
        .await
        .map(drop)
}

/// Repeats an operation until it succeeds.
async fn until_done<T, F: Future<Output = Result<T, Error>>>(attempt: impl Fn() -> F) -> T {
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

/// The time that much later.
fn after(store: &Store, time: Duration) -> Timestamp {
    let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(store.clock.now().micros().saturating_add(time))
}
