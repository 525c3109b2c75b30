//! Structured conditions: a field, an operator, a value. Numbers are equal by value.

use std::cmp::Ordering;

use serde_json::Value;

use crate::task::{Condition, Operator, Variables};
use crate::values::{compare_numbers, equal, plain};

/// What a condition came to: whether it holds, and a sentence for people when it does not.
pub(crate) fn evaluate(condition: &Condition, variables: &dyn Variables, as_go: bool) -> Result<(), Unmet> {
    let actual = condition.field.find_in(variables).unwrap_or_default();
    match holds(condition.operator, &actual, &condition.value, as_go) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let Condition { field, operator, value } = condition;
            let expected = if value.is_null() { String::new() } else { format!(" {}", plain(value)) };
            let (field, operator) = (field.source(), operator.name());
            Err(Unmet::No(format!("{field} {operator}{expected} (actual: {})", shown(&actual))))
        }
        Err(why) => {
            Err(Unmet::Error(format!("{} {}: {why}", condition.field.source(), condition.operator.name())))
        }
    }
}

/// Why a condition is not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// It does not hold.
    No(String),
    /// It could not be told.
    Error(String),
}

/// A value short enough for a message.
fn shown(value: &Value) -> String {
    let text = plain(value);
    match text.chars().count() {
        0..=128 => text,
        _ => format!("{}…", text.chars().take(128).collect::<String>()),
    }
}

fn holds(operator: Operator, actual: &Value, expected: &Value, as_go: bool) -> Result<bool, &'static str> {
    let same = |a: &Value, b: &Value| if as_go { go_equal(a, b) } else { equal(a, b) };
    let within = || match expected {
        Value::Array(items) => Ok(items.iter().any(|item| same(actual, item))),
        _ => Err("the value is no list"),
    };
    let order = || match (actual, expected) {
        (Value::Number(a), Value::Number(b)) => Ok(compare_numbers(a, b)),
        _ => Err("both sides must be numbers"),
    };
    Ok(match operator {
        Operator::Equals => same(actual, expected),
        Operator::NotEquals => !same(actual, expected),
        Operator::In => within()?,
        Operator::NotIn => !within()?,
        Operator::Contains => match (actual, expected) {
            (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
            (Value::Array(items), part) => items.iter().any(|item| same(item, part)),
            (Value::Object(members), Value::String(key)) => members.contains_key(key),
            _ => return Err("the field is no text, list or map"),
        },
        Operator::GreaterThan => order()? == Some(Ordering::Greater),
        Operator::GreaterThanOrEqual => order()?.is_some_and(Ordering::is_ge),
        Operator::LessThan => order()? == Some(Ordering::Less),
        Operator::LessThanOrEqual => order()?.is_some_and(Ordering::is_le),
        Operator::Exists => exists(actual),
        Operator::NotExists => !exists(actual),
    })
}

/// A number of an answer is a float in Go, one of a file an integer, and they are never equal.
fn go_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(b)) => {
            b.to_string().contains(['.', 'e', 'E']) && equal(a, &Value::Number(b.clone()))
        }
        _ => equal(a, b),
    }
}

fn exists(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operators_compare_by_value() {
        use Operator::*;
        for (actual, operator, expected, holds_) in [
            (json!(3), Equals, json!(3.0), Ok(true)),
            (json!("a"), NotEquals, json!("b"), Ok(true)),
            (json!(1.0), In, json!([1, 2]), Ok(true)),
            (json!("c"), NotIn, json!(["a"]), Ok(true)),
            (json!("abc"), Contains, json!("b"), Ok(true)),
            (json!([1]), Contains, json!(1.0), Ok(true)),
            (json!({"k": 1}), Contains, json!("k"), Ok(true)),
            (json!(2), GreaterThan, json!(1.5), Ok(true)),
            (json!(2), GreaterThanOrEqual, json!(2), Ok(true)),
            (json!(2), LessThan, json!(2), Ok(false)),
            (json!(2), LessThanOrEqual, json!(2.0), Ok(true)),
            (json!(""), Exists, json!(null), Ok(false)),
            (json!(false), Exists, json!(null), Ok(true)),
            (json!(null), NotExists, json!(null), Ok(true)),
        ] {
            assert_eq!(
                holds(operator, &actual, &expected, false),
                holds_,
                "{actual} {operator:?} {expected}"
            );
        }
        assert!(holds(GreaterThan, &json!("2"), &json!(1), false).is_err());
        assert_eq!(holds(Equals, &json!(3), &json!(3), true), Ok(false), "as Go does it");
    }
}
