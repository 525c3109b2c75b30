//! Creators make clusters and NodePools with idempotency keys, repeat a key until it is answered and now and then after
//! that, and delete what they have made.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use super::{BASE, CREATIONS, Caller, Target};
use crate::feed;
use crate::history::{Action, Operation, OperationId, Outcome};

/// Clusters of one creator at a time.
const LIVE: usize = 30;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// A creation, to be sent any number of times.
pub(super) struct Creation {
    id: OperationId,
    owner: Option<Target>,
    path: String,
    body: Value,
}

pub(super) async fn run(mut caller: Caller) {
    let replicas = caller.shared.replicas.len();
    let mut pace = caller.pace(replicas, CREATIONS);
    let mut live: VecDeque<(Target, Creation)> = VecDeque::new();
    while !caller.shared.is_stopping() {
        pace.tick().await;
        if !live.is_empty() && caller.random.u8(..10) < 2 {
            let owner = live[caller.random.usize(..live.len())].0;
            if let Some((target, _)) = create(&mut caller, Some(owner)).await {
                caller.shared.targets().push(target);
            }
        } else if live.len() < LIVE {
            let created = create(&mut caller, None).await;
            caller.shared.targets().extend(created.iter().map(|(target, _)| *target));
            live.extend(created);
        } else if let Some((target, creation)) = live.pop_front() {
            delete(&mut caller, target).await;
            repeat(&mut caller, &creation).await;
        }
    }
}

/// Creates a cluster, or a NodePool below one.
pub(super) async fn create(caller: &mut Caller, owner: Option<Target>) -> Option<(Target, Creation)> {
    let id = caller.next_id();
    let (kind, path) = match owner {
        Some(owner) => ("NodePool", format!("{}/nodepools", owner.path())),
        None => ("Cluster", format!("{BASE}/clusters")),
    };
    let body = json!({"kind": kind, "name": id.to_string(), "spec": {"count": 0, "by": id.to_string()}});
    let creation = Creation { id, owner, path, body };
    let started = caller.shared.now();
    let (outcome, target) = post(caller, &creation).await;
    let (ended, resource) = (caller.shared.now(), target.map(|target| target.id));
    caller.shared.record(Operation { id, action: Action::Create, resource, started, ended, outcome });
    if target.is_some() {
        repeat(caller, &creation).await;
    }
    Some((target?, creation))
}

/// Now and then sends the same key later. The first answer comes again, whatever has become of the resource.
async fn repeat(caller: &mut Caller, creation: &Creation) {
    if caller.random.u8(..10) == 0 {
        post(caller, creation).await;
    }
}

/// Sends a creation until it is answered, or the load ends.
async fn post(caller: &mut Caller, creation: &Creation) -> (Outcome, Option<Target>) {
    loop {
        let call = caller.replica().post(&creation.path).header("idempotency-key", creation.id);
        let answer = caller.shared.send(call.json(&creation.body)).await;
        let what = format!("{} Create", creation.id);
        let outcome = caller.shared.outcome(&what, answer.as_ref(), &[]);
        caller.was_lost = outcome == Outcome::Unknown;
        if let (Outcome::Acknowledged { .. }, Some(answer)) = (outcome, answer) {
            let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let Ok(id) = feed::id(&body["id"]) else {
                caller.shared.unexpected(format!("{what}: {answer}"));
                return (outcome, None);
            };
            caller.shared.history().keys.push((creation.id, id));
            let owner = creation.owner.map(|owner| owner.id);
            let plural = if owner.is_some() { "nodepools" } else { "clusters" };
            return (outcome, Some(Target { id, plural, owner }));
        }
        if outcome == Outcome::Refused || caller.shared.is_stopping() {
            return (outcome, None);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Deletes a cluster with its NodePools; repeated until it is answered.
async fn delete(caller: &mut Caller, target: Target) {
    caller.shared.targets().retain(|other| other.id != target.id && other.owner != Some(target.id));
    let id = caller.next_id();
    let started = caller.shared.now();
    let mut attempts = 0;
    let outcome = loop {
        attempts += 1;
        let call = caller.replica().delete(&target.path());
        let answer = caller.shared.send(call).await;
        // After an attempt without an answer it may be gone already.
        let is_gone = attempts > 1 && answer.as_ref().is_some_and(|answer| answer.status == 404);
        let outcome = match is_gone {
            true => Outcome::Acknowledged { version: None },
            false => caller.shared.outcome(&format!("{id} Delete"), answer.as_ref(), &[]),
        };
        caller.was_lost = outcome == Outcome::Unknown;
        if outcome != Outcome::Unknown || caller.shared.is_stopping() {
            break outcome;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let (resource, ended) = (Some(target.id), caller.shared.now());
    caller.shared.record(Operation { id, action: Action::Delete, resource, started, ended, outcome });
}
