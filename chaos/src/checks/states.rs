//! In the end every replica lists exactly the state that the feed leads to.

use std::collections::BTreeMap;

use super::replay::Replay;
use super::{Check, Evidence, Findings};
use crate::history::EventKind;

pub(super) fn check(evidence: &Evidence, replay: &Replay<'_>, findings: &mut Findings) {
    let there = replay.last.values().filter(|change| change.kind != EventKind::Deleted);
    let expected: BTreeMap<_, _> = there.map(|change| (change.resource, change.digest)).collect();
    for (replica, state) in evidence.states.iter().enumerate() {
        for id in expected.keys().chain(state.keys().filter(|id| !expected.contains_key(id))) {
            if expected.get(id) != state.get(id) {
                findings.add(Check::States, || {
                    let (feed, list) = (expected.get(id), state.get(id));
                    format!("replica {replica}, {id}: digest {list:?} in the list, {feed:?} in the feed")
                });
            }
        }
    }
}
