//! Parsing any text ends with a filter or with a fault at a position of the query.

use hyperfleet_core::Error;
use hyperfleet_core::search::{MAX_BYTES, Options, parse};
use proptest::prelude::*;
use proptest::sample::select;

use crate::cases;

const WORDS: &str = r#"
    name generation created_time labels.a labels[' spec.a[0] spec. status.conditions.Ready .reason
    and or not in like ilike between is null true false = != <> < >= ( ) [ ] , ' " ` 'a' '' \ 5 - . 1e 4Gi
    '2026-01-01' é 😀 ~ %
"#;

/// Words of the language and pieces of them, in any order.
fn soup() -> impl Strategy<Value = String> {
    let words: Vec<&str> = WORDS.split_whitespace().chain(["\0", "\n", "\u{feff}"]).collect();
    let piece = (select(words), prop_oneof![3 => Just(" "), 1 => Just("")]);
    prop::collection::vec(piece, 0..24)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(word, gap)| [word, gap]).collect())
}

fn assert_answered(query: &str) {
    let Err(error) = parse(query, Options { tenancy: true }) else { return };
    let length = query.chars().count();
    assert!((1..=length + 1).contains(&error.position()), "{} is no position in {query:?}", error.position());
    assert!(!error.fault().message.chars().any(char::is_control), "{error}");
    let shown = error.to_string();
    let lines: Vec<&str> = shown.split('\n').collect();
    let [_, excerpt, caret] = lines[..] else { panic!("{shown:?}") };
    let column = caret.chars().count() - 1;
    assert!(caret.ends_with('^') && column <= excerpt.chars().count(), "{shown}");
    let given = query.chars().nth(error.position() - 1);
    let under = excerpt.chars().nth(column);
    assert!(under == given || given.is_some_and(char::is_control), "{under:?} is not {given:?}\n{shown}");
    assert_eq!(Error::from(error).code(), "HYPERFLEET-VAL-004");
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn any_text_is_a_filter_or_a_mistake_at_a_place_of_it(query in any::<String>()) {
        assert_answered(&query);
    }

    #[test]
    fn any_words_are_a_filter_or_a_mistake_at_a_place_of_them(query in soup()) {
        assert_answered(&query);
    }

    #[test]
    fn any_value_behind_any_field_is_a_filter_or_a_mistake(
        field in select(&["name", "generation", "created_time", "spec.a", "status.conditions.A.last_updated_time"][..]),
        operator in select(&["=", "<", "in", "like", "between 'a' and", "is"][..]),
        value in "\\PC{0,12}",
    ) {
        assert_answered(&format!("{field} {operator} {value}"));
        assert_answered(&format!("{field} {operator} '{value}'"));
    }
}

#[test]
fn the_longest_queries_are_answered() {
    for piece in [
        "(",
        ")",
        "not ",
        "not(",
        "generation=1 or ",
        "generation=1 and ",
        "(generation=1 or ",
        "spec.",
        "spec[0]",
        "[",
        "'",
        "\\",
        "''",
        "a",
        "9",
        "-",
        "1e",
        ",",
        "é",
        "generation in [1,",
        "1,",
        "spec.a like '%_",
        "name between ",
        "\n",
    ] {
        for start in ["", "generation = ", "name = '", "generation in [", "spec", "labels['", "spec.a = "] {
            let fits = format!("{start}{}", piece.repeat((MAX_BYTES - start.len()) / piece.len()));
            assert_answered(&fits);
            assert_answered(&format!("{fits}{piece}{piece}"));
        }
    }
}
