//! The `entities` section: each entry is read on its own, and a faulty member is reported and
//! left out, so that one start reports the faults of every entry and of all of them together.

use std::sync::Arc;

use hyperfleet_core::{Catalog, EntityDescriptor};
use hyperfleet_service::settings::{Fault, Faults, Settings};
use serde_json::Value as Json;
use serde_path_to_error::Segment;

const PATH: &str = "entities";

/// Longest part of a given value that is repeated in a fault.
const SHOWN_CHARS: usize = 100;

/// The descriptors as configured and their catalog, or none when there are faults.
pub(super) fn read(
    settings: &Settings,
    faults: &mut Faults,
) -> Option<(Vec<EntityDescriptor>, Arc<Catalog>)> {
    let source = settings.source(PATH);
    let mut found: Vec<(String, String)> = Vec::new();
    let mut descriptors = Vec::new();
    match settings.structured(PATH) {
        Json::Array(entries) => {
            for (i, entry) in entries.iter().enumerate() {
                descriptors.push(read_entry(&format!("{PATH}[{i}]"), entry.clone(), &mut found));
            }
        }
        _ => found.push((PATH.to_owned(), "must be a list of kinds".to_owned())),
    }
    let catalog = Catalog::new(descriptors.clone());
    if let Err(messages) = &catalog {
        for message in messages {
            let (path, rule) = message.split_once(": ").unwrap_or((PATH, message));
            // A member that was left out as faulty must not be called missing as well.
            let reported = |(earlier, _): &(String, String)| {
                path.strip_prefix(earlier.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            if !found.iter().any(reported) {
                found.push((path.to_owned(), rule.to_owned()));
            }
        }
    }
    let clean = found.is_empty();
    for (path, rule) in found {
        faults.push(Fault { path, source: source.clone(), rule, given: None });
    }
    catalog.ok().filter(|_| clean).map(|catalog| (descriptors, Arc::new(catalog)))
}

/// Reads one entry, again after each fault without the member at fault.
fn read_entry(at: &str, mut entry: Json, found: &mut Vec<(String, String)>) -> EntityDescriptor {
    loop {
        let error = match serde_path_to_error::deserialize(&entry) {
            Ok(descriptor) => return descriptor,
            Err(error) => error,
        };
        let mut path = at.to_owned();
        let mut rule = Some("must be a mapping");
        let mut given = Some(&entry);
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => {
                    path += &format!("[{index}]");
                    given = given.and_then(|list| list.get(index));
                }
                Segment::Map { key } => {
                    path += &format!(".{key}");
                    given = given.and_then(|members| members.get(key));
                    rule = member_rule(key);
                }
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let rule = match (rule, given) {
            (Some(rule), Some(given)) => {
                let given: String = given.to_string().chars().take(SHOWN_CHARS).collect();
                format!("{rule}, not {given}")
            }
            _ => error.inner().to_string(),
        };
        found.push((path, rule));
        // Of a list the whole is left out: without an element the paths of the others would lie.
        let segments: Vec<_> = error.path().iter().collect();
        let members = segments.iter().rposition(|s| matches!(s, Segment::Map { .. }));
        if !members.is_some_and(|last| remove(&mut entry, &segments[..=last])) {
            return EntityDescriptor::default();
        }
    }
}

/// What a member of an entry, of a reference or of a rule must be, in words for those who write it.
fn member_rule(name: &str) -> Option<&'static str> {
    match name {
        "kind" | "plural" | "parent_kind" | "on_parent_delete" | "spec_schema_name" | "ref_type"
        | "target_kind" | "type" | "expression" => Some("must be text"),
        "require_spec_schema" => Some("must be true or false"),
        "min" | "max" | "name_min_len" | "name_max_len" => Some("must be a whole number from 0"),
        "required_adapters" => Some("must be a list of text"),
        "references" | "conditions" => Some("must be a list of mappings"),
        "when" | "status" | "reason" | "message" => Some("must be a mapping with an expression"),
        "output" => Some("must be a mapping of status, reason and message"),
        _ => None,
    }
}

/// Removes the member at `path`; false when there is none.
fn remove(tree: &mut Json, path: &[&Segment]) -> bool {
    match (tree, path) {
        (Json::Object(members), [Segment::Map { key }]) => members.shift_remove(key).is_some(),
        (Json::Object(members), [Segment::Map { key }, rest @ ..]) => {
            members.get_mut(key).is_some_and(|member| remove(member, rest))
        }
        (Json::Array(items), [Segment::Seq { index }, rest @ ..]) => {
            items.get_mut(*index).is_some_and(|item| remove(item, rest))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_member_of_a_rule_is_named_and_what_is_right_is_kept() {
        let entry = serde_json::json!({
            "kind": "A",
            "conditions": [
                {"type": 7, "when": "true", "output": {"status": {"expression": 1}, "reason": "r", "colour": "red"}},
                {"type": "Kept", "when": {"expression": "true"}, "output": "status"},
            ],
        });
        let mut found = Vec::new();
        let descriptor = read_entry("entities[0]", entry, &mut found);
        let found: Vec<_> = found.into_iter().map(|(path, rule)| format!("{path}: {rule}")).collect();
        assert_eq!(
            found,
            [
                "entities[0].conditions[0].type: must be text, not 7",
                "entities[0].conditions[0].when: must be a mapping with an expression, not \"true\"",
                "entities[0].conditions[0].output.status.expression: must be text, not 1",
                "entities[0].conditions[0].output.reason: must be a mapping with an expression, not \"r\"",
                "entities[0].conditions[0].output.colour: unknown field `colour`, expected one of `status`, `reason`, \
                 `message`",
                "entities[0].conditions[1].output: must be a mapping of status, reason and message, not \"status\"",
            ]
        );
        assert_eq!(descriptor.kind, "A");
        assert_eq!(descriptor.conditions[1].kind, "Kept");
    }
}
