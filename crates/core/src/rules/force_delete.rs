//! Force-delete: a person ends the wait for adapters. It applies only to a finalizing resource, removes everything
//! below it too, and records the actor, the reason and the removed resources.

use std::collections::{BTreeMap, BTreeSet};

use super::aggregate::AggregationInput;
use super::removal::{refuse_hidden, remove_or_recompute_owners};
use super::{Decision, DecisionResult, Rulebook, WorkingSet, Write, WriteKind, aggregate, find};
use crate::diff::diff;
use crate::{
    Action, Caller, Entry, Error, ForceDelete, IdSet, RawJson, References, Resource, ResourceId, Stamp,
    Timestamp, Verb,
};

pub(super) fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    force: &ForceDelete,
    caller: &Caller,
    now: Timestamp,
) -> Result<Decision, Error> {
    let target = find(set, &force.target, caller, Verb::ForceDelete)?;
    if let Some(expected) = &force.expected {
        expected.check(target, set.epoch())?;
    }
    if target.is_active() {
        return Err(Error::state_conflict(format!(
            "{} '{}' is not being deleted: only a finalizing resource can be force-deleted, so DELETE it first",
            target.kind, target.id
        )));
    }
    let mut tree = Vec::new();
    collect(set, target, &mut tree);
    refuse_hidden(rulebook, set, &tree)?;
    let mut removed: IdSet = tree.iter().map(|r| r.id).collect();

    let mut writes = Vec::new();
    let mut dropped = BTreeSet::new();
    for source in referrers(set, &tree, &removed) {
        dropped.insert(source.id);
        writes.push(drop_references(rulebook, set, source, &removed, &caller.actor, now)?);
    }
    let below: Vec<ResourceId> = tree.iter().map(|r| r.id).filter(|id| *id != target.id).collect();
    for node in &tree {
        let mut entry = Entry::new(Action::ForceDeleted, Vec::new());
        entry.reason = Some(force.reason.clone());
        if node.id == target.id {
            entry.removed.clone_from(&below);
            entry.dropped_references_of = dropped.iter().copied().collect();
        }
        writes.push(Write {
            resource: (*node).clone(),
            kind: WriteKind::Removed,
            entries: vec![entry],
            failures: Vec::new(),
        });
    }
    let answer = DecisionResult::Write(writes.len() - 1);
    remove_or_recompute_owners(rulebook, set, target, now, &mut removed, &mut writes)?;
    Ok(Decision::new(writes, answer))
}

/// Everything below and including `node`, children first.
fn collect<'a>(set: &'a WorkingSet, node: &'a Resource, tree: &mut Vec<&'a Resource>) {
    for child in set.children(node.id) {
        collect(set, child, tree);
    }
    tree.push(node);
}

fn referrers<'a>(set: &'a WorkingSet, tree: &[&Resource], removed: &IdSet) -> Vec<&'a Resource> {
    let sources: BTreeMap<_, _> = tree
        .iter()
        .flat_map(|node| set.referrers(node.id))
        .filter(|source| !removed.contains(&source.id))
        .map(|source| (source.id, source))
        .collect();
    sources.into_values().collect()
}

/// A referrer without its references to the removed resources.
fn drop_references(
    rulebook: &Rulebook,
    set: &WorkingSet,
    source: &Resource,
    removed: &IdSet,
    actor: &str,
    now: Timestamp,
) -> Result<Write, Error> {
    let entity = rulebook.entity(&source.kind)?;
    let mut references: References = source.references.parse()?;
    references.values_mut().for_each(|ids| ids.retain(|id| !removed.contains(id)));
    references.retain(|_, ids| !ids.is_empty());
    let mut resource = Resource {
        references: RawJson::from_value(&references),
        generation: source.generation + 1,
        updated: Stamp { at: set.time_of_change(now).max(source.updated.at), by: actor.to_owned() },
        ..source.clone()
    };
    let changes = diff("references", &source.references.parse()?, &resource.references.parse()?);
    let mut entries = vec![Entry::new(Action::ReferencesChanged, changes)];
    let children = set.child_counts(source.id);
    let recomputed = aggregate::recompute_conditions(
        rulebook,
        entity,
        &mut resource,
        &AggregationInput::of(set, source, &children, now),
    )?;
    entries.extend(recomputed.transitions);
    Ok(Write { resource, kind: WriteKind::Changed, entries, failures: recomputed.failures })
}
