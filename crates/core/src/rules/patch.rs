//! Patch: merge patch or JSON Patch on spec, labels and references. A change of spec or references is a new
//! generation; a patch without effect writes nothing.

use serde_json::{Value, json};

use super::aggregate::AggregationInput;
use super::create::check_targets;
use super::{Decision, DecisionResult, Rulebook, WorkingSet, Write, WriteKind, aggregate, find};
use crate::diff::{diff, text_diff};
use crate::merge_patch::merge;
use crate::{
    Action, Caller, Entity, Entry, Error, Fault, FaultKind, Faults, Labels, Patch, PatchBody, RawJson,
    References, Resource, Stamp, Timestamp, Verb, check_labels, check_references, document_faults,
    json_patch,
};

/// The three members that a caller may change.
struct DesiredState {
    spec: Value,
    labels: Labels,
    references: References,
}

pub(super) fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    patch: &Patch,
    caller: &Caller,
    now: Timestamp,
) -> Result<Decision, Error> {
    let current = find(set, &patch.target, caller, Verb::Write)?;
    if let Some(expected) = &patch.expected {
        expected.check(current, set.epoch())?;
    }
    refuse_finalizing(set, current)?;
    let entity = rulebook.entity(&current.kind)?;

    let spec_before: Value = current.spec.parse()?;
    let references_before: References = current.references.parse()?;
    let desired = patched(rulebook, current, &spec_before, &references_before, &patch.body)?;
    let spec_changes = diff("spec", &spec_before, &desired.spec);
    let labels = RawJson::from_value(&desired.labels);
    let label_changes = text_diff("labels", &current.labels, &labels)?;
    let references = RawJson::from_value(&desired.references);
    let reference_changes = text_diff("references", &current.references, &references)?;

    if !spec_changes.is_empty() && patch.checked.as_deref() != Some(&desired.spec) {
        match rulebook.schemas.check_briefly(&entity.kind, &desired.spec) {
            Some(faults) => Faults::from(faults).or(())?,
            None => {
                let result = DecisionResult::SpecToCheck(entity.kind.clone(), desired.spec);
                return Ok(Decision::new(Vec::new(), result));
            }
        }
    }
    let spec = RawJson::from_value(&desired.spec);
    for (member, raw) in [("spec", &spec), ("labels", &labels), ("references", &references)] {
        check_size(rulebook, member, raw)?;
    }
    if !reference_changes.is_empty() {
        check_targets(entity, set, &desired.references, &references_before, &caller.scope)?;
    }

    let entries: Vec<Entry> = [
        (Action::SpecChanged, spec_changes),
        (Action::LabelsChanged, label_changes),
        (Action::ReferencesChanged, reference_changes),
    ]
    .into_iter()
    .filter(|(_, changes)| !changes.is_empty())
    .map(|(action, changes)| Entry::new(action, changes))
    .collect();
    if entries.is_empty() {
        return Ok(Decision::unchanged(current));
    }

    let changes_generation =
        |e: &Entry| e.action != Action::LabelsChanged || rulebook.contract.labels_change_generation();
    let new_generation = entries.iter().any(changes_generation);
    let mut resource = Resource {
        generation: current.generation + i64::from(new_generation),
        spec,
        labels,
        references,
        updated: Stamp { at: set.time_of_change(now).max(current.updated.at), by: caller.actor.clone() },
        ..current.clone()
    };
    // A caller must not label a resource into or out of its own access scope.
    caller.scope.permit(Verb::Write, &resource)?;
    caller.scope.permit_relabelling(current, &resource)?;
    let children = set.child_counts(current.id);
    let input = AggregationInput::of(set, current, &children, now);
    let recomputed = aggregate::recompute_conditions(rulebook, entity, &mut resource, &input)?;
    let entries = [entries, recomputed.transitions].concat();
    let write = Write { resource, kind: WriteKind::Changed, entries, failures: recomputed.failures };
    Ok(Decision::new(vec![write], DecisionResult::Write(0)))
}

fn refuse_finalizing(set: &WorkingSet, current: &Resource) -> Result<(), Error> {
    if !current.is_active() {
        return Err(Error::state_conflict(format!(
            "{} '{}' is being deleted and cannot be changed",
            current.kind, current.id
        )));
    }
    match current.owner().and_then(|id| set.by_id(id)).filter(|owner| !owner.is_active()) {
        None => Ok(()),
        Some(owner) => Err(Error::state_conflict(format!(
            "{} '{}' cannot be changed: its owner {} '{}' is being deleted",
            current.kind, current.id, owner.kind, owner.id
        ))),
    }
}

/// The desired state after the patch, checked as a whole.
fn patched(
    rulebook: &Rulebook,
    current: &Resource,
    spec: &Value,
    references: &References,
    body: &PatchBody,
) -> Result<DesiredState, Error> {
    let entity = rulebook.entity(&current.kind)?;
    let untouched = spelled_out(entity, references);
    let mut document = json!({
        "spec": spec,
        "labels": current.labels.parse::<Value>()?,
        "references": untouched,
    });
    match body {
        PatchBody::Merge(patch) if rulebook.contract.patch_replaces() => {
            for (member, value) in patch {
                document[member] = value.clone();
            }
        }
        PatchBody::Merge(patch) => merge(&mut document, &Value::Object(patch.clone())),
        PatchBody::Json(operations) => json_patch::apply(&mut document, operations)?,
    }

    let mut faults = Vec::new();
    let Value::Object(mut members) = document else {
        faults.push(Fault::wrong_type("spec", "an object", &Value::Null));
        return Err(Faults::from(faults).into_error());
    };
    let spec = members.remove("spec").unwrap_or(Value::Null);
    let labels = members.remove("labels").filter(|v| !v.is_null()).unwrap_or_else(|| json!({}));
    let patched = members.remove("references").filter(|v| !v.is_null()).unwrap_or_else(|| json!({}));
    if spec.is_object() {
        faults.extend(document_faults("spec", &spec));
    } else {
        faults.push(Fault::wrong_type("spec", "an object", &spec));
    }
    let labels = check_labels(&labels, &mut faults);
    // Unchanged references are not checked, because they may predate a rule that they break.
    let references = if patched == untouched {
        references.clone()
    } else {
        check_references(entity, &patched, &mut faults)
    };
    faults.extend(members.keys().map(Fault::unknown_member));
    Faults::from(faults).or(DesiredState { spec, labels, references })
}

/// References as a caller writes them, so that a JSON Patch can address their entries.
fn spelled_out(entity: &Entity, references: &References) -> Value {
    let kind = |ref_type: &str| {
        entity.references.iter().find(|r| r.ref_type == ref_type).map_or("", |r| &*r.target_kind)
    };
    references
        .iter()
        .map(|(ref_type, ids)| {
            let entries: Vec<Value> =
                ids.iter().map(|id| json!({"kind": kind(ref_type), "id": id})).collect();
            (ref_type.clone(), Value::from(entries))
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Bounds each member, because repeated patches could otherwise grow it without end.
fn check_size(rulebook: &Rulebook, member: &str, raw: &RawJson) -> Result<(), Error> {
    let (size, max) = (raw.as_str().len(), rulebook.max_member_bytes);
    if size <= max {
        return Ok(());
    }
    let message = format!("{member} would have {size} bytes, more than the {max} allowed");
    let fault = Fault::new(FaultKind::Value, member, message).rule("max_length").bounds(None, max as u64);
    Err(Faults::one(fault).into_error())
}
