//! An evaluation ends, soon and without a panic, whatever it is given.

use std::sync::LazyLock;

use hyperfleet_expr::{Expression, Outcome, Scope};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{cases, compile, evaluate};

const EXHAUSTED: &str = "takes more than 50000 steps";

#[test]
fn nested_loops_over_long_lists_end() {
    let x = json!((0..2_000).collect::<Vec<_>>());
    for source in [
        "x.all(a, x.all(b, x.all(c, a + b + c >= 0)))",
        "x.exists(a, x.exists(b, x.exists(c, a == -1)))",
        "x.map(a, x.map(b, x.map(c, c))).size() > 0",
        "x.filter(a, x.filter(b, true).size() > 0).size() > 0",
        "x.exists_one(a, x.exists_one(b, b == 1))",
        "x.map(a, x.size() > 0, x.map(b, b)).size() > 0",
        "x.all(a, x.all(b, 1 / 0 == 1 || x.exists(c, 1 / 0 == 1)))",
        "x.all(a, x.all(b, x.all(c, c == -1 || true)) || true) || true",
    ] {
        assert_eq!(evaluate(source, &x), Err(EXHAUSTED.to_owned()), "{source}");
    }
    assert_eq!(evaluate("x.all(a, a >= 0) && x.exists(a, a == 1999)", &x), Ok(Outcome::Bool(true)));
}

#[test]
fn values_that_grow_with_each_link_of_a_chain_hit_the_step_limit() {
    let chain = |start: &str, link: &str, links: usize| format!("{start}{}", link.repeat(links));
    for source in [
        chain("['0123456789abcdef']", ".map(y,y+y)", 60),
        chain("[[x]]", ".map(y,y+y)", 60),
        format!("toJson({})", chain("[x]", ".map(y,[y,y])", 60)),
        format!("{0} == {0}", chain("[x]", ".map(y,[y,y])", 60)),
        format!("toJson({})", chain("[x]", ".map(y,{'a':y,'b':y})", 60)),
    ] {
        assert_eq!(evaluate(&source, &json!("x")), Err(EXHAUSTED.to_owned()), "{source}");
    }
}

#[test]
fn work_in_proportion_to_large_values_is_counted() {
    let x = json!({
        "list": (0..1_000).collect::<Vec<_>>(),
        "text": "x".repeat(1 << 20),
        "same": "x".repeat(1 << 20),
        "wide": (0..2_000).map(|i| (format!("{i:0300}"), json!(i))).collect::<serde_json::Map<_, _>>(),
        "long": {"k".repeat(1 << 20): 1},
    });
    for source in [
        "x.list.all(i, x.text == x.same)",
        "x.list.all(i, x.text <= x.same)",
        "x.list.all(i, x.text + x.same != '')",
        "x.list.all(i, x.text.contains('xy') || true)",
        "x.list.all(i, x.text.startsWith(x.same))",
        "x.list.all(i, x.text.matches('^x*y') || true)",
        "x.list.all(i, size(x.text) > 0)",
        "x.list.all(i, string(x.text) != '')",
        "x.list.all(i, dig(x, x.text) == null)",
        "x.list.all(i, x[?x.text].hasValue() || true)",
        "x.list.all(i, x.text in x.wide || true)",
        "x.list.all(i, {x.text: 1}.size() == 1)",
        "x.list.all(i, x.wide == x.wide)",
        "x.list.all(i, x.list == x.list)",
        "x.list.all(i, -1 in x.list || true)",
        "x.list.all(i, x.wide.all(k, true))",
        "x.list.all(i, x.long.all(k, true))",
        "x.list.all(i, toJson(x.list) != '')",
        "x.list.all(i, (x.list + x.list).size() > 0)",
    ] {
        assert_eq!(evaluate(source, &x), Err(EXHAUSTED.to_owned()), "{source}");
    }
    for source in
        ["x.list.all(i, x.size() == 5)", "x.list.all(i, x.text != x.list)", "x.list.all(i, [x].size() == 1)"]
    {
        assert_eq!(evaluate(source, &x), Ok(Outcome::Bool(true)), "{source} copies nothing");
    }
}

#[test]
fn a_value_that_an_expression_nests_very_deep_is_refused_and_dropped() {
    // Links further to the left stand deeper in the tree, and can nest less themselves.
    let link = |i: usize| format!(".map(y,{}y{})", "[".repeat(30 + i), "]".repeat(30 + i));
    let nested = format!("[x]{}", (0..30).map(link).collect::<String>());
    assert_eq!(
        evaluate(&nested, &json!(1)),
        Ok(Outcome::Other("list")),
        "{} levels",
        (30..60).sum::<usize>()
    );
    let nested = format!("[x]{}", (16..26).map(link).collect::<String>());
    for source in [format!("toJson({nested})"), format!("{nested} == {nested}")] {
        assert_eq!(evaluate(&source, &json!(1)), Err("a value is nested too deeply".to_owned()), "{source}");
    }
}

#[test]
fn a_number_of_very_many_digits_is_not_read_at_each_step() {
    let digits = |count: usize| serde_json::from_str::<Value>(&format!("1.{}", "5".repeat(count))).unwrap();
    let x =
        json!({"list": (0..5_000).collect::<Vec<_>>(), "short": digits(1_000), "long": digits(1_000_000)});
    assert_eq!(evaluate("x.list.all(i, x.short > 1.5)", &x), Ok(Outcome::Bool(true)));
    // It is a double that is no number, which compares with none.
    assert_eq!(evaluate("x.list.all(i, x.long > 1.5 || x.long <= 1.5)", &x), Ok(Outcome::Bool(false)));
    assert_eq!(evaluate("x.list.all(i, type(x.long) == double)", &x), Ok(Outcome::Bool(true)));
}

