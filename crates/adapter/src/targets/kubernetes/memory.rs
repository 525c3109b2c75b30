//! What was applied to which object, so that a change by somebody else is noticed.
//!
//! There is no comparison of manifests, because defaults and conversions make false differences. After each apply the
//! object's `metadata.generation` is kept, or a hash of its content for kinds without one. When it has moved, the same
//! manifest is applied again, and the server decides what differs.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::ownership::{self, APPLIED};

/// More repairs than this in [`WINDOW`], and the object is contested.
const REPAIRS: usize = 5;
const WINDOW: Duration = Duration::from_secs(600);
/// Pause between repairs of a contested object.
const PAUSE: Duration = Duration::from_secs(300);
/// Beyond this many objects all is forgotten, which costs each of them one apply.
const LARGEST: usize = 500_000;

/// How an object stands to what was applied last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has changed it.
    Same,
    /// Somebody has.
    Drifted,
    /// Another process applied it, so nobody can tell.
    Unknown,
}

#[derive(Debug)]
struct Record {
    applied: u64,
    content: u64,
    version: u64,
    repairs: VecDeque<Instant>,
    contested: bool,
}

/// What is remembered of objects, by uid.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<String, Record>>);

impl Memory {
    /// Keeps the state of an object that has just been applied.
    pub(super) fn remember(&self, object: &Value) {
        let Some(uid) = uid(object) else { return };
        let mut records = self.records();
        if records.len() >= LARGEST {
            records.clear();
        }
        let (applied, content, version) = (applied(object), content(object), version(object));
        let record = records.entry(uid.to_owned()).or_insert_with(|| Record {
            applied,
            content,
            version,
            repairs: VecDeque::new(),
            contested: false,
        });
        (record.applied, record.content, record.version) = (applied, content, version);
    }

    /// Whether the object has changed since.
    pub(super) fn standing(&self, object: &Value) -> Standing {
        match uid(object)
            .and_then(|uid| self.records().get(uid).map(|record| (record.applied, record.content)))
        {
            Some((as_applied, _)) if as_applied != applied(object) => Standing::Unknown,
            Some((_, as_left)) if as_left == content(object) => Standing::Same,
            Some(_) => Standing::Drifted,
            None => Standing::Unknown,
        }
    }

    /// Counts a repair.
    pub(super) fn repaired(&self, object: &Value, now: Instant) {
        let mut records = self.records();
        let Some(record) = uid(object).and_then(|uid| records.get_mut(uid)) else { return };
        record.contested &= record.repairs.back().is_some_and(|last| now.duration_since(*last) < WINDOW);
        record.repairs.retain(|repair| now.duration_since(*repair) < WINDOW);
        record.repairs.push_back(now);
        record.contested |= record.repairs.len() > REPAIRS;
        if record.repairs.len() > REPAIRS + 1 {
            record.repairs.pop_front();
        }
    }

    /// Whether the object is repaired so often that somebody else must be at work; and whether it is left alone now.
    pub(super) fn contested(&self, object: &Value, now: Instant) -> Option<bool> {
        let records = self.records();
        let record = records.get(uid(object)?).filter(|record| record.contested)?;
        let since = now.duration_since(*record.repairs.back()?);
        (since < WINDOW).then_some(since < PAUSE)
    }

    /// Keeps which state of an object the adapter has seen.
    pub(super) fn saw(&self, object: &Value) {
        let mut records = self.records();
        if let Some(record) = uid(object).and_then(|uid| records.get_mut(uid)) {
            record.version = version(object);
        }
    }

    /// Whether this state has been seen already.
    pub(super) fn has_seen(&self, uid: &str, version: &str) -> bool {
        self.records().get(uid).is_some_and(|record| record.version == hash(version))
    }

    /// An object that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.records().remove(uid);
    }

    fn records(&self) -> MutexGuard<'_, HashMap<String, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The uid of an object.
pub(super) fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

fn applied(object: &Value) -> u64 {
    hash(ownership::annotation(object, APPLIED))
}

fn version(object: &Value) -> u64 {
    hash(object["metadata"]["resourceVersion"].as_str().unwrap_or_default())
}

/// `metadata.generation`, else a hash of everything but `metadata` and `status`.
fn content(object: &Value) -> u64 {
    if let Some(generation) = object["metadata"]["generation"].as_u64() {
        return generation;
    }
    let mut hasher = DefaultHasher::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            (name, value.to_string()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn hash(value: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(version: &str, applied: &str, data: &str) -> Value {
        json!({
            "metadata": {"uid": "u", "resourceVersion": version, "annotations": {APPLIED: applied}},
            "data": {"a": data}, "status": {"phase": version},
        })
    }

    #[test]
    fn only_content_that_moved_under_the_same_apply_is_drift() {
        let memory = Memory::default();
        assert_eq!(memory.standing(&object("1", "x", "a")), Standing::Unknown);
        memory.remember(&object("1", "x", "a"));
        assert_eq!(
            memory.standing(&object("2", "x", "a")),
            Standing::Same,
            "a new version or status is not drift"
        );
        assert_eq!(memory.standing(&object("2", "x", "b")), Standing::Drifted);
        assert_eq!(memory.standing(&object("2", "y", "b")), Standing::Unknown, "another replica applied it");
        memory.forget("u");
        assert_eq!(memory.standing(&object("1", "x", "a")), Standing::Unknown);
    }

    #[test]
    fn a_generation_counts_alone() {
        let memory = Memory::default();
        let of = |generation: u64, spec: &str| json!({"metadata": {"uid": "u", "generation": generation}, "spec": {"a": spec}});
        memory.remember(&of(1, "a"));
        assert_eq!(memory.standing(&of(1, "defaulted")), Standing::Same);
        assert_eq!(memory.standing(&of(2, "a")), Standing::Drifted);
    }

    #[test]
    fn a_state_is_seen_once() {
        let memory = Memory::default();
        memory.saw(&object("1", "x", "a"));
        assert!(!memory.has_seen("u", "1"), "objects that were not applied are not kept");
        memory.remember(&object("1", "x", "a"));
        assert!(memory.has_seen("u", "1") && !memory.has_seen("u", "2"));
        memory.saw(&object("2", "x", "a"));
        assert!(memory.has_seen("u", "2"));
    }

    #[test]
    fn too_many_repairs_make_an_object_contested_until_they_stop() {
        let (memory, object, start) = (Memory::default(), object("1", "x", "a"), Instant::now());
        memory.remember(&object);
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in 0..5 {
            memory.repaired(&object, at(second));
        }
        assert_eq!(memory.contested(&object, at(5)), None);
        memory.repaired(&object, at(5));
        assert_eq!(memory.contested(&object, at(6)), Some(true));
        assert_eq!(memory.contested(&object, at(305)), Some(false), "one repair each five minutes");
        memory.repaired(&object, at(305));
        memory.repaired(&object, at(606));
        assert_eq!(memory.contested(&object, at(607)), Some(true));
        assert_eq!(memory.contested(&object, at(1206)), None, "ten quiet minutes end it");
        memory.repaired(&object, at(1300));
        assert_eq!(memory.contested(&object, at(1301)), None);
    }

    #[test]
    fn rare_repairs_never_are() {
        let (memory, object, start) = (Memory::default(), object("1", "x", "a"), Instant::now());
        memory.remember(&object);
        for minute in 0..20 {
            memory.repaired(&object, start + Duration::from_secs(minute * 150));
            assert_eq!(memory.contested(&object, start + Duration::from_secs(minute * 150 + 1)), None);
        }
    }
}
