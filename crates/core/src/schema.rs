//! Spec schemas: components of an OpenAPI document, compiled once at start. Each violation in a
//! spec becomes one fault that names its path and its rule.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind as Rule;
use jsonschema::paths::LocationSegment;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Value, json};

use crate::json::member;
use crate::{Catalog, Fault, echo};

/// More faults than this in one spec help nobody.
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

    /// What is wrong with a spec of this kind.
    pub fn check(&self, kind: &str, spec: &Value) -> Vec<Fault> {
        self.0.get(kind).map_or_else(Vec::new, |validator| {
            validator.iter_errors(spec).take(MAX_FAULTS).map(|error| fault(&error)).collect()
        })
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

fn fault(error: &ValidationError<'_>) -> Fault {
    let field = error.instance_path().iter().fold("spec".to_owned(), |path, segment| match segment {
        LocationSegment::Property(key) => member(&path, &key),
        LocationSegment::Index(i) => format!("{path}[{i}]"),
    });
    let field = echo(&field);
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
        Rule::AdditionalProperties { unexpected } | Rule::UnevaluatedProperties { unexpected } => {
            let names: Vec<_> = unexpected.iter().map(|name| echo(name)).collect();
            plain(format!("{field} has members that its schema does not allow: {}", names.join(", ")))
                .rule("unknown")
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
    fn every_violation_is_one_fault_with_its_path_and_rule() {
        let spec = json!({"nodes": 0, "network": {"cidrs": ["10.0", "11.0"]}, "region": "mars", "extra": 1});
        let mut found: Vec<_> = schemas("3.0.3")
            .check("Cluster", &spec)
            .into_iter()
            .map(|f| (f.field, f.constraint.unwrap()))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                ("spec".to_owned(), "unknown"),
                ("spec.network.cidrs[1]".to_owned(), "pattern"),
                ("spec.nodes".to_owned(), "min"),
                ("spec.region".to_owned(), "enum"),
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
