//! The evaluator against the interpreter of the `cel` crate, which was written by others to the same
//! specification: on random documents both must come to the same outcome, or both fail.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::objects::{Key, Map};
use cel::{Context, Env, Program};
use hyperfleet_expr::{Expression, Outcome, Scope};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{cases, compile};

fn theirs(json: &Value) -> cel::Value {
    match json {
        Value::Null => cel::Value::Null,
        Value::Bool(held) => cel::Value::Bool(*held),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), ..) => cel::Value::Int(whole),
            (_, Some(whole), _) => cel::Value::UInt(whole),
            (.., real) => cel::Value::Float(real.unwrap()),
        },
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(theirs).collect())),
        Value::Object(members) => {
            let members: HashMap<Key, cel::Value> =
                members.iter().map(|(key, value)| (key.as_str().into(), theirs(value))).collect();
            cel::Value::Map(Map { map: Arc::new(members) })
        }
    }
}

fn outcome(value: cel::Value) -> Outcome {
    match value {
        cel::Value::Bool(held) => Outcome::Bool(held),
        cel::Value::String(text) => Outcome::Text(text.to_string()),
        cel::Value::Null => Outcome::Other("null_type"),
        cel::Value::Int(_) => Outcome::Other("int"),
        cel::Value::UInt(_) => Outcome::Other("uint"),
        cel::Value::Float(_) => Outcome::Other("double"),
        cel::Value::List(_) => Outcome::Other("list"),
        cel::Value::Map(_) => Outcome::Other("map"),
        _ => Outcome::Other("optional_type"),
    }
}

const EXPRESSIONS: [&str; 62] = [
    "x",
    "x.a",
    "x.a.b",
    "x.a == x.b",
    "x.a != x.b",
    "x.a < x.b",
    "x.a <= x.b",
    "x.a > x.b",
    "x.a >= x.b",
    "x.a + x.b",
    "string(x.a + x.b)",
    "string(x.a - x.b)",
    "string(x.a * x.b)",
    "string(x.a / x.b)",
    "string(x.a % x.b)",
    "string(-x.a)",
    "!x.a",
    "x.a && x.b",
    "x.a || x.b",
    "x.a ? x.b : x.c",
    "x.a in x.b",
    "x.a[0]",
    "x.a[x.b]",
    "x.a['a']",
    "x[x.a]",
    "x.a[?0]",
    "x.a[?x.b].orValue('none')",
    "x.?a",
    "x.?a.b",
    "x.?a.?b",
    "x.?a.?b.?c.orValue(0)",
    "x.a.?b.orValue('none')",
    "x.?a.b.c[0].hasValue()",
    "x.?a.or(x.?b)",
    "x.?a.value()",
    "x.?a.optMap(y, y == x.b)",
    "x.?a.optMap(y, y + 1).orValue('none')",
    "x.?a.optFlatMap(y, y.?b).hasValue()",
    "has(x.a)",
    "has(x.a.b)",
    "has(x.?a.b)",
    "size(x.a)",
    "string(size(x.a)) + string(x.b.size())",
    "string(x.a)",
    "string(int(x.a))",
    "string(uint(x.a))",
    "string(double(x.a))",
    "bool(x.a)",
    "type(x.a) == type(x.b)",
    "x.a.contains(x.b)",
    "x.a.startsWith(x.b) || x.a.endsWith(x.b)",
    "x.a.all(y, y == x.b)",
    "x.a.exists(y, y == x.b)",
    "x.a.exists(y, y < x.b)",
    "x.a.all(y, y.b)",
    "x.a.exists_one(y, y == x.b)",
    "x.a.filter(y, y != x.b) == x.b",
    "[x.a, x.b] == [x.b, x.a] || {'a': x.a} == {'a': x.b}",
    "[x.a].map(y, [y, x.b]) == [[x.b, x.a]]",
    "{x.a: 1, x.b: 2}.size() == 2",
    "optional.ofNonZeroValue(x.a).hasValue()",
    "[x.a, x.b].map(y, y.a.exists(z, z == 1))[0]",
];

/// Where that interpreter does what the specification does not know: it adds the keys of a map to a list.
fn theirs_departs(source: &str, x: &Value) -> bool {
    source.contains("x.a + x.b") && x["a"].is_array() && x["b"].is_object()
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

static COMPILED: LazyLock<Vec<(Expression, Program)>> =
    LazyLock::new(|| EXPRESSIONS.map(|source| (compile(source), ENV.compile(source).unwrap())).into());

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..4).prop_map(|n| json!(n)),
        prop::sample::select(vec![
            json!(i64::MAX),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1_u64 << 63),
            json!(0.0),
            json!(1.0),
            json!(-1.5),
            json!(9.0e18),
            json!(1.0e300),
        ]),
        prop::sample::select(vec!["", "a", "b", "ab", "1", "-2", "1.5", "true", "0", "é"])
            .prop_map(|s| json!(s)),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    let value = leaf().prop_recursive(3, 24, 3, |inner| {
        let key = prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key, inner, 0..3).prop_map(|members| json!(members)),
        ]
    });
    let member = prop::option::weighted(0.9, value);
    (member.clone(), member.clone(), member).prop_map(|(a, b, c)| {
        let members = [("a", a), ("b", b), ("c", c)];
        Value::Object(members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
    })
}

proptest! {
    #![proptest_config(cases(5_000))]

    #[test]
    fn both_come_to_the_same_outcome(x in document()) {
        let mut context = Context::with_env(ENV.clone());
        context.add_variable_from_value("x", theirs(&x));
        let scope = Scope::new().with("x", &x);
        for (source, (our_own, other)) in EXPRESSIONS.iter().zip(&*COMPILED) {
            if theirs_departs(source, &x) {
                continue;
            }
            let expected = other.execute(&context);
            let found = our_own.evaluate(&scope);
            match (expected, found) {
                (Ok(expected), Ok(found)) => prop_assert_eq!(found, outcome(expected), "{} on {}", source, x),
                (Err(_), Err(_)) => {}
                (expected, found) => prop_assert!(false, "{source} on {x}: {found:?}, theirs {expected:?}"),
            }
        }
    }
}
