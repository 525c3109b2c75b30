//! JSON done the slow and obvious way: equality by writing every number out in full, RFC 7396 as
//! its pseudo code has it, RFC 6902 by rebuilding the document for each operation.

use serde_json::{Map, Value};

/// Equality by value, with numbers written out digit by digit.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => written_out(a.as_str()) == written_out(b.as_str()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && (0..a.len()).all(|i| equal(&a[i], &b[i])),
        (Value::Object(a), Value::Object(b)) => {
            let (mut a, mut b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
            a.sort_by_key(|(key, _)| *key);
            b.sort_by_key(|(key, _)| *key);
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && equal(a.1, b.1))
        }
        _ => a == b,
    }
}

/// A number without exponent: sign, whole digits, fraction digits, no zeros to spare. For
/// exponents of a few thousand at most.
pub(crate) fn written_out(number: &str) -> (bool, String, String) {
    let lower = number.to_lowercase();
    let (mantissa, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
    let exponent: i32 = exponent.trim_start_matches('+').parse().unwrap();
    let (whole, fraction) =
        mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa.trim_start_matches('-'), ""));
    let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
    for _ in 0..exponent.abs() {
        if exponent > 0 {
            whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
        } else {
            fraction.insert(0, whole.pop().unwrap_or('0'));
        }
    }
    let whole = whole.trim_start_matches('0').to_owned();
    let fraction = fraction.trim_end_matches('0').to_owned();
    let zero = whole.is_empty() && fraction.is_empty();
    (number.starts_with('-') && !zero, whole, fraction)
}

/// RFC 7396, section 2.
pub(crate) fn merge(target: Option<&Value>, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut result = target.and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, value) in patch {
        let old = result.remove(name);
        if !value.is_null() {
            result.insert(name.clone(), merge(old.as_ref(), value));
        }
    }
    Value::Object(result)
}

/// Why an operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    TestFailed,
    NoSuchPath,
}

/// RFC 6902 on well-formed operations.
pub(crate) fn patch(document: &Value, operations: &Value) -> Result<Value, Refusal> {
    let mut document = document.clone();
    for operation in operations.as_array().unwrap() {
        document = step(&document, operation)?;
    }
    Ok(document)
}

fn step(document: &Value, operation: &Value) -> Result<Value, Refusal> {
    let path = operation["path"].as_str().unwrap();
    let from = operation["from"].as_str().unwrap_or_default();
    let value = &operation["value"];
    let found = |at: &str| document.pointer(at).ok_or(Refusal::NoSuchPath);
    match operation["op"].as_str().unwrap() {
        "test" if equal(found(path)?, value) => Ok(document.clone()),
        "test" => Err(Refusal::TestFailed),
        "add" => edit(document, &tokens(path), &Edit::Add(value)).ok_or(Refusal::NoSuchPath),
        "remove" => edit(document, &tokens(path), &Edit::Remove).ok_or(Refusal::NoSuchPath),
        "replace" => {
            found(path)?;
            edit(document, &tokens(path), &Edit::Replace(value)).ok_or(Refusal::NoSuchPath)
        }
        "copy" => edit(document, &tokens(path), &Edit::Add(found(from)?)).ok_or(Refusal::NoSuchPath),
        "move" => {
            let value = found(from)?;
            if path.starts_with(&format!("{from}/")) {
                return Err(Refusal::NoSuchPath);
            }
            edit(document, &tokens(from), &Edit::Remove)
                .and_then(|rest| edit(&rest, &tokens(path), &Edit::Add(value)))
                .ok_or(Refusal::NoSuchPath)
        }
        other => panic!("no such operation: {other}"),
    }
}

enum Edit<'a> {
    Add(&'a Value),
    Replace(&'a Value),
    Remove,
}

fn tokens(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
}

fn edit(at: &Value, path: &[String], change: &Edit<'_>) -> Option<Value> {
    match (at, path) {
        (_, []) => Some(match change {
            Edit::Add(value) | Edit::Replace(value) => (*value).clone(),
            Edit::Remove => Value::Null,
        }),
        (Value::Object(members), [name, rest @ ..]) => {
            let mut members: Map<_, _> = members.clone();
            let old = members.remove(name);
            match (old, rest.is_empty(), change) {
                (old, true, Edit::Add(_)) => {
                    members.insert(name.clone(), edit(&old.unwrap_or_default(), rest, change)?)
                }
                (old, true, Edit::Remove) => Some(old?),
                (old, _, _) => members.insert(name.clone(), edit(&old?, rest, change)?),
            };
            Some(Value::Object(members))
        }
        (Value::Array(items), [position, rest @ ..]) => {
            let mut items = items.clone();
            let index = (0..=items.len())
                .find(|i| i.to_string() == *position)
                .or((position == "-").then_some(items.len()))?;
            match (rest.is_empty(), change) {
                (true, Edit::Add(value)) => items.insert(index, (*value).clone()),
                (true, Edit::Remove) if index < items.len() => {
                    items.remove(index);
                }
                _ => *items.get_mut(index)? = edit(items.get(index)?, rest, change)?,
            }
            Some(Value::Array(items))
        }
        _ => None,
    }
}
