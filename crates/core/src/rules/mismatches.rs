//! Compares a stored resource with what the rules compute of its reports and children. The rules are idempotent: to
//! compute again what they have computed changes nothing but times, so every other difference is damage.

use super::aggregate::{self, AggregationInput};
use super::removal::remaining_children;
use super::{Rulebook, WorkingSet, legacy_conditions};
use crate::{Condition, Entity, Error, IdSet, ResourceId, Timestamp, json_text};

/// A part of a stored resource that differs from what the rules compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Which part.
    pub part: String,
    /// The computed value.
    pub expected: String,
    /// The stored value.
    pub found: String,
}

const ABSENT: &str = "absent";

/// Every mismatch of a loaded resource. Its report summaries, its child counts and, for rules that read them, its reports
/// must be loaded too.
pub fn mismatches(rulebook: &Rulebook, set: &WorkingSet, id: ResourceId) -> Result<Vec<Mismatch>, Error> {
    let Some(stored) = set.by_id(id) else { return Ok(Vec::new()) };
    let entity = rulebook.entity(&stored.kind)?;
    let children = remaining_children(set, id, &IdSet::default());
    let mut computed = stored.clone();
    let input = AggregationInput::of(set, stored, &children, stored.updated.at);
    let recomputed = aggregate::recompute_conditions(rulebook, entity, &mut computed, &input)?;

    let mut found = Vec::new();
    let mut differ = |part: &str, expected: String, stored: String| {
        if expected != stored {
            found.push(Mismatch { part: part.to_owned(), expected, found: stored });
        }
    };
    if recomputed.is_removable {
        differ(
            "deletion",
            "removed, because nothing is left to wait for".to_owned(),
            "finalizing".to_owned(),
        );
    }
    let before = Condition::parse_all(stored.conditions.as_str())?;
    let mut after = Condition::parse_all(computed.conditions.as_str())?;
    for condition in &mut after {
        let same = before.iter().find(|stored| stored.kind == condition.kind);
        if let Some(same) = same.filter(|_| depends_on_history(entity, condition)) {
            condition.last_updated_time = same.last_updated_time;
        }
        differ(&condition.kind, json_text(&condition), same.map_or_else(|| ABSENT.to_owned(), json_text));
    }
    for stored in before.iter().filter(|stored| after.iter().all(|computed| computed.kind != stored.kind)) {
        differ(&stored.kind, ABSENT.to_owned(), json_text(stored));
    }
    let order = |list: &[Condition]| list.iter().map(|c| c.kind.as_str()).collect::<Vec<_>>().join(", ");
    differ("order of conditions", order(&after), order(&before));
    let since = |time: Option<Timestamp>| time.map_or_else(|| ABSENT.to_owned(), |time| time.to_string());
    differ("pending_since", since(computed.pending_since), since(stored.pending_since));
    Ok(found)
}

/// Whether the report that caused it decides the time of a condition, and not what is stored now.
fn depends_on_history(entity: &Entity, condition: &Condition) -> bool {
    legacy_conditions::TYPES.contains(&condition.kind.as_str())
        || entity.mappings.iter().any(|mapping| mapping.kind == condition.kind)
}
