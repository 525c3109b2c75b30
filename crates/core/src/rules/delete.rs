//! Delete: a resource and everything it owns shall go away. The whole tree is decided at once: one active child of a
//! `restrict` kind, or one referrer outside the tree, refuses it all.

use serde_json::Value;

use super::aggregate::AggregationInput;
use super::removal::{refuse_hidden, remaining_children, remove_or_recompute_owners};
use super::{Decision, DecisionResult, Rulebook, WorkingSet, Write, WriteKind, aggregate, find};
use crate::{
    AccessScope, Action, Caller, Delete, Entry, Error, FieldChange, IdSet, OnParentDelete, Phase, RawJson,
    References, Resource, Stamp, Timestamp, Verb,
};

pub(super) fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    delete: &Delete,
    caller: &Caller,
    now: Timestamp,
) -> Result<Decision, Error> {
    let target = find(set, &delete.target, caller, Verb::Delete)?;
    if let Some(expected) = &delete.expected {
        expected.check(target, set.epoch())?;
    }
    if !target.is_active() {
        return Ok(Decision::unchanged(target));
    }
    let mut tree = Vec::new();
    collect(rulebook, set, target, &mut tree)?;
    refuse_hidden(rulebook, set, &tree)?;
    refuse_referrers(set, &tree, &caller.scope)?;

    let mut removed = IdSet::default();
    let mut writes = Vec::with_capacity(tree.len());
    for node in &tree {
        writes.push(finalize(rulebook, set, node, &caller.actor, now, &mut removed)?);
    }
    let answer = DecisionResult::Write(writes.len() - 1);
    if removed.contains(&target.id) {
        remove_or_recompute_owners(rulebook, set, target, now, &mut removed, &mut writes)?;
    }
    Ok(Decision::new(writes, answer))
}

/// The active resources of the tree, children before their owner.
fn collect<'a>(
    rulebook: &Rulebook,
    set: &'a WorkingSet,
    node: &'a Resource,
    tree: &mut Vec<&'a Resource>,
) -> Result<(), Error> {
    for child_kind in rulebook.catalog.children_of(&node.kind) {
        let active: Vec<_> =
            set.children(node.id).filter(|c| c.kind == child_kind.kind && c.is_active()).collect();
        let policy = child_kind.parent.as_ref().map(|p| p.on_delete);
        if policy == Some(OnParentDelete::Restrict) && !active.is_empty() {
            return Err(Error::state_conflict(format!(
                "{} '{}' still has active children: {} ({})",
                node.kind,
                node.id,
                child_kind.kind,
                active.len()
            )));
        }
        for child in active {
            collect(rulebook, set, child, tree)?;
        }
    }
    tree.push(node);
    Ok(())
}

/// Names the referrers that the caller may see, and mentions that there are others.
fn refuse_referrers(set: &WorkingSet, tree: &[&Resource], scope: &AccessScope) -> Result<(), Error> {
    let inside: IdSet = tree.iter().map(|r| r.id).collect();
    let outside = tree
        .iter()
        .flat_map(|node| set.referrers(node.id).map(move |source| (node, source)))
        .filter(|(_, source)| source.is_active() && !inside.contains(&source.id));
    let mut referrers = Vec::new();
    for (node, source) in outside {
        referrers.push(match scope.sees(source)? {
            true => format!("{} '{}' refers to {} '{}'", source.kind, source.id, node.kind, node.id),
            false => format!("something that you may not read refers to {} '{}'", node.kind, node.id),
        });
    }
    if referrers.is_empty() {
        return Ok(());
    }
    let shown = referrers.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    let more = referrers.len().saturating_sub(10);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(Error::state_conflict(format!("Cannot be deleted while others refer to it: {shown}{more}")))
}

/// One resource of the tree: removed at once when nothing has to be waited for, else finalizing.
fn finalize(
    rulebook: &Rulebook,
    set: &WorkingSet,
    node: &Resource,
    actor: &str,
    now: Timestamp,
    removed: &mut IdSet,
) -> Result<Write, Error> {
    let entity = rulebook.entity(&node.kind)?;
    let left = remaining_children(set, node.id, removed);
    let stamp = Stamp { at: set.time_of_change(now).max(node.updated.at), by: actor.to_owned() };
    let mut resource = Resource {
        generation: node.generation + 1,
        references: RawJson::from_value(&References::new()),
        updated: stamp.clone(),
        phase: Phase::Finalizing(stamp),
        ..node.clone()
    };
    let recomputed = aggregate::recompute_conditions(
        rulebook,
        entity,
        &mut resource,
        &AggregationInput::of(set, node, &left, now),
    )?;
    let dropped: Vec<_> = (node.references != resource.references)
        .then(|| node.references.parse::<Value>())
        .transpose()?
        .map(|from| FieldChange { path: "references".into(), from: Some(from), to: None })
        .into_iter()
        .collect();
    let mut entries = vec![Entry::new(Action::DeletionRequested, dropped)];
    entries.extend(recomputed.transitions);
    let mut kind = WriteKind::Changed;
    if recomputed.is_removable {
        kind = WriteKind::Removed;
        removed.insert(node.id);
        entries.push(Entry::new(Action::Deleted, Vec::new()));
    }
    Ok(Write { resource, kind, entries, failures: recomputed.failures })
}
