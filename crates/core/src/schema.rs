//! Spec schemas: components of an OpenAPI document, compiled once at start. Each violation in a
//! spec becomes one fault that names its path and its rule.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind as Rule;
use jsonschema::paths::LocationSegment;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Value, json};

use crate::json::member;
use crate::{Catalog, Fault, FaultKind, echo};

/// The most faults of one spec.
const MAX_FAULTS: usize = 100;

/// The compiled schemas by kind. Kinds without one accept every spec.
#[derive(Debug, Default)]
pub struct SpecSchemas(HashMap<Arc<str>, Validator>);

impl SpecSchemas {
    /// Compiles what the catalog names from `document`, an OpenAPI document (3.0 or 3.1), if one
    /// is configured. The error lists every fault found.
    pub fn compile(catalog: &Catalog, document: Option<&Value>) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut schemas = HashMap::new();
        let components = document.map(|d| &d["components"]["schemas"]);
        if components.is_some_and(|c| !c.is_object()) {
            faults.push("server.openapi_schema_path: the document has no components.schemas".to_owned());
        }
        let old = document.and_then(|d| d["openapi"].as_str()).is_some_and(|v| v.starts_with("3.0"));
        let components = components.map(|c| if old { translate_nullable(c.clone()) } else { c.clone() });
        for (i, entity) in catalog.kinds().enumerate() {
            let Some(name) = &entity.spec_schema_name else { continue };
            let found = components.as_ref().filter(|c| c.get(name).is_some());
            let Some(components) = found else {
                if entity.require_spec_schema {
                    faults.push(format!(
                        "entities[{i}].spec_schema_name: the schema '{name}' is required but {}",
                        if document.is_some() {
                            "not a component of server.openapi_schema_path"
                        } else {
                            "server.openapi_schema_path is not set"
                        }
                    ));
                }
                continue;
            };
            let root = json!({
                "$ref": format!("#/components/schemas/{}", name.replace('~', "~0").replace('/', "~1")),
                "components": {"schemas": components},
            });
            let draft = if old { Draft::Draft4 } else { Draft::Draft202012 };
            match jsonschema::options().with_draft(draft).should_validate_formats(true).build(&root) {
                Ok(validator) => {
                    schemas.insert(entity.kind.clone(), validator);
                }
                Err(error) => faults.push(format!(
                    "entities[{i}].spec_schema_name: the schema '{name}' is not valid: {}",
                    echo(&error.to_string())
                )),
            }
        }
        if faults.is_empty() { Ok(Self(schemas)) } else { Err(faults) }
    }

    /// The faults of a spec of this kind, in the order of the spec.
    pub fn check(&self, kind: &str, spec: &Value) -> Vec<Fault> {
        let Some(validator) = self.0.get(kind) else { return Vec::new() };
        let mut found: Vec<_> =
            validator.iter_errors(spec).take(MAX_FAULTS).flat_map(|error| faults(spec, &error)).collect();
        // The validator goes through its schema, the caller through the document that was sent.
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.into_iter().map(|(_, fault)| fault).take(MAX_FAULTS).collect()
    }
}

/// OpenAPI 3.0 writes `nullable: true` where JSON Schema has a list of types.
fn translate_nullable(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for value in members.values_mut() {
                *value = translate_nullable(value.take());
            }
            if members.get("nullable") == Some(&Value::Bool(true)) {
                members.remove("nullable");
                if let Some(Value::String(name)) = members.get("type").cloned() {
                    members.insert("type".to_owned(), json!([name, "null"]));
                }
                if let Some(Value::Array(options)) = members.get_mut("enum") {
                    options.push(Value::Null);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = translate_nullable(item.take());
            }
        }
        _ => {}
    }
    schema
}

/// One fault, or one for each member that the schema does not allow; each with its place in the spec, the position
/// of every step on the way. What is missing from a place comes after what is there.
fn faults(spec: &Value, error: &ValidationError<'_>) -> Vec<(Vec<usize>, Fault)> {
    let mut at = spec;
    let mut place = Vec::new();
    for segment in error.instance_path() {
        let (i, next) = match segment {
            LocationSegment::Property(key) => (index_of(at, &key), at.get(&*key)),
            LocationSegment::Index(i) => (i, at.get(i)),
        };
        place.push(i);
        at = next.unwrap_or(&Value::Null);
    }
    match error.kind() {
        Rule::AdditionalProperties { unexpected } | Rule::UnevaluatedProperties { unexpected } => {
            let path = path(error);
            let refused = |name: &String| {
                let field = echo(&member(&path, name));
                let message = format!("{field} is not a member that the schema allows");
                let fault = Fault::new(FaultKind::Value, field, message).rule("unknown");
                ([place.as_slice(), &[index_of(at, name)]].concat(), fault)
            };
            unexpected.iter().take(MAX_FAULTS).map(refused).collect()
        }
        Rule::Required { .. } => vec![([place.as_slice(), &[usize::MAX]].concat(), fault(error))],
        _ => vec![(place, fault(error))],
    }
}

