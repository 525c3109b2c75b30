//! Create: a new resource at generation 1. Its owner must be active, its name free, and its references must exist.

use std::collections::HashSet;

use serde_json::Value;

use super::aggregate::AggregationInput;
use super::{
    Decision, DecisionResult, Rulebook, WorkingSet, Write, WriteKind, aggregate, check_path, visible,
};
use crate::references::{check_required_references, no_such_target};
use crate::{
    AccessScope, Action, Caller, Create, Entity, Entry, Error, Faults, FieldChange, Phase, RawJson,
    References, Resource, Stamp, Timestamp, Verb, Version,
};

pub(super) fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    create: &Create,
    caller: &Caller,
    now: Timestamp,
) -> Result<Decision, Error> {
    let entity = rulebook.entity(&create.kind)?;
    let owner = check_path(set, &create.ancestors, &caller.scope)?.and_then(|id| set.by_id(id));
    if let Some(owner) = owner.filter(|o| !o.is_active()) {
        return Err(Error::state_conflict(format!(
            "Cannot create {}: its owner {} '{}' is being deleted",
            create.kind, owner.kind, owner.id
        )));
    }
    check_targets(entity, set, &create.references, &References::new(), &caller.scope)?;
    let stamp = Stamp { at: set.time_of_change(now), by: caller.actor.clone() };
    let mut resource = Resource {
        id: create.id,
        kind: create.kind.clone(),
        name: create.name.clone(),
        tenancy: caller.scope.tenant().cloned(),
        ancestors: owner.map_or_else(Vec::new, |o| [o.ancestors.as_slice(), &[o.id]].concat()),
        generation: 1,
        spec: RawJson::from_value(&create.spec),
        labels: RawJson::from_value(&create.labels),
        references: RawJson::from_value(&create.references),
        created: stamp.clone(),
        updated: stamp,
        phase: Phase::Active,
        conditions: RawJson::from_value(&Vec::<Value>::new()),
        pending_since: None,
        version: Version::default(),
    };
    caller.scope.permit(Verb::Write, &resource)?;
    if let Some(holder) = set.holder(&create.kind, &resource.name_scope(), &create.name) {
        // Roles may hide the holder, so the error names it only to callers without role restrictions.
        let holder = Some(holder).filter(|_| caller.scope.rights().is_none());
        return Err(Error::name_taken(&create.kind, &create.name, holder));
    }
    let input = AggregationInput::nothing(now);
    let failures = aggregate::recompute_conditions(rulebook, entity, &mut resource, &input)?.failures;

    let mut changes = vec![FieldChange { path: "spec".into(), from: None, to: Some(create.spec.clone()) }];
    for (path, raw) in [("labels", &resource.labels), ("references", &resource.references)] {
        if raw.as_str() != "{}" {
            changes.push(FieldChange { path: path.into(), from: None, to: Some(raw.parse()?) });
        }
    }
    let entries = vec![Entry::new(Action::Created, changes)];
    let write = Write { resource, kind: WriteKind::Changed, entries, failures };
    Ok(Decision::new(vec![write], DecisionResult::Write(0)))
}

/// Checks the targets that are not in `known`: each must exist, be of the declared kind, and not be finalizing.
/// Required references must be present.
///
/// Targets in `known` exist and are active, because the resource refers to them already. They need no check, and may
/// not be loaded: a JSON Patch can move a target to another ref type without naming its id.
pub(super) fn check_targets(
    entity: &Entity,
    set: &WorkingSet,
    references: &References,
    known: &References,
    scope: &AccessScope,
) -> Result<(), Error> {
    let rule_of = |ref_type: &str| entity.references.iter().find(|r| r.ref_type == ref_type);
    let known: HashSet<_> = known
        .iter()
        .filter_map(|(ref_type, ids)| Some((&rule_of(ref_type)?.target_kind, ids)))
        .flat_map(|(kind, ids)| ids.iter().map(move |id| (kind, id)))
        .collect();
    let mut faults = Vec::new();
    let mut finalizing = Vec::new();
    for (ref_type, ids) in references {
        let Some(rule) = rule_of(ref_type) else { continue };
        for (position, id) in ids.iter().enumerate() {
            if known.contains(&(&rule.target_kind, id)) {
                continue;
            }
            match visible(set, &id.to_string(), scope)?.filter(|target| target.kind == rule.target_kind) {
                None => faults.push(no_such_target(rule, position, &id.to_string())),
                Some(target) if !target.is_active() => {
                    finalizing.push(format!("{} '{}' ({ref_type})", target.kind, target.id));
                }
                Some(_) => {}
            }
        }
    }
    check_required_references(entity, |ref_type| references.contains_key(ref_type), &mut faults);
    Faults::from(faults).or(())?;
    if finalizing.is_empty() {
        Ok(())
    } else {
        Err(Error::state_conflict(format!(
            "Cannot refer to what is being deleted: {}",
            finalizing.join(", ")
        )))
    }
}
