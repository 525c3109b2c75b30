//! Recompute: updates conditions after a change of configuration. A resource that waits only for adapters that are no
//! longer required is removed; conditions that stay the same are not written.

use super::aggregate::AggregationInput;
use super::removal::{remaining_children, remove_or_recompute_owners};
use super::{Decision, DecisionResult, Rulebook, WorkingSet, Write, WriteKind, aggregate};
use crate::{Action, Entry, Error, IdSet, ResourceId, Timestamp};

pub(super) fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    ids: &[ResourceId],
    now: Timestamp,
) -> Result<Decision, Error> {
    let mut removed = IdSet::default();
    let mut writes: Vec<Write> = Vec::new();
    let mut resources: Vec<_> = ids.iter().filter_map(|id| set.by_id(*id)).collect();
    // Children first: one that goes may take its owner along.
    resources.sort_by_key(|resource| std::cmp::Reverse(resource.ancestors.len()));
    for current in resources {
        if removed.contains(&current.id) {
            continue;
        }
        let entity = rulebook.entity(&current.kind)?;
        let children = remaining_children(set, current.id, &removed);
        let mut resource = current.clone();
        let recomputed = aggregate::recompute_conditions(
            rulebook,
            entity,
            &mut resource,
            &AggregationInput::of(set, current, &children, now),
        )?;
        let mut entries = recomputed.transitions;
        if recomputed.is_removable {
            removed.insert(current.id);
            entries.push(Entry::new(Action::Deleted, Vec::new()));
            writes.retain(|write| write.resource.id != current.id);
            writes.push(Write { resource, kind: WriteKind::Removed, entries, failures: recomputed.failures });
            remove_or_recompute_owners(rulebook, set, current, now, &mut removed, &mut writes)?;
        } else if aggregate::differs_beyond_times(current, &resource)? {
            writes.retain(|write| write.resource.id != current.id);
            writes.push(Write { resource, kind: WriteKind::Changed, entries, failures: recomputed.failures });
        }
    }
    Ok(Decision::new(writes, DecisionResult::Nothing))
}
