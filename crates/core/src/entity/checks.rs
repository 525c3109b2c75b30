//! The start-up checks of declared kinds, one by one and against each other. All faults are reported at once, each with
//! the path of its entry.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::EntityDescriptor;
use crate::mapping::{MAX_TYPE_CHARS, Mapping};

/// Segments that the API itself uses right below the version or below a resource.
const TAKEN_PLURALS: [&str; 12] = [
    "force-delete",
    "resources",
    "openapi",
    "openapi.yaml",
    "openapi.html",
    "whoami",
    "authz",
    "leases",
    "statuses",
    "timeline",
    "explain",
    "diff",
];

/// Types of conditions that the API computes itself, besides those of adapters.
const RESERVED_TYPES: [&str; 4] = ["Reconciled", "LastKnownReconciled", "Ready", "Available"];

/// How the type of an adapter's own condition ends.
const ADAPTER_SUFFIX: &str = "Successful";

/// Everything that is wrong with the descriptors.
pub(super) fn faults(descriptors: &[EntityDescriptor]) -> Vec<String> {
    let mut faults = Vec::new();
    check_each(descriptors, &mut faults);
    check_unique(descriptors, &mut faults);
    check_parents(descriptors, &mut faults);
    check_references(descriptors, &mut faults);
    faults
}

fn check_each(descriptors: &[EntityDescriptor], faults: &mut Vec<String>) {
    for (i, d) in descriptors.iter().enumerate() {
        let at = format!("entities[{i}]");
        if !is_kind(&d.kind) {
            faults.push(format!(
                "{at}.kind: must be 1 to 63 letters and digits, starting with a letter, not '{}'",
                d.kind
            ));
        }
        if !is_plural(&d.plural) {
            faults.push(format!(
                "{at}.plural: must be 1 to 63 lower-case letters, digits, '-' and '.', starting with a letter, not '{}'",
                d.plural
            ));
        } else if TAKEN_PLURALS.contains(&d.plural.as_str()) {
            faults.push(format!("{at}.plural: '{}' is taken by the API itself", d.plural));
        }
        match (&d.parent_kind, d.on_parent_delete.as_deref()) {
            (Some(_), None) => {
                faults.push(format!("{at}.on_parent_delete: required for a child kind: cascade or restrict"));
            }
            (None, Some(_)) => faults.push(format!(
                "{at}.on_parent_delete: only for a child kind, but {at}.parent_kind is not set"
            )),
            (Some(_), Some(policy)) if !matches!(policy, "cascade" | "restrict") => {
                faults.push(format!("{at}.on_parent_delete: must be cascade or restrict, not '{policy}'"));
            }
            _ => {}
        }
        let name_len = d.name_len();
        if *name_len.start() < 1 || name_len.end() > &253 || name_len.is_empty() {
            faults.push(format!(
                "{at}.name_min_len: names must be allowed at least 1 and at most 253 characters, not {} to {}",
                name_len.start(),
                name_len.end()
            ));
        }
        if d.require_spec_schema && d.spec_schema_name.is_none() {
            faults.push(format!("{at}.spec_schema_name: required when require_spec_schema is true"));
        }
        check_adapters(d, &at, faults);
        check_conditions(d, &at, faults);
    }
}

fn check_conditions(d: &EntityDescriptor, at: &str, faults: &mut Vec<String>) {
    let mut types = BTreeSet::new();
    for (k, rule) in d.conditions.iter().enumerate() {
        let at = format!("{at}.conditions[{k}]");
        let length = rule.kind.chars().count();
        if !(1..=MAX_TYPE_CHARS).contains(&length) || rule.kind.chars().any(char::is_control) {
            faults.push(format!(
                "{at}.type: must be 1 to {MAX_TYPE_CHARS} characters, none of them a control character"
            ));
        } else if RESERVED_TYPES.contains(&rule.kind.as_str()) || rule.kind.ends_with(ADAPTER_SUFFIX) {
            faults.push(format!("{at}.type: '{}' is a type of the API's own conditions", rule.kind));
        } else if !types.insert(&rule.kind) {
            faults.push(format!("{at}.type: '{}' is declared twice", rule.kind));
        }
        if let Err(found) = Mapping::compile(rule) {
            faults.extend(found.into_iter().map(|fault| format!("{at}.{fault}")));
        }
    }
}

