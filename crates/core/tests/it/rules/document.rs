//! Which members a patched document may have, and the error codes of the others.

use std::collections::BTreeMap;

use hyperfleet_core::{References, ResourceId};
use serde_json::Value;

use super::kinds::Kind;

pub(crate) type Code = &'static str;
pub(crate) const MISSING: Code = "HYPERFLEET-VAL-001";
pub(crate) const VALUE: Code = "HYPERFLEET-VAL-002";
pub(crate) const BODY: Code = "HYPERFLEET-VAL-003";
pub(crate) const STATE: Code = "HYPERFLEET-CNF-003";

pub(crate) fn not_found(kind: &str) -> Code {
    match kind {
        "Cluster" => "HYPERFLEET-NTF-002",
        "NodePool" => "HYPERFLEET-NTF-003",
        _ => "HYPERFLEET-NTF-001",
    }
}

pub(crate) fn any(faults: &[Code]) -> Result<(), Code> {
    match faults {
        [] => Ok(()),
        [only] => Err(only),
        _ => Err("HYPERFLEET-VAL-000"),
    }
}

/// Labels of a patched document. Good keys and values of the test hold no space and no hyphen.
pub(crate) fn labels(given: &Value, faults: &mut Vec<Code>) -> BTreeMap<String, String> {
    match given {
        Value::Null => BTreeMap::new(),
        Value::Object(members) => {
            let mut labels = BTreeMap::new();
            for (key, value) in members {
                if key.contains(' ') {
                    faults.push(VALUE);
                }
                match value {
                    Value::String(text) => {
                        if text.contains('-') {
                            faults.push(VALUE);
                        }
                        labels.insert(key.clone(), text.clone());
                    }
                    _ => faults.push(VALUE),
                }
            }
            labels
        }
        _ => {
            faults.push(VALUE);
            BTreeMap::new()
        }
    }
}

pub(crate) fn references(kind: &Kind, given: &Value, faults: &mut Vec<Code>) -> References {
    let mut references = References::new();
    let Value::Object(members) = given else {
        if !given.is_null() {
            faults.push(VALUE);
        }
        return references;
    };
    for (ref_type, entries) in members {
        let rule = kind.references.iter().find(|(name, ..)| name == ref_type);
        let (Some((_, target_kind, min, max)), Value::Array(entries)) = (rule, entries) else {
            faults.push(VALUE);
            continue;
        };
        if entries.len() < *min {
            faults.push(VALUE);
        }
        if *max > 0 && entries.len() > *max {
            faults.push(VALUE);
        }
        let mut ids = Vec::new();
        for entry in entries {
            let Value::Object(members) = entry else {
                faults.push(VALUE);
                continue;
            };
            faults.extend(
                members.keys().filter(|k| !["kind", "id", "href"].contains(&k.as_str())).map(|_| BODY),
            );
            if !entry["kind"].is_null() && entry["kind"] != *target_kind {
                faults.push(VALUE);
            }
            match &entry["id"] {
                Value::Null => faults.push(MISSING),
                Value::String(text) => match ResourceId::parse(text) {
                    Some(id) if ids.contains(&id) => faults.push(VALUE),
                    Some(id) => ids.push(id),
                    None => faults.push(VALUE),
                },
                _ => faults.push(VALUE),
            }
        }
        if !ids.is_empty() {
            references.insert(ref_type.clone(), ids);
        }
    }
    references
}
