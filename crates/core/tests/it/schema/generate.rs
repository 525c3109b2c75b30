//! Random schemas that refer to each other, and random specs near the border of what they accept.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use serde_json::{Map, Value, json};

pub(super) const OPENAPI_3_0: &str = "3.0.3";
pub(super) const OPENAPI_3_1: &str = "3.1.0";

/// The components `A`, `B` and `C`.
pub(super) fn components(version: &'static str) -> impl Strategy<Value = Value> {
    [schema(version), schema(version), schema(version)].prop_map(|[a, b, c]| json!({"A": a, "B": b, "C": c}))
}

fn name() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "ab", "$ref", "c/d~"])
}

fn number() -> impl Strategy<Value = Value> {
    let texts = [
        "-1",
        "0",
        "1",
        "1.0",
        "1.5",
        "2",
        "3",
        "1e2",
        "100",
        "0.1",
        "-0.0",
        "1e400",
        "18446744073709551616",
    ];
    select(texts.to_vec()).prop_map(|text| serde_json::from_str(text).unwrap())
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        4 => number(),
        4 => select(vec!["", "a", "b", "ab", "ba", "aab", "10.0.0.1", "2020-02-30", "é", "a b"]).prop_map(Value::from),
    ]
}

pub(super) fn spec() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4).prop_map(|members| {
                members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect::<Map<_, _>>()
                    .into()
            }),
        ]
    })
}

fn reference() -> impl Strategy<Value = Value> {
    let targets = ["A", "B", "C", "A/properties/a", "B/allOf/0"];
    select(targets[..3].to_vec()).prop_map(|name| json!({"$ref": format!("#/components/schemas/{name}")}))
}

fn schema(version: &'static str) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![3 => object(leaf_keywords(version)), 1 => reference(), 1 => boolean(version)];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let keywords = Union::new_weighted(vec![
            (2, leaf_keywords(version)),
            (3, keywords_with_schemas(version, &inner)),
        ]);
        prop_oneof![4 => object(keywords.boxed()), 1 => reference()]
    })
    .boxed()
}

/// Only the newer version has boolean schemas everywhere.
fn boolean(version: &str) -> BoxedStrategy<Value> {
    if version == OPENAPI_3_1 { any::<bool>().prop_map(Value::from).boxed() } else { Just(json!({})).boxed() }
}

/// A schema with a few keywords.
fn object(keywords: BoxedStrategy<Vec<(&'static str, Value)>>) -> impl Strategy<Value = Value> {
    prop::collection::vec(keywords, 1..4).prop_map(|keywords| {
        let members = keywords.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        members.collect::<Map<_, _>>().into()
    })
}

fn one(
    name: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<Vec<(&'static str, Value)>> {
    value.prop_map(move |value| vec![(name, value)]).boxed()
}

fn count() -> impl Strategy<Value = Value> {
    (0..4_u32).prop_map(Value::from)
}

fn names() -> impl Strategy<Value = Value> {
    prop::sample::subsequence(vec!["a", "b", "ab"], 0..3).prop_map(Value::from)
}

fn pattern() -> impl Strategy<Value = &'static str> {
    select(vec![
        "^a", "b$", "^(?!a)", "a(?=b)", "(?<=a)b", "(?<!a)b", "^[ab]*$", r"\d+\.", "^.{2}$", "a|^$", r"\W",
    ])
}

fn leaf_keywords(version: &'static str) -> BoxedStrategy<Vec<(&'static str, Value)>> {
    let types = vec!["null", "boolean", "integer", "number", "string", "array", "object"];
    let mut keywords = vec![
        one("type", select(types.clone()).prop_map(Value::from)),
        one("type", prop::sample::subsequence(types, 1..4).prop_map(Value::from)),
        one("enum", prop::collection::vec(spec(), 1..12).prop_map(Value::from)),
        one("minimum", number()),
        one("maximum", number()),
        one("multipleOf", select(vec![json!(1), json!(2), json!(0.1), json!(1.5)])),
        one("minLength", count()),
        one("maxLength", count()),
        one("minItems", count()),
        one("maxItems", count()),
        one("minProperties", count()),
        one("maxProperties", count()),
        one("required", names()),
        one("pattern", pattern().prop_map(Value::from)),
        one("format", select(vec!["ipv4", "date", "uuid", "unknown"]).prop_map(Value::from)),
        one("uniqueItems", any::<bool>().prop_map(Value::from)),
        one("description", Just(json!("an annotation"))),
    ];
    if version == OPENAPI_3_0 {
        keywords.push(
            (number(), any::<bool>())
                .prop_map(|(n, flag)| vec![("minimum", n), ("exclusiveMinimum", flag.into())])
                .boxed(),
        );
        keywords.push(
            (number(), any::<bool>())
                .prop_map(|(n, flag)| vec![("maximum", n), ("exclusiveMaximum", flag.into())])
                .boxed(),
        );
    } else {
        keywords.push(one("const", spec()));
        keywords.push(one("exclusiveMinimum", number()));
        keywords.push(one("exclusiveMaximum", number()));
        keywords.push(one("dependentRequired", names().prop_map(|names| json!({"a": names}))));
    }
    Union::new(keywords).boxed()
}

fn keywords_with_schemas(
    version: &'static str,
    schema: &(impl Strategy<Value = Value> + Clone + 'static),
) -> BoxedStrategy<Vec<(&'static str, Value)>> {
    let schema = || schema.clone();
    let list = || prop::collection::vec(schema(), 1..4).prop_map(Value::from);
    let named = || {
        prop::collection::vec((name(), schema()), 1..3).prop_map(|members| {
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
        })
    };
    let by_pattern = prop::collection::vec((pattern(), schema()), 1..3).prop_map(|members| {
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
    });
    let mut keywords = vec![
        one("properties", named()),
        one("patternProperties", by_pattern),
        one("additionalProperties", prop_oneof![Just(json!(false)), Just(json!(true)), schema()]),
        one("items", schema()),
        one("allOf", list()),
        one("anyOf", list()),
        one("oneOf", list()),
        one("not", schema()),
        one("dependencies", schema().prop_map(|schema| json!({"a": schema, "b": ["a"]}))),
    ];
    if version == OPENAPI_3_0 {
        let tuple = (list(), prop_oneof![Just(json!(false)), schema()]);
        keywords
            .push(tuple.prop_map(|(list, rest)| vec![("items", list), ("additionalItems", rest)]).boxed());
    } else {
        let bounds = (schema(), 0..3_u32, 0..3_u32);
        let contains = bounds.prop_map(|(schema, min, max)| {
            vec![("contains", schema), ("minContains", min.into()), ("maxContains", max.into())]
        });
        let conditions = (schema(), schema(), schema());
        let conditions = conditions.prop_map(|(a, b, c)| vec![("if", a), ("then", b), ("else", c)]);
        keywords.extend([
            contains.boxed(),
            conditions.boxed(),
            one("contains", schema()),
            one("prefixItems", list()),
            one("propertyNames", schema()),
            one("dependentSchemas", schema().prop_map(|schema| json!({"b": schema}))),
            one("unevaluatedProperties", prop_oneof![Just(json!(false)), schema()]),
            one("unevaluatedItems", prop_oneof![Just(json!(false)), schema()]),
            reference().prop_map(|value| vec![("$ref", value["$ref"].clone())]).boxed(),
        ]);
    }
    Union::new(keywords).boxed()
}
