//! Conversions and comparisons of JSON values, by value and not by spelling: `1` and `1.0` are equal.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two numbers are equal by value.
pub(crate) fn numbers_equal(a: &Number, b: &Number) -> bool {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a == b,
        _ => compare_numbers(a, b) == Some(Ordering::Equal),
    }
}

/// Whether two values are equal, their numbers by value.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => numbers_equal(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// The order of two numbers.
pub(crate) fn compare_numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// A value as a person would write it in one line.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// As text: what is not text is written as JSON.
pub(crate) fn to_text(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => Value::String(other.to_string()),
    }
}

/// As a whole number: a number is cut, a text is read.
pub(crate) fn to_integer(value: &Value) -> Option<Value> {
    let real = |real: f64| (real.is_finite() && real.abs() < 9.3e18).then_some(real.trunc() as i64);
    let whole = match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(real))?,
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| text.parse().ok().and_then(real))?
        }
        Value::Bool(held) => i64::from(*held),
        _ => return None,
    };
    Some(Value::from(whole))
}

/// As a number.
pub(crate) fn to_real(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => Number::from_f64(text.trim().parse().ok()?).map(Value::Number),
        Value::Bool(held) => Some(Value::from(i64::from(*held))),
        _ => None,
    }
}

/// As a truth value.
pub(crate) fn to_bool(value: &Value) -> Option<Value> {
    let held = match value {
        Value::Bool(held) => *held,
        Value::Number(number) => number.as_f64()? != 0.0,
        Value::String(text) => match text.trim().to_lowercase().as_str() {
            "true" | "t" | "1" | "yes" | "y" | "on" => true,
            "false" | "f" | "0" | "no" | "n" | "off" | "" => false,
            _ => return None,
        },
        _ => return None,
    };
    Some(Value::Bool(held))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_equal_by_value_at_any_depth() {
        assert!(equal(&json!({"a": [1, 2.5]}), &json!({"a": [1.0, 2.5]})));
        assert!(!equal(&json!(1), &json!("1")));
        assert!(!equal(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992_i64)));
    }

    #[test]
    fn values_convert_as_params_declare() {
        assert_eq!(to_integer(&json!("42")), Some(json!(42)));
        assert_eq!(to_integer(&json!(3.9)), Some(json!(3)));
        assert_eq!(to_integer(&json!("x")), None);
        assert_eq!(to_text(&json!(1_000_000)), json!("1000000"));
        assert_eq!(to_bool(&json!("Yes")), Some(json!(true)));
        assert_eq!(to_bool(&json!("maybe")), None);
        assert_eq!(to_real(&json!("1.5")).unwrap().as_f64(), Some(1.5));
    }
}
