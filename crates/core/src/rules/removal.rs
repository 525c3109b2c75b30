//! The effects of a removal on the owners: a finalizing owner without further blockers is removed too, and so on
//! upwards; one that still waits gets new conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::aggregate::AggregationInput;
use super::{Rulebook, WorkingSet, Write, WriteKind, aggregate};
use crate::{Action, Entry, Error, IdSet, Resource, ResourceId, Timestamp};

/// Children of `owner` by kind that are left once `removed` are gone.
pub(super) fn remaining_children(
    set: &WorkingSet,
    owner: ResourceId,
    removed: &IdSet,
) -> BTreeMap<Arc<str>, usize> {
    let mut counts = set.child_counts(owner);
    for child in set.children(owner).filter(|c| removed.contains(&c.id)) {
        if let Some(count) = counts.get_mut(&child.kind) {
            *count = count.saturating_sub(1);
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// Refuses to decide about a tree in which something cannot be seen: resources of a kind that was
/// taken out of the configuration stay in the store, and would be left without their owner or refer to nothing.
pub(super) fn refuse_hidden(rulebook: &Rulebook, set: &WorkingSet, tree: &[&Resource]) -> Result<(), Error> {
    for node in tree {
        let hidden: Vec<String> = set
            .child_counts(node.id)
            .into_iter()
            .filter(|(kind, count)| *count > 0 && rulebook.catalog.get(kind).is_none())
            .map(|(kind, count)| format!("{kind} ({count})"))
            .collect();
        if !hidden.is_empty() {
            return Err(Error::state_conflict(format!(
                "{} '{}' has children of kinds that are not configured any more: {}",
                node.kind,
                node.id,
                hidden.join(", ")
            )));
        }
        let referrers = set.hidden_referrers(node.id);
        if referrers > 0 {
            return Err(Error::state_conflict(format!(
                "{} '{}' is referred to by resources of kinds that are not configured any more ({referrers})",
                node.kind, node.id
            )));
        }
    }
    Ok(())
}

/// Walks up from a removed resource. Finalizing owners that are complete are removed; the first
/// that is not gets its conditions recomputed, and ends the walk.
pub(super) fn remove_or_recompute_owners(
    rulebook: &Rulebook,
    set: &WorkingSet,
    child: &Resource,
    now: Timestamp,
    removed: &mut IdSet,
    writes: &mut Vec<Write>,
) -> Result<(), Error> {
    for owner_id in child.ancestors.iter().rev() {
        let Some(owner) = set.by_id(*owner_id).filter(|o| !o.is_active()) else { return Ok(()) };
        let entity = rulebook.entity(&owner.kind)?;
        let left = remaining_children(set, owner.id, removed);
        let mut resource = owner.clone();
        let recomputed = aggregate::recompute_conditions(
            rulebook,
            entity,
            &mut resource,
            &AggregationInput::of(set, owner, &left, now),
        )?;
        let mut entries = recomputed.transitions;
        let failures = recomputed.failures;
        // A batch of recomputations may have written it already, before this child was removed.
        writes.retain(|write| write.resource.id != owner.id);
        if recomputed.is_removable {
            removed.insert(owner.id);
            entries.push(Entry::new(Action::Deleted, Vec::new()));
            writes.push(Write { resource, kind: WriteKind::Removed, entries, failures });
            continue;
        }
        if aggregate::differs_beyond_times(owner, &resource)? {
            writes.push(Write { resource, kind: WriteKind::Changed, entries, failures });
        }
        return Ok(());
    }
    Ok(())
}
