//! References from one resource to others: ref type → targets. Shape and counts are checked
//! here; whether a target exists and is active is for the rules, inside the transaction.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::json::member;
use crate::{Entity, Fault, FaultKind, ReferenceRule, ResourceId};

/// A resource's references: ref type → ids, in the order given.
pub type References = BTreeMap<String, Vec<ResourceId>>;

/// The most references of one type, where the kind declares no bound of its own. Each is looked up on every write.
const MAX_ENTRIES: usize = 1_000;

/// Reads the `references` member: ref type → array of `{kind, id}`. Faults go to `faults`; what
/// is returned holds the good ones. A ref type that is not given is not looked at here.
pub fn check_references(entity: &Entity, references: &Value, faults: &mut Vec<Fault>) -> References {
    let Value::Object(members) = references else {
        faults.push(Fault::wrong_type("references", "an object", references));
        return References::new();
    };
    let mut good = References::new();
    for (ref_type, targets) in members {
        let field = crate::echo(&member("references", ref_type));
        let Some(rule) = entity.references.iter().find(|r| r.ref_type == *ref_type) else {
            let message = format!("{field} is no reference that {} declares", entity.kind);
            faults.push(
                Fault::value(field, message, targets)
                    .rule("enum")
                    .allowed(entity.references.iter().map(|r| r.ref_type.as_str())),
            );
            continue;
        };
        let Value::Array(entries) = targets else {
            faults.push(Fault::wrong_type(field, "an array of {kind, id}", targets));
            continue;
        };
        check_count(rule, &field, entries.len(), faults);
        if rule.max.is_none() && entries.len() > MAX_ENTRIES {
            let message = format!("{field} may have at most {MAX_ENTRIES} items, not {}", entries.len());
            let fault = Fault::new(FaultKind::Value, field, message).rule("max_items");
            faults.push(fault.bounds(None, MAX_ENTRIES as u64));
            continue;
        }
        let (mut ids, mut known) = (Vec::with_capacity(entries.len()), HashSet::new());
        for (i, entry) in entries.iter().enumerate() {
            if let Some(id) = check_entry(rule, &format!("{field}[{i}]"), entry, faults) {
                if !known.insert(id) {
                    let message = format!("{field}[{i}]: '{id}' is listed twice");
                    faults
                        .push(Fault::value(format!("{field}[{i}].id"), message, &entry["id"]).rule("unique"));
                } else {
                    ids.push(id);
                }
            }
        }
        if !ids.is_empty() {
            good.insert(ref_type.clone(), ids);
        }
    }
    good
}

/// Required ref types that are not there at all.
pub fn check_required_references(entity: &Entity, is_there: impl Fn(&str) -> bool, faults: &mut Vec<Fault>) {
    for rule in entity.references.iter().filter(|r| r.min > 0) {
        if !is_there(&rule.ref_type) {
            faults.push(Fault::missing(member("references", &rule.ref_type)).bounds(rule.min as u64, None));
        }
    }
}

/// The fault of a target that is not there, naming its entry.
pub(crate) fn no_such_target(rule: &ReferenceRule, position: usize, id: &str) -> Fault {
    let field = format!("{}[{position}].id", member("references", &rule.ref_type));
    let message = format!("{field}: {} '{}' not found", rule.target_kind, crate::echo(id));
    Fault::value(field, message, &Value::from(id)).rule("reference")
}

fn check_count(rule: &ReferenceRule, field: &str, count: usize, faults: &mut Vec<Fault>) {
    if count < rule.min {
        let message = format!("{field} needs at least {} entries, not {count}", rule.min);
        faults.push(
            Fault::value(field, message, &Value::from(count)).rule("min").bounds(rule.min as u64, None),
        );
    }
    if let Some(max) = rule.max.filter(|max| count > *max) {
        let message = format!("{field} takes at most {max} entries, not {count}");
        faults.push(Fault::value(field, message, &Value::from(count)).rule("max").bounds(None, max as u64));
    }
}

fn check_entry(rule: &ReferenceRule, at: &str, entry: &Value, faults: &mut Vec<Fault>) -> Option<ResourceId> {
    let Value::Object(members) = entry else {
        faults.push(Fault::wrong_type(at, "an object with kind and id", entry));
        return None;
    };
    // `href` comes back when a client sends what it read; the server derives it.
    for key in members.keys().filter(|key| !matches!(key.as_str(), "kind" | "id" | "href")) {
        faults.push(Fault::unknown_member(member(at, key)));
    }
    match members.get("kind") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if **kind == *rule.target_kind => {}
        Some(other) => {
            let message = format!("{at}.kind must be {}", rule.target_kind);
            faults.push(
                Fault::value(format!("{at}.kind"), message, other).rule("enum").allowed([&*rule.target_kind]),
            );
        }
    }
    match members.get("id") {
        None | Some(Value::Null) => {
            faults.push(Fault::missing(format!("{at}.id")));
            None
        }
        Some(Value::String(text)) => {
            let id = ResourceId::parse(text);
            if id.is_none() {
                let message = format!("{at}.id: {} '{}' not found", rule.target_kind, crate::echo(text));
                faults.push(
                    Fault::value(format!("{at}.id"), message, &Value::from(text.as_str())).rule("reference"),
                );
            }
            id
        }
        Some(other) => {
            faults.push(Fault::wrong_type(format!("{at}.id"), "a string", other));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, EntityDescriptor, ReferenceDescriptor};
    use serde_json::json;

    fn fields(references: &Value) -> Vec<String> {
        let catalog = Catalog::new(vec![
            EntityDescriptor { kind: "Wif".into(), plural: "wifs".into(), ..Default::default() },
            EntityDescriptor {
                kind: "Cluster".into(),
                plural: "clusters".into(),
                references: vec![ReferenceDescriptor {
                    ref_type: "wif".into(),
                    target_kind: "Wif".into(),
                    min: 1,
                    max: 2,
                }],
                ..Default::default()
            },
        ])
        .unwrap();
        let cluster = catalog.get("Cluster").unwrap();
        let mut faults = Vec::new();
        let good = check_references(cluster, references, &mut faults);
        if faults.is_empty() {
            check_required_references(cluster, |ref_type| good.contains_key(ref_type), &mut faults);
        }
        faults.into_iter().map(|f| f.field).collect()
    }

    #[test]
    fn every_fault_of_references_is_named_by_its_entry() {
        let id = "0193b3a0-0000-7000-8000-000000000001";
        assert!(fields(&json!({"wif": [{"kind": "Wif", "id": id}]})).is_empty());
        assert!(fields(&json!({"wif": [{"id": id}]})).is_empty());
        assert_eq!(fields(&json!({})), ["references.wif"]);
        assert_eq!(fields(&json!({"wif": []})), ["references.wif"]);
        assert_eq!(fields(&json!({"wif": [{"id": id}, {"id": id}]})), ["references.wif[1].id"]);
        assert_eq!(
            fields(&json!({"nope": [], "wif": [{"kind": "Cluster", "id": 1, "x": 2}, {}, "z"]})),
            [
                "references.nope",
                "references.wif",
                "references.wif[0].x",
                "references.wif[0].kind",
                "references.wif[0].id",
                "references.wif[1].id",
                "references.wif[2]",
            ]
        );
    }
}
