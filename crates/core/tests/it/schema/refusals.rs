//! What is refused at start, with its place in the document, and which references are understood.

use serde_json::{Value, json};

use super::generate::{OPENAPI_3_0, OPENAPI_3_1};
use super::{accepts, compile};

/// The one fault of a component, without what stands before its place.
fn refusal(version: &str, schema: &Value) -> String {
    let faults = compile(version, &json!({"A": schema})).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fault = faults[0].strip_prefix("entities[0].spec_schema_name: the schema 'A' cannot be used: ");
    fault.unwrap().strip_prefix("#/components/schemas/A").unwrap().to_owned()
}

#[test]
fn what_is_malformed_is_named_with_its_place() {
    for (schema, expected) in [
        (json!({"type": "strin"}), "/type: 'strin' is no type"),
        (json!({"type": 5}), "/type: must be a string"),
        (
            json!({"properties": {"a/b": {"minLength": -1}}}),
            "/properties/a~1b/minLength: must be a whole number that is not negative",
        ),
        (json!({"allOf": [{"required": true}]}), "/allOf/0/required: must be a list of names"),
        (json!({"properties": []}), "/properties: must be an object of schemas"),
        (json!({"properties": {"a": "string"}}), "/properties/a: a schema must be an object or a boolean"),
        (json!({"anyOf": {}}), "/anyOf: must be a list of schemas"),
        (json!({"enum": "a"}), "/enum: must be a list"),
        (json!({"maximum": "5"}), "/maximum: must be a number"),
        (json!({"multipleOf": 0}), "/multipleOf: must be a positive number of at most 18 digits"),
        (json!({"uniqueItems": "yes"}), "/uniqueItems: must be a boolean"),
        (json!({"pattern": "a("}), "/pattern: a group is not closed"),
        (json!({"pattern": "[b-a]"}), "/pattern: a range of characters ends before it starts"),
        (json!({"pattern": "\\p{Nothing}"}), "/pattern: error: Unicode property not found"),
    ] {
        assert_eq!(refusal(OPENAPI_3_1, &schema), expected, "{schema}");
    }
}

#[test]
fn what_cannot_be_bounded_is_refused() {
    for (schema, expected) in [
        (json!({"pattern": "(a)\\1"}), "/pattern: a back-reference cannot be matched in bounded time"),
        (
            json!({"patternProperties": {"(a{1,1000}){1000}": true}}),
            "/patternProperties: the pattern '(a{1,1000}){1000}': its repetitions make it too large to be matched in bounded time",
        ),
        (
            json!({"pattern": "(?=((a{100}){100}){100})"}),
            "/pattern: its repetitions make it too large to be matched in bounded time",
        ),
        (
            json!({"items": {"$dynamicRef": "#A"}}),
            "/items/$dynamicRef: the meaning depends on the way to the schema, which cannot be bounded",
        ),
        (
            json!({"$ref": "https://example.com/schema.json"}),
            "/$ref: the reference 'https://example.com/schema.json' leads to another document, and only one is read",
        ),
        (
            json!({"items": {"$ref": "#/components/schemas/B"}}),
            "/items/$ref: the reference '#/components/schemas/B' leads to nothing in this document",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"not": {"$ref": "#/components/schemas/A"}}]}),
            ": the schema refers to itself without entering a member or an item, which never ends",
        ),
    ] {
        assert_eq!(refusal(OPENAPI_3_1, &schema), expected, "{schema}");
    }
    let circle = json!({
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"$ref": "#/components/schemas/A"},
    });
    assert!(compile(OPENAPI_3_0, &circle).unwrap_err()[0].ends_with("which never ends"));
}

#[test]
fn every_fault_of_a_schema_is_listed() {
    let schema =
        json!({"A": {"type": "strin", "items": {"minimum": "1"}, "properties": {"a": {"$ref": "#/x"}}}});
    assert_eq!(compile(OPENAPI_3_1, &schema).unwrap_err().len(), 3);
}

#[test]
fn references_lead_to_any_place_of_the_document() {
    let components = json!({
        "A": {"properties": {
            "pointer": {"$ref": "#/components/schemas/B/properties/a~1b%25"},
            "definition": {"$ref": "#/components/schemas/A/$defs/text"},
            "anchor": {"$ref": "#short"},
            "embedded": {"$ref": "https://example.com/embedded"},
        }, "$defs": {"text": {"type": "string"}, "other": {"$anchor": "short", "maxLength": 1}}},
        "B": {"properties": {"a/b%": {"type": "boolean"}}},
        "C": {
            "$id": "https://example.com/embedded",
            "items": {"$ref": "#/$defs/one"},
            "$defs": {"one": {"enum": [1]}},
        },
    });
    let schemas = compile(OPENAPI_3_1, &components).unwrap();
    assert!(accepts(
        &schemas,
        &json!({"pointer": true, "definition": "text", "anchor": "a", "embedded": [1, 1]})
    ));
    for (name, value) in
        [("pointer", json!(1)), ("definition", json!(1)), ("anchor", json!("ab")), ("embedded", json!([2]))]
    {
        assert!(!accepts(&schemas, &json!({name: value})), "{name}");
    }
}

#[test]
fn openapi_3_0_ignores_what_stands_beside_a_reference_and_what_it_does_not_know() {
    let components = json!({
        "A": {"$ref": "#/components/schemas/B", "type": "string"},
        "B": {"type": "integer", "const": 1, "exclusiveMinimum": 5, "if": true, "then": false, "x-note": {"type": 5}},
    });
    let schemas = compile(OPENAPI_3_0, &components).unwrap();
    assert!(accepts(&schemas, &json!(3)));
    assert!(!accepts(&schemas, &json!("a")));
}
