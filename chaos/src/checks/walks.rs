//! A walk over the pages of a list has every resource once that was there from its beginning to its end, and none that was
//! not there at any time of it.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::replay::Replay;
use super::{Check, Findings};
use crate::history::{Action, History, Micros, Operation};

/// When a cluster was surely or possibly in the list.
struct Life {
    /// The creation was sent, and acknowledged.
    began: (Micros, Option<Micros>),
    /// The deletion was sent, and acknowledged.
    ended: Option<(Micros, Option<Micros>)>,
}

pub(super) fn check(history: &History, replay: &Replay<'_>, findings: &mut Findings) {
    let lives = lives(history, replay);
    for walk in &history.walks {
        let seen: HashSet<Uuid> = walk.ids.iter().copied().collect();
        let mut fail = |what: String| {
            findings
                .add(Check::Walks, || format!("a walk from {} to {} µs {what}", walk.started, walk.ended));
        };
        if seen.len() != walk.ids.len() {
            fail(format!("of {} resources has {} twice", walk.ids.len(), walk.ids.len() - seen.len()));
        }
        for (id, life) in &lives {
            let is_missing = !seen.contains(id);
            let was_there = life.began.1.is_some_and(|began| began < walk.started)
                && life.ended.is_none_or(|(sent, _)| sent > walk.ended);
            let was_gone =
                life.ended.and_then(|(_, acknowledged)| acknowledged).is_some_and(|gone| gone < walk.started);
            if was_there && is_missing {
                fail(format!("lacks {id}"));
            } else if !is_missing && (was_gone || life.began.0 > walk.ended) {
                fail(format!("has {id}, which was not there"));
            }
        }
    }
}

fn lives(history: &History, replay: &Replay<'_>) -> HashMap<Uuid, Life> {
    let acknowledged = |operation: &Operation| operation.is_acknowledged().then_some(operation.ended);
    let is_cluster = |id: &Uuid| replay.last.get(id).is_some_and(|change| !change.is_node_pool);
    let mut lives = HashMap::new();
    for operation in history.operations.iter().filter(|operation| operation.action == Action::Create) {
        if let Some(id) = operation.resource.filter(is_cluster) {
            lives.insert(id, Life { began: (operation.started, acknowledged(operation)), ended: None });
        }
    }
    for operation in history.operations.iter().filter(|operation| operation.action == Action::Delete) {
        if let Some(life) = operation.resource.and_then(|id| lives.get_mut(&id)) {
            life.ended = Some((operation.started, acknowledged(operation)));
        }
    }
    lives
}
