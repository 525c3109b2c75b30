//! Patterns, with and without look-around.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::generate::OPENAPI_3_1;
use super::{accepts, compile, model};
use crate::cases;

/// Parts put together at random.
fn pattern(atoms: Vec<&'static str>) -> impl Strategy<Value = String> {
    select(atoms).prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
        let many = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => many.clone().prop_map(|parts| parts.concat()),
            2 => many.prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => inner.clone().prop_map(|inner| format!("({inner})")),
            2 => (inner, select(vec!["*", "+", "?", "{2}", "{1,2}", "{0}", "*?", "+?", "{1,}"]))
                .prop_map(|(inner, count)| format!("(?:{inner}){count}")),
        ]
    })
}

fn plain() -> impl Strategy<Value = String> {
    pattern(vec![
        "a",
        "b",
        "1",
        "é",
        ".",
        "-",
        "_",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        "[ab]",
        "[^a]",
        "[a-c1]",
        r"[\d_]",
        r"[^\w]",
        r"[\W1]",
        r"[a\-z]",
        "[-a]",
        r"\.",
        r"\/",
        r"\u0061",
        r"\x62",
        r"\t",
        "^",
        "$",
        "[&&a]",
        "[a--b]",
        "[[a]",
        r"\cI",
        r"\n",
        r"[^\s\S]",
        r"\p{L}",
        r"[\P{L}a]",
    ])
}

/// The model reads escapes in patterns with look-around by another dialect, so there are few of them.
fn looking_around() -> impl Strategy<Value = String> {
    pattern(vec![
        "a",
        "b",
        "1",
        ".",
        "-",
        r"\d",
        r"\w",
        "[ab]",
        "[^a]",
        "^",
        "$",
        r"\b",
        r"\B",
        "(?=a)",
        "(?=b?1)",
        "(?!a|b)",
        r"(?=.*\d)",
        "(?!$)",
        "(?=a(?!b))",
        "(?<=a)",
        "(?<!b1)",
        r"(?<=[ab])",
        "(?<!^a)",
        "(?<=(?=a).)",
    ])
}

fn agree(pattern: &str, texts: Vec<String>) -> Result<(), TestCaseError> {
    let components = json!({"A": {"pattern": pattern}});
    let Some(model) = model(OPENAPI_3_1, &components) else { return Ok(()) };
    let schemas = compile(OPENAPI_3_1, &components).unwrap();
    for text in texts.into_iter().map(Value::from) {
        prop_assert_eq!(accepts(&schemas, &text), model.is_valid(&text), "{} by {}", text, pattern);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1_500))]

    #[test]
    fn a_pattern_matches_what_it_matches_elsewhere(
        pattern in plain(), texts in prop::collection::vec("[ab1é_ .\n-]{0,6}", 6),
    ) {
        agree(&pattern, texts)?;
    }

    #[test]
    fn look_around_finds_what_it_finds_elsewhere(
        pattern in looking_around(), texts in prop::collection::vec("[ab1_ .\n-]{0,6}", 6),
    ) {
        agree(&pattern, texts)?;
    }
}