fn check_adapters(d: &EntityDescriptor, at: &str, faults: &mut Vec<String>) {
    let mut types: BTreeMap<String, &str> = BTreeMap::new();
    for (k, adapter) in d.required_adapters.iter().enumerate() {
        if adapter.is_empty() || adapter.len() > 253 {
            faults.push(format!("{at}.required_adapters[{k}]: must be 1 to 253 characters"));
            continue;
        }
        if let Some(other) = types.insert(adapter_condition_type(adapter), adapter) {
            faults.push(format!(
                "{at}.required_adapters[{k}]: '{adapter}' and '{other}' share the condition type {}",
                adapter_condition_type(adapter)
            ));
        }
    }
}

/// The type of an adapter's own condition: `my-adapter` becomes `MyAdapterSuccessful`.
pub(crate) fn adapter_condition_type(adapter: &str) -> String {
    let mut name = String::with_capacity(adapter.len() + ADAPTER_SUFFIX.len());
    for part in adapter.split('-') {
        let mut letters = part.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.extend(letters);
    }
    name + ADAPTER_SUFFIX
}

fn check_unique(descriptors: &[EntityDescriptor], faults: &mut Vec<String>) {
    let mut kinds: HashMap<String, usize> = HashMap::new();
    let mut plurals: HashMap<&str, usize> = HashMap::new();
    for (i, d) in descriptors.iter().enumerate() {
        // Path parameters are named after the kind in lower case, so case alone cannot tell kinds apart.
        if let Some(first) = kinds.insert(d.kind.to_ascii_lowercase(), i) {
            faults.push(format!("entities[{i}].kind: '{}' is declared by entities[{first}] already", d.kind));
        }
        if let Some(first) = plurals.insert(&d.plural, i) {
            faults.push(format!(
                "entities[{i}].plural: '{}' is declared by entities[{first}] already",
                d.plural
            ));
        }
    }
}

fn check_parents(descriptors: &[EntityDescriptor], faults: &mut Vec<String>) {
    let parents: HashMap<&str, &str> =
        descriptors.iter().filter_map(|d| Some((d.kind.as_str(), d.parent_kind.as_deref()?))).collect();
    for (i, d) in descriptors.iter().enumerate() {
        let Some(parent) = d.parent_kind.as_deref() else { continue };
        if !descriptors.iter().any(|other| other.kind == parent) {
            faults.push(format!("entities[{i}].parent_kind: no entity of kind '{parent}' is declared"));
            continue;
        }
        let mut seen = HashSet::from([d.kind.as_str()]);
        let mut at = parent;
        loop {
            if at == d.kind {
                faults
                    .push(format!("entities[{i}].parent_kind: '{}' owns itself through '{parent}'", d.kind));
                break;
            }
            if !seen.insert(at) {
                break; // a cycle further up, reported at the kinds that form it
            }
            match parents.get(at) {
                Some(next) => at = next,
                None => break,
            }
        }
    }
}

fn check_references(descriptors: &[EntityDescriptor], faults: &mut Vec<String>) {
    for (i, d) in descriptors.iter().enumerate() {
        let mut seen = BTreeSet::new();
        for (k, r) in d.references.iter().enumerate() {
            let at = format!("entities[{i}].references[{k}]");
            if r.ref_type.is_empty() || r.ref_type.len() > 63 || r.ref_type.chars().any(char::is_control) {
                faults.push(format!("{at}.ref_type: must be 1 to 63 characters, not '{}'", r.ref_type));
            } else if !seen.insert(&r.ref_type) {
                faults.push(format!("{at}.ref_type: '{}' is declared twice", r.ref_type));
            }
            if !descriptors.iter().any(|other| other.kind == r.target_kind) {
                faults.push(format!("{at}.target_kind: no entity of kind '{}' is declared", r.target_kind));
            }
            if r.max > 0 && r.max < r.min {
                faults.push(format!("{at}.max: must be at least min ({}), not {}", r.min, r.max));
            }
        }
    }
    check_required_cycles(descriptors, faults);
}

/// A cycle of required references could never be created, one resource after the other.
fn check_required_cycles(descriptors: &[EntityDescriptor], faults: &mut Vec<String>) {
    for (i, d) in descriptors.iter().enumerate() {
        let mut reached: Vec<&str> = Vec::new();
        let mut open = vec![d];
        while let Some(from) = open.pop() {
            for r in from.references.iter().filter(|r| r.min > 0) {
                if !reached.contains(&r.target_kind.as_str()) {
                    reached.push(&r.target_kind);
                    open.extend(descriptors.iter().filter(|other| other.kind == r.target_kind));
                }
            }
        }
        if reached.contains(&d.kind.as_str()) {
            faults.push(format!(
                "entities[{i}].references: '{}' requires itself through required references ({})",
                d.kind,
                reached.join(", ")
            ));
        }
    }
}

fn is_kind(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_plural(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.')
}
