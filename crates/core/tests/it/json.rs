//! Equality by value, and numbers that survive: checked against numbers written out in full.

use hyperfleet_core::{RawJson, same};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

use crate::{cases, naive};

/// Any spelling of a number that JSON allows, with exponents that can be written out.
fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?"
}

/// Spellings of few values, so that equal ones meet.
fn close_number() -> impl Strategy<Value = String> {
    "-?(0|1|10|12|100)(\\.(0|00|2|20|02))?([eE][+-]?0?[0-3])?"
}

/// The same number, spelled another way.
fn respelled(number: &str, shift: usize, left: bool) -> String {
    let lower = number.to_lowercase();
    let (mantissa, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
    let exponent: i64 = exponent.parse().unwrap();
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, fraction, exponent) = if left {
        let whole = format!("{}{whole}", "0".repeat(shift + 1));
        let (kept, moved) = whole.split_at(whole.len() - shift);
        (kept.to_owned(), format!("{moved}{fraction}0"), exponent + shift as i64)
    } else {
        let fraction = format!("{fraction}{}", "0".repeat(shift));
        let (moved, kept) = fraction.split_at(shift);
        (format!("{whole}{moved}"), format!("{kept}0"), exponent - shift as i64)
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    format!("{sign}{whole}.{fraction}E{exponent}")
}

fn value() -> impl Strategy<Value = Value> {
    let text = select(vec!["", "a", "1", "é\u{1F600}"]);
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        4 => close_number().prop_map(|number| parse(&number)),
        1 => text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((text.clone(), inner), 0..3).prop_map(|members| members
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The same value with every object's members the other way round.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(members) => {
            members.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect::<Map<_, _>>().into()
        }
        plain => plain.clone(),
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn numbers_are_the_same_exactly_when_they_are_written_out_alike(a in close_number(), b in close_number()) {
        prop_assert_eq!(same(&parse(&a), &parse(&b)), naive::written_out(&a) == naive::written_out(&b));
    }

    #[test]
    fn long_numbers_are_the_same_exactly_when_they_are_written_out_alike(a in number(), b in number()) {
        prop_assert_eq!(same(&parse(&a), &parse(&b)), naive::written_out(&a) == naive::written_out(&b));
    }

    #[test]
    fn another_spelling_is_the_same_number_and_another_last_digit_is_not(
        a in number(), shift in 0..25_usize, left in any::<bool>(),
    ) {
        let other = respelled(&a, shift, left);
        prop_assert!(same(&parse(&a), &parse(&other)), "{} = {}", a, other);
        let (mantissa, exponent) = other.split_once('E').unwrap();
        let near = format!("{mantissa}1E{exponent}");
        prop_assert!(!same(&parse(&a), &parse(&near)), "{} ≠ {}", a, near);
    }

    #[test]
    fn any_number_comes_back_with_its_value(text in number()) {
        let stored = RawJson::from_value(&parse(&text));
        prop_assert_eq!(naive::written_out(stored.as_str()), naive::written_out(&text));
        prop_assert_eq!(RawJson::from_value(&stored.parse::<Value>().unwrap()), stored);
    }

    #[test]
    fn any_value_survives_storing_and_parsing(value in value()) {
        let stored = RawJson::from_value(&value);
        prop_assert!(naive::equal(&stored.parse().unwrap(), &value), "{:?} is not {}", stored, value);
        prop_assert_eq!(RawJson::from_value(&stored.parse::<Value>().unwrap()), stored);
    }

    #[test]
    fn sameness_is_an_equivalence_that_does_not_look_at_the_order_of_members(
        a in value(), b in value(), c in value(),
    ) {
        prop_assert!(same(&a, &a) && same(&a, &reversed(&a)));
        prop_assert_eq!(same(&a, &b), naive::equal(&a, &b));
        prop_assert_eq!(same(&a, &b), same(&b, &a));
        prop_assert_eq!(same(&reversed(&a), &b), same(&a, &b));
        prop_assert!(!(same(&a, &b) && same(&b, &c)) || same(&a, &c));
    }
}

#[test]
fn zero_is_zero_and_a_number_is_itself_however_large_the_exponent() {
    let huge = "9".repeat(40);
    for (a, b, equal) in [
        (format!("0e{huge}"), "0".to_owned(), true),
        (format!("-0.0e-{huge}"), "0e5".to_owned(), true),
        (format!("1e{huge}"), format!("1e+{huge}"), true),
        (format!("1e{huge}"), format!("1e-{huge}"), false),
        (format!("1e{huge}"), "1".to_owned(), false),
        ("1e000000000000000000000000000000000000000000002".to_owned(), "100".to_owned(), true),
        ("1e9223372036854775808".to_owned(), "10e9223372036854775807".to_owned(), true),
    ] {
        assert_eq!(same(&parse(&a), &parse(&b)), equal, "{a} and {b}");
        assert!(same(&RawJson::from_value(&parse(&a)).parse().unwrap(), &parse(&a)), "{a} survives");
    }
}
