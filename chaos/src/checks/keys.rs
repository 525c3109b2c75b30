//! Every answer to one idempotency key names the one resource that it made. That a key is executed once is seen while the
//! feed is replayed.

use std::collections::HashMap;

use super::replay::Replay;
use super::{Check, Findings};
use crate::history::History;

pub(super) fn check(history: &History, replay: &Replay<'_>, findings: &mut Findings) {
    let mut answered = HashMap::new();
    for (key, resource) in &history.keys {
        let first = *answered.entry(key).or_insert(resource);
        if first != resource {
            findings.add(Check::Keys, || format!("{key} was answered with {first} and with {resource}"));
        }
        if let Some(created) = replay.created.get(key)
            && created != resource
        {
            findings.add(Check::Keys, || format!("{key} made {created} and was answered with {resource}"));
        }
    }
}
