//! Schemas and specs that could take very long together: the check ends, with an answer or with one fault that says
//! that there is none. Nothing measures time here; without bounds these tests would not end.

use hyperfleet_core::SpecSchemas;
use serde_json::{Map, Value, json};

use super::generate::{OPENAPI_3_0, OPENAPI_3_1};
use super::{accepts, compile};

/// Compiles the component `A`, and others beside it.
fn schemas(components: &Value) -> SpecSchemas {
    compile(OPENAPI_3_1, components).unwrap()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The fields and rules of the faults.
fn faults(schemas: &SpecSchemas, spec: &Value) -> Vec<(String, &'static str)> {
    schemas.check("Thing", spec).into_iter().map(|f| (f.field, f.constraint.unwrap())).collect()
}

fn number(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A tree whose inner variants share a recursive member.
fn tree(combine: &str) -> SpecSchemas {
    let inner = |kind: &str| {
        json!({
            "type": "object",
            "required": ["kind", "children"],
            "properties": {"children": {"type": "array", "items": reference("A")}, "kind": {"const": kind}},
        })
    };
    schemas(&json!({
        "A": {combine: [reference("Group"), reference("Row"), reference("Leaf")]},
        "Group": inner("group"),
        "Row": inner("row"),
        "Leaf": {"properties": {"kind": {"const": "leaf"}, "value": {"type": "integer"}}},
    }))
}

fn nested(levels: usize, leaf: Value) -> Value {
    let kinds = ["group", "row"].iter().cycle().take(levels);
    kinds.fold(leaf, |child, kind| json!({"kind": kind, "children": [child, {"kind": "leaf"}]}))
}

#[test]
fn recursive_alternatives_take_polynomial_time() {
    for combine in ["oneOf", "anyOf"] {
        let schemas = tree(combine);
        for levels in [1, 12, 18, 30] {
            assert!(accepts(&schemas, &nested(levels, json!({"kind": "leaf", "value": 1}))));
            let wrong = nested(levels, json!({"kind": "leaf", "value": "x"}));
            assert_eq!(faults(&schemas, &wrong), [("spec".to_owned(), "schema")]);
        }
    }
}

/// The components `A0` … `A60`, each of which applies the next one twice to the same value, and `A`.
fn doubling(combine: impl Fn(Value) -> Value, last: Value) -> Value {
    let steps = (0..60).map(|i| (format!("A{i}"), combine(reference(&format!("A{}", i + 1)))));
    let ends = [("A60".to_owned(), last), ("A".to_owned(), reference("A0"))];
    steps.chain(ends).collect::<Map<_, _>>().into()
}

#[test]
fn a_schema_that_is_applied_twice_to_a_value_decides_once() {
    for (combine, expected) in [("allOf", 100), ("anyOf", 1)] {
        let text = json!({"allOf": [{"type": "string"}]});
        let schemas = schemas(&doubling(|next| json!({combine: [next.clone(), next]}), text));
        assert!(accepts(&schemas, &json!("text")));
        let found = schemas.check("Thing", &json!(1));
        assert_eq!(found.len(), expected, "{combine}: {found:?}");
    }
    let refuse = |next: Value| json!({"not": {"anyOf": [next.clone(), next]}});
    let schemas = schemas(&doubling(refuse, json!({"type": "string"})));
    assert!(accepts(&schemas, &json!("text")));
    assert_eq!(faults(&schemas, &json!({"a": 1})), [("spec".to_owned(), "schema")]);
}

#[test]
fn what_cannot_be_decided_in_time_is_one_fault_that_says_where() {
    // Which members the others looked at is not remembered, so that each step doubles the work.
    let in_a_list = json!({"$ref": "#/components/schemas/A0", "unevaluatedProperties": false});
    let mut components =
        doubling(|next| json!({"allOf": [next.clone(), next]}), json!({"properties": {"a": true}}));
    components["A"] = json!({"properties": {"in": {"items": in_a_list}}});
    let schemas = schemas(&components);
    let found = schemas.check("Thing", &json!({"in": [{"a": 1}]}));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].field, "spec.in[0]");
    assert_eq!(found[0].constraint, Some("complexity"));
    assert_eq!(found[0].message, "spec.in[0] is too complex to be checked against its schema");
    assert!(schemas.check_briefly("Thing", &json!({"in": [{"a": 1}]})).is_none());
    assert_eq!(schemas.check_briefly("Thing", &json!({"in": []})), Some(Vec::new()));
}

#[test]
fn schemas_for_the_same_value_do_not_exhaust_the_stack() {
    let steps = (0..5_000).map(|i| {
        (format!("A{i}"), json!({"$ref": format!("#/components/schemas/A{}", i + 1), "minLength": 1}))
    });
    let mut components: Map<String, Value> = steps.collect();
    components.insert("A5000".to_owned(), json!({"type": "string"}));
    components.insert("A".to_owned(), reference("A0"));
    // A thread of a server has as much stack.
    let check = move || faults(&schemas(&components.into()), &json!("text"));
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap();
    assert_eq!(thread.join().unwrap(), [("spec".to_owned(), "complexity")]);
}