#[test]
fn a_pattern_costs_more_the_larger_it_is() {
    let x = json!("a".repeat(1_000));
    let many = |pattern: &str| format!("[1,2,3,4,5,6,7,8,9,10].all(i, x.matches('{pattern}'))");
    assert_eq!(evaluate(&many("^a*$"), &x), Ok(Outcome::Bool(true)));
    assert_eq!(evaluate(&many("^[a-z]{1000}$"), &x), Err(EXHAUSTED.to_owned()));
    assert!(Expression::compile(r"x.matches('(\\w{1,100}){1,100}')", &["x"]).is_err());
}

#[test]
fn any_source_is_compiled_or_refused() {
    for source in [
        "\0",
        "'\0'",
        "\u{feff}true",
        "//",
        "true // comment",
        "'''",
        "r'\\",
        "0x",
        "1e999 > 1.0",
        "0xFFFFFFFFFFFFFFFFF",
        "-",
        "!",
        "?",
        "a ? b",
        "{",
        "{'a'}",
        "[,]",
        "[?]",
        "{?}",
        "x.?",
        "x[?",
        ".",
        "..",
        "x..y",
        "`x`",
        "x.`y`",
        "in",
        "x in",
        "\\",
        "'\\u{110000}'",
        "'\\uD800'",
        "'\\400'",
        "1u1",
        "1.",
        ".5 > 0.0",
        "@",
        "@result",
        "x@y",
        "_&&_(x, x)",
        "@in(1, [1])",
        "__comprehension__",
        "has()",
        "optional.of",
        "optional.none().x",
        "x.map",
        "x.optMap(y)",
        "true\r\n&& true",
    ] {
        match Expression::compile(source, &["x"]) {
            Ok(expression) => _ = expression.evaluate(&Scope::new().with("x", &json!({}))),
            Err(message) => {
                assert!(!message.is_empty() && !message.contains(char::is_control), "{source}: {message}");
            }
        }
    }
}

const EXPRESSIONS: [&str; 28] = [
    "x.exists(s, s.a == 'x' && s.b.exists(c, c.type == 'T'))",
    "x.filter(s, has(s.a)).map(s, s.a)[0] + '!'",
    "x.?a.?b[?0].orValue(x)",
    "toJson(x)",
    "dig(x, 'a.0.b') == dig(x, 'b.a')",
    "x.a + x.b",
    "x.a - x.b",
    "x.a * x.b",
    "x.a / x.b",
    "x.a % x.b",
    "-x.a",
    "x.a < x.b",
    "x.a == x.b",
    "x.a in x.b",
    "x[x.a]",
    "x.a[x.b]",
    "x.map(k, x[k]).map(v, [v, v]) == [x]",
    "{x.a: x.b}",
    "int(x.a) + int(x.b)",
    "uint(x.a) - uint(x.b)",
    "double(x.a) / double(x.b)",
    "string(x.a) + string(x.b)",
    "bool(x.a) && bool(x.b)",
    "size(x) + size(x.a)",
    "x.a.contains(x.b) || x.a.startsWith(x.b) || x.a.endsWith(x.b) || x.a.matches('^[a-c]*$')",
    "optional.ofNonZeroValue(x.a).optMap(y, y + y).or(x.?b).value()",
    "x.all(a, x.all(b, x.all(c, a != b || b != c)))",
    "(x + x + x)[2] == x[2]",
];

static COMPILED: LazyLock<Vec<Expression>> = LazyLock::new(|| EXPRESSIONS.map(compile).into());

fn json_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(|n| json!(n)),
        any::<u64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        prop::sample::select(vec!["0", "-1", "9223372036854775807", "-9223372036854775808", "1e400", "0.0"])
            .prop_map(|n| serde_json::from_str(n).unwrap()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        prop_oneof![".*", "[abc]{0,3}"].prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let key = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("type".to_owned()), ".*"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn no_document_makes_an_evaluation_panic(x in json_value()) {
        for expression in &*COMPILED {
            if let Err(message) = expression.evaluate(&Scope::new().with("x", &x)) {
                prop_assert!(message.chars().count() <= 256 && !message.contains(char::is_control));
            }
        }
    }

    #[test]
    fn equal_documents_give_equal_outcomes(x in json_value()) {
        let again = serde_json::from_str(&x.to_string()).unwrap();
        for expression in &*COMPILED {
            let evaluate = |x| expression.evaluate(&Scope::new().with("x", x));
            prop_assert_eq!(evaluate(&x), evaluate(&again), "{:?}", expression);
        }
    }

    #[test]
    fn no_source_makes_a_compilation_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "x", ".", "a", "?", "[", "]", "(", ")", "{", "}", ",", ":", "'s'", "1", "1.5", "2u", "+", "-", "!", "==", "<",
                "in", "&&", "||", " ", "\n", "map", "exists", "has", "optional", "orValue", "dig", "toJson", "null", "true", "é", "\0", "'",
            ]),
            0..24,
        ),
    ) {
        if let Ok(expression) = Expression::compile(&parts.concat(), &["x"]) {
            _ = expression.evaluate(&Scope::new().with("x", &json!({"a": [1, "s", {"a": 2}]})));
        }
    }
}