fn index_of(object: &Value, key: &str) -> usize {
    object.as_object().and_then(|members| members.keys().position(|name| name == key)).unwrap_or(usize::MAX)
}

fn path(error: &ValidationError<'_>) -> String {
    error.instance_path().iter().fold("spec".to_owned(), |path, segment| match segment {
        LocationSegment::Property(key) => member(&path, &key),
        LocationSegment::Index(i) => format!("{path}[{i}]"),
    })
}

fn fault(error: &ValidationError<'_>) -> Fault {
    let field = echo(&path(error));
    let given = error.instance();
    let plain = |message: String| Fault::value(&*field, message, given);
    match error.kind() {
        Rule::Required { property } => Fault::missing(member(&field, property.as_str().unwrap_or_default())),
        Rule::Enum { options } => {
            let allowed: Vec<String> = options
                .as_array()
                .into_iter()
                .flatten()
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                .collect();
            plain(format!("{field} must be one of {}", allowed.join(", "))).rule("enum").allowed(allowed)
        }
        Rule::Minimum { limit } => {
            let mut fault = plain(format!("{field} must be at least {limit}")).rule("min");
            fault.min_value = Some(limit.clone());
            fault
        }
        Rule::Maximum { limit } => {
            let mut fault = plain(format!("{field} must be at most {limit}")).rule("max");
            fault.max_value = Some(limit.clone());
            fault
        }
        Rule::MinLength { limit } => plain(format!("{field} must have at least {limit} characters"))
            .rule("min_length")
            .bounds(*limit, None),
        Rule::MaxLength { limit } => plain(format!("{field} must have at most {limit} characters"))
            .rule("max_length")
            .bounds(None, *limit),
        Rule::Pattern { pattern } => {
            plain(format!("{field} must match the pattern {pattern}")).pattern(pattern)
        }
        Rule::Format { format } => plain(format!("{field} must be a valid {format}")).format(format),
        Rule::Type { .. } => {
            plain(format!("{field} has the wrong type: {}", echo(&error.masked().to_string()))).rule("type")
        }
        _ => plain(format!("{field}: {}", echo(&error.masked().to_string()))).rule("schema"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas(version: &str) -> SpecSchemas {
        let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
        let document = json!({"openapi": version, "components": {"schemas": {
            "ClusterSpec": {
                "type": "object",
                "required": ["region"],
                "additionalProperties": false,
                "properties": {
                    "region": {"type": "string", "enum": ["eu", "us"]},
                    "nodes": {"type": "integer", "minimum": 1},
                    "note": {"type": "string", "nullable": true},
                    "network": {"$ref": "#/components/schemas/Network"},
                },
            },
            "Network": {"type": "object", "properties": {"cidrs": {"type": "array", "items": {"type": "string", "pattern": "^10"}}}},
        }}});
        SpecSchemas::compile(&catalog, Some(&document)).unwrap()
    }

    #[test]
    fn every_violation_is_one_fault_with_its_path_and_rule_in_document_order() {
        let spec = json!({"more": 1, "nodes": 0, "network": {"cidrs": ["11.0", "10.0", 5]}, "region": "mars", "extra": 1});
        let found: Vec<_> = schemas("3.0.3")
            .check("Cluster", &spec)
            .into_iter()
            .map(|f| (f.field, f.constraint.unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                ("spec.more".to_owned(), "unknown"),
                ("spec.nodes".to_owned(), "min"),
                ("spec.network.cidrs[0]".to_owned(), "pattern"),
                ("spec.network.cidrs[2]".to_owned(), "type"),
                ("spec.region".to_owned(), "enum"),
                ("spec.extra".to_owned(), "unknown"),
            ]
        );
        assert_eq!(schemas("3.1.0").check("Cluster", &json!({}))[0].field, "spec.region");
    }

    #[test]
    fn nullable_of_openapi_3_0_is_understood() {
        assert!(schemas("3.0.3").check("Cluster", &json!({"region": "eu", "note": null})).is_empty());
        assert!(!schemas("3.1.0").check("Cluster", &json!({"region": "eu", "note": null})).is_empty());
    }

    #[test]
    fn a_kind_without_a_schema_accepts_every_spec() {
        assert!(schemas("3.0.3").check("NodePool", &json!({"anything": 1})).is_empty());
    }

    #[test]
    fn a_required_schema_that_is_not_there_is_a_start_up_fault() {
        let mut kinds = Catalog::default_descriptors();
        kinds[0].require_spec_schema = true;
        let catalog = Catalog::new(kinds).unwrap();
        assert!(
            SpecSchemas::compile(&catalog, None).unwrap_err()[0].contains("openapi_schema_path is not set")
        );
        let document = json!({"openapi": "3.0.0", "components": {"schemas": {}}});
        assert!(SpecSchemas::compile(&catalog, Some(&document)).unwrap_err()[0].contains("not a component"));
    }
}