#[test]
fn the_deepest_spec_fits_a_recursive_schema() {
    let schemas = schemas(&json!({"A": {"allOf": [{"oneOf": [
        {"type": "object", "additionalProperties": {"anyOf": [reference("A"), false]}},
        {"type": "integer"},
    ]}]}}));
    let deepest = (0..64).fold(json!(1), |inner, _| json!({"a": inner}));
    let thread =
        std::thread::Builder::new().stack_size(2 << 20).spawn(move || faults(&schemas, &deepest)).unwrap();
    assert_eq!(thread.join().unwrap(), []);
}

#[test]
fn long_lists_are_compared_without_comparing_each_with_each() {
    let schemas =
        schemas(&json!({"A": {"uniqueItems": true, "items": {"enum": (0..20_000).collect::<Vec<_>>()}}}));
    let mut items: Vec<Value> = (0..20_000).map(Value::from).collect();
    assert!(accepts(&schemas, &Value::from(items.clone())));
    items[19_999] = number("1.0");
    assert_eq!(faults(&schemas, &Value::from(items.clone())), [("spec".to_owned(), "schema")]);
    items[19_999] = number("-1");
    assert_eq!(faults(&schemas, &Value::from(items)), [("spec[19999]".to_owned(), "enum")]);
}

#[test]
fn numbers_of_any_size_are_compared_without_being_written_out() {
    let schemas = schemas(&json!({"A": {"type": "integer", "multipleOf": 7, "maximum": number("1e400")}}));
    assert!(accepts(&schemas, &number("7e300")));
    assert_eq!(faults(&schemas, &number("7e1000000000")), [("spec".to_owned(), "max")]);
    assert_eq!(faults(&schemas, &number("-1e999999999999999999999999999")), [("spec".to_owned(), "schema")]);
    assert_eq!(faults(&schemas, &number("7e-1000000000")).len(), 2);
    let digits = "7".repeat(1_000_000);
    assert_eq!(faults(&schemas, &number(&digits)), [("spec".to_owned(), "max")]);
}

#[test]
fn patterns_take_time_in_proportion_to_the_text() {
    let nested = json!({"A": {"pattern": "^(a+)+$"}});
    let text = Value::from("a".repeat(50_000) + "b");
    assert_eq!(faults(&schemas(&nested), &text), [("spec".to_owned(), "pattern")]);
    // A look-around from each place of a long text takes quadratic time, so the budget ends it.
    let looking = schemas(&json!({"A": {"pattern": "(?=(a+)+$)c"}}));
    assert_eq!(faults(&looking, &Value::from("ab".repeat(10))), [("spec".to_owned(), "pattern")]);
    assert_eq!(faults(&looking, &text), [("spec".to_owned(), "complexity")]);
    // So is a pattern with many repetitions.
    let heavy = schemas(&json!({"A": {"pattern": "(.a|.b){0,900}c"}}));
    assert_eq!(faults(&heavy, &Value::from("é".repeat(20))), [("spec".to_owned(), "pattern")]);
    assert_eq!(faults(&heavy, &Value::from("é".repeat(500_000))), [("spec".to_owned(), "complexity")]);
}

#[test]
fn a_format_reads_a_hostile_text_once() {
    let formats =
        ["regex", "uri-template", "email", "iri", "date-time", "json-pointer", "hostname", "duration"];
    for format in formats {
        let schemas = schemas(&json!({"A": {"format": format}}));
        for piece in ["(", "{", "[", "\\", "a@", "%41", "~0", "P1", "a.", "\"", "(?=", "a{1}", "{a,"] {
            let text = Value::from(piece.repeat(900_000 / piece.len()));
            assert!(
                !faults(&schemas, &text).iter().any(|(_, rule)| *rule == "complexity"),
                "{format}: {piece}"
            );
        }
    }
}

#[test]
fn a_spec_has_at_most_a_hundred_faults() {
    let schemas = compile(
        OPENAPI_3_0,
        &json!({"A": {
            "additionalProperties": {"items": {"type": "string"}, "required": ["a", "b"]},
            "minProperties": 100_000,
        }}),
    )
    .unwrap();
    let spec: Map<String, Value> = (0..50_000).map(|i| (format!("k{i}"), json!([1, {}, "x"]))).collect();
    let found = faults(&schemas, &spec.into());
    assert_eq!(found.len(), 100);
    assert_eq!(found[0], ("spec".to_owned(), "schema"));
    assert_eq!(found[1].0, "spec.k0[0]");
}
