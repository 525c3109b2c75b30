//! The `entities` section: the faults of every entry and of all of them together.

use std::sync::Arc;

use hyperfleet_core::{Catalog, EntityDescriptor};
use hyperfleet_service::settings::{Fault, Faults, Settings};

use super::structured;

const PATH: &str = "entities";

/// The descriptors as configured and their catalog, or none when there are faults.
pub(super) fn read(
    settings: &Settings,
    faults: &mut Faults,
) -> Option<(Vec<EntityDescriptor>, Arc<Catalog>)> {
    let source = settings.source(PATH);
    let mut found = Vec::new();
    let descriptors: Vec<EntityDescriptor> = structured::entries(settings, PATH, member_rule, &mut found);
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

/// The rule of a member of an entry, of a reference or of a mapping, as the error message says it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_member_of_a_rule_is_named_and_valid_members_are_kept() {
        let entry = serde_json::json!({
            "kind": "A",
            "conditions": [
                {"type": 7, "when": "true", "output": {"status": {"expression": 1}, "reason": "r", "colour": "red"}},
                {"type": "Kept", "when": {"expression": "true"}, "output": "status"},
            ],
        });
        let mut found = Vec::new();
        let descriptor =
            structured::read_entry::<EntityDescriptor>("entities[0]", entry, member_rule, &mut found);
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
