//! Spec schemas and specs, whatever both are.

use std::sync::LazyLock;

use hyperfleet_core::{Catalog, EntityDescriptor, SpecSchemas};
use serde_json::{Value, json};

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let thing = EntityDescriptor {
        kind: "Thing".into(),
        plural: "things".into(),
        spec_schema_name: Some("A".into()),
        ..EntityDescriptor::default()
    };
    Catalog::new(vec![thing]).unwrap_or_else(|faults| panic!("{faults:?}"))
});

/// A schema on the first line, the component `A`, is refused or checks the spec behind it, in both versions of OpenAPI.
pub fn schema(input: &str) {
    let (schema, spec) = input.split_once('\n').unwrap_or((input, "{}"));
    let (Ok(schema), Ok(spec)) = (serde_json::from_str::<Value>(schema), serde_json::from_str::<Value>(spec))
    else {
        return;
    };
    for version in ["3.0.3", "3.1.0"] {
        let document = json!({"openapi": version, "components": {"schemas": {"A": schema}}});
        match SpecSchemas::compile(&CATALOG, Some(&document)) {
            Ok(schemas) => check(&schemas, &spec),
            Err(faults) => assert!(faults.iter().all(|fault| fault.starts_with("entities[0]")), "{faults:?}"),
        }
    }
}

fn check(schemas: &SpecSchemas, spec: &Value) {
    let faults = schemas.check("Thing", spec);
    assert!(faults.len() <= 100);
    for fault in &faults {
        assert!(fault.field.starts_with("spec") && fault.constraint.is_some(), "{fault:?}");
        assert!(fault.constraint != Some("complexity") || faults.len() == 1, "{faults:?}");
    }
    // A brief check says the same, if it comes to an end.
    if let Some(briefly) = schemas.check_briefly("Thing", spec) {
        assert_eq!(briefly, faults);
    }
}
