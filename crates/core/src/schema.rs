//! Spec schemas: components of an OpenAPI document, compiled once at start. Each violation in a spec becomes one fault
//! that names its path and its rule.
//!
//! Schema and spec may be hostile together: alternatives that refer to themselves, patterns, long lists. So a schema is
//! refused at start when no bound for it is known, and each check has a budget of steps, which bounds its time and its
//! memory.

mod budget;
mod check;
mod compile;
mod equality;
mod evaluated;
mod explain;
mod format;
mod node;
mod pattern;
mod reference;
mod violation;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::{Catalog, Fault, FaultKind};
use budget::{Budget, Spent};
use check::Check;
use compile::Compiler;
use explain::MAX_VIOLATIONS;
use node::{Node, NodeId};
use reference::SchemaLocation;

/// The steps of one check: some tenths of a second, and several steps for each value of a spec of 1 MiB.
const STEPS: u64 = 10_000_000;

/// The steps of a check that others may wait for: about a millisecond, and more than most specs need.
const BRIEF_STEPS: u64 = 50_000;

/// The compiled schemas by kind. Kinds without one accept every spec.
#[derive(Debug, Default)]
pub struct SpecSchemas {
    nodes: Vec<Node>,
    roots: HashMap<Arc<str>, NodeId>,
}

impl SpecSchemas {
    /// Compiles what the catalog names from `document`, an OpenAPI document (3.0 or 3.1), if one
    /// is configured. The error lists every fault found.
    pub fn compile(catalog: &Catalog, document: Option<&Value>) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut roots = HashMap::new();
        let components = document.map(|d| &d["components"]["schemas"]);
        if components.is_some_and(|c| !c.is_object()) {
            faults.push("server.openapi_schema_path: the document has no components.schemas".to_owned());
        }
        let mut compiler = document.map(Compiler::new);
        for (i, entity) in catalog.kinds().enumerate() {
            let Some(name) = &entity.spec_schema_name else { continue };
            let place = document.and_then(|document| component(document, name));
            let (Some(place), Some(compiler)) = (place, &mut compiler) else {
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
            match compiler.compile(place) {
                Ok(root) => {
                    roots.insert(entity.kind.clone(), root);
                }
                Err(found) => faults.extend(found.into_iter().map(|fault| {
                    format!("entities[{i}].spec_schema_name: the schema '{name}' cannot be used: {fault}")
                })),
            }
        }
        let nodes = compiler.map(Compiler::finish).unwrap_or_default();
        if faults.is_empty() { Ok(Self { nodes, roots }) } else { Err(faults) }
    }

    /// The faults of a spec of this kind, in the order of the spec. A spec that takes too many steps has one fault,
    /// which says where the check ended.
    pub fn check(&self, kind: &str, spec: &Value) -> Vec<Fault> {
        self.check_within(STEPS, kind, spec).unwrap_or_else(|fault| vec![*fault])
    }

    /// The same for specs that are checked quickly. `None` when the check would hold up others.
    pub fn check_briefly(&self, kind: &str, spec: &Value) -> Option<Vec<Fault>> {
        self.check_within(BRIEF_STEPS, kind, spec).ok()
    }

    fn check_within(&self, steps: u64, kind: &str, spec: &Value) -> Result<Vec<Fault>, Box<Fault>> {
        let Some(root) = self.roots.get(kind) else { return Ok(Vec::new()) };
        let mut check = Check::new(&self.nodes, Budget::new(steps));
        faults(&mut check, *root, spec).map_err(|Spent| {
            let field = violation::field(&check.path);
            let message = format!("{field} is too complex to be checked against its schema");
            Box::new(Fault::new(FaultKind::Value, field, message).rule("complexity"))
        })
    }
}

/// The place of a component of an OpenAPI document.
fn component<'d>(document: &'d Value, name: &str) -> Option<SchemaLocation<'d>> {
    SchemaLocation::document(document).child("components")?.child("schemas")?.child(name)
}

fn faults<'i>(check: &mut Check<'_, 'i>, root: NodeId, spec: &'i Value) -> Result<Vec<Fault>, Spent> {
    let mut found = Vec::new();
    if !check.fits(root, spec)? {
        check.explain(root, spec, &mut found)?;
    }
    // The check goes through its schema, the caller through the document that was sent.
    found.sort_by_cached_key(violation::Violation::position);
    Ok(found.iter().take(MAX_VIOLATIONS).map(violation::Violation::fault).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
