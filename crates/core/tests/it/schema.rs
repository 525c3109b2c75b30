//! Spec schemas against another implementation of JSON Schema: random schemas accept and refuse the same random specs.

mod bounds;
mod formats;
mod generate;
mod patterns;
mod refusals;

use std::sync::LazyLock;

use hyperfleet_core::{Catalog, EntityDescriptor, SpecSchemas};
use jsonschema::{Draft, Validator};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases;
use generate::{OPENAPI_3_0, OPENAPI_3_1, components, spec};

/// A catalog of one kind, whose schema is the component `A`.
static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    Catalog::new(vec![EntityDescriptor {
        kind: "Thing".into(),
        plural: "things".into(),
        spec_schema_name: Some("A".into()),
        ..EntityDescriptor::default()
    }])
    .unwrap()
});

fn compile(version: &str, components: &Value) -> Result<SpecSchemas, Vec<String>> {
    let document = json!({"openapi": version, "components": {"schemas": components}});
    SpecSchemas::compile(&CATALOG, Some(&document))
}

fn accepts(schemas: &SpecSchemas, spec: &Value) -> bool {
    schemas.check("Thing", spec).is_empty()
}

fn model(version: &str, components: &Value) -> Option<Validator> {
    let draft = if version == OPENAPI_3_0 { Draft::Draft4 } else { Draft::Draft202012 };
    let root = json!({"$ref": "#/components/schemas/A", "components": {"schemas": components}});
    jsonschema::options().with_draft(draft).should_validate_formats(true).build(&root).ok()
}

/// A schema and a spec, in the version of OpenAPI that comes first.
fn agree(version: &str, components: &Value, specs: &[Value]) -> Result<(), TestCaseError> {
    // Only schemas that never end are refused.
    let schemas = match compile(version, components) {
        Ok(schemas) => schemas,
        Err(faults) => {
            prop_assert!(
                faults.iter().all(|fault| fault.ends_with("never ends")),
                "{:?} of {}",
                faults,
                components
            );
            return Ok(());
        }
    };
    let model = model(version, components).expect("what we accept is a schema");
    for spec in specs {
        let faults = schemas.check("Thing", spec);
        prop_assert_eq!(faults.is_empty(), model.is_valid(spec), "{} by {}: {:?}", spec, components, faults);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn openapi_3_0_schemas_mean_what_draft_4_says(
        components in components(OPENAPI_3_0), specs in prop::collection::vec(spec(), 8),
    ) {
        agree(OPENAPI_3_0, &components, &specs)?;
    }

    #[test]
    fn openapi_3_1_schemas_mean_what_draft_2020_12_says(
        components in components(OPENAPI_3_1), specs in prop::collection::vec(spec(), 8),
    ) {
        agree(OPENAPI_3_1, &components, &specs)?;
    }
}
