//! The meaning of a filter a second time, on the JSON that the API shows: slow, and without a line of the first.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use hyperfleet_core::search::{
    Comparison, ConditionPart, Field, Filter, Literal, Piece, Predicate, Test, TextColumn, TimeColumn,
};
use serde_json::Value;

use crate::naive::written_out;

/// Whether the resource that is shown as `shown` is meant.
pub(super) fn matches(filter: &Filter, shown: &Value, tenancy: &BTreeMap<String, String>) -> bool {
    match filter {
        Filter::And(parts) => {
            parts.iter().filter(|part| matches(part, shown, tenancy)).count() == parts.len()
        }
        Filter::Or(parts) => parts.iter().filter(|part| matches(part, shown, tenancy)).count() > 0,
        Filter::Not(inner) => !matches(inner, shown, tenancy),
        Filter::Test(Test { field, predicate }) => passes(&value(field, shown, tenancy), predicate),
        Filter::OfTenant(tenant) => {
            serde_json::from_str::<Value>(tenant.as_str()).unwrap() == shown["tenancy"]
        }
        Filter::RefersTo { ref_type, target } => {
            let targets = shown["references"][ref_type].as_array().into_iter().flatten();
            targets.map(|reference| &reference["id"]).any(|id| *id == target.to_string())
        }
    }
}

/// The value of a field; null where there is none.
fn value(field: &Field, shown: &Value, tenancy: &BTreeMap<String, String>) -> Value {
    match field {
        Field::Text(column) => match column {
            TextColumn::OwnerId => shown["owner_references"]["id"].clone(),
            TextColumn::OwnerKind => shown["owner_references"]["kind"].clone(),
            column => shown[TextColumn::ALL.iter().find(|(_, other)| other == column).unwrap().0].clone(),
        },
        Field::Generation => shown["generation"].clone(),
        Field::Time(column) => {
            shown[TimeColumn::ALL.iter().find(|(_, other)| other == column).unwrap().0].clone()
        }
        Field::Label(key) => shown["labels"][key].clone(),
        Field::Spec(path) => {
            let tokens: Vec<String> =
                path.iter().map(|segment| segment.key.replace('~', "~0").replace('/', "~1")).collect();
            shown["spec"].pointer(&format!("/{}", tokens.join("/"))).cloned().unwrap_or_default()
        }
        Field::Condition { kind, part } => {
            let member = ConditionPart::ALL.iter().find(|(_, other)| other == part).unwrap().0;
            let conditions = shown["status"]["conditions"].as_array().unwrap();
            conditions.iter().find(|c| c["type"] == **kind).map(|c| c[member].clone()).unwrap_or_default()
        }
        Field::Tenancy(key) => tenancy.get(key).map(|value| Value::from(value.as_str())).unwrap_or_default(),
    }
}

fn passes(value: &Value, predicate: &Predicate) -> bool {
    if let Predicate::IsNull { negated } = predicate {
        return value.is_null() != *negated;
    }
    match predicate {
        _ if value.is_null() => false,
        Predicate::Compare(comparison, literal) => {
            compare(value, literal).is_some_and(|order| match comparison {
                Comparison::Equal => order == Ordering::Equal,
                Comparison::NotEqual => order != Ordering::Equal,
                Comparison::Less => order == Ordering::Less,
                Comparison::LessOrEqual => order != Ordering::Greater,
                Comparison::Greater => order == Ordering::Greater,
                Comparison::GreaterOrEqual => order != Ordering::Less,
            })
        }
        Predicate::In { values, negated } => {
            let orders: Vec<_> = values.iter().filter_map(|literal| compare(value, literal)).collect();
            !orders.is_empty() && orders.contains(&Ordering::Equal) != *negated
        }
        Predicate::Between { low, high, negated } => match (compare(value, low), compare(value, high)) {
            (Some(low), Some(high)) => (low != Ordering::Less && high != Ordering::Greater) != *negated,
            _ => false,
        },
        Predicate::Like { pattern, ignores_case, negated } => value.as_str().is_some_and(|text| {
            let text: Vec<char> =
                text.chars().map(|c| if *ignores_case { c.to_ascii_lowercase() } else { c }).collect();
            fits(pattern.pieces(), &text) != *negated
        }),
        Predicate::IsNull { .. } => unreachable!(),
    }
}

/// `None` for different types. Times are shown in a form that sorts as text.
fn compare(value: &Value, literal: &Literal) -> Option<Ordering> {
    match (value, literal) {
        (Value::String(text), Literal::Text(literal)) => Some(text.chars().cmp(literal.chars())),
        (Value::String(text), Literal::Time(literal)) => Some(text.as_str().cmp(&literal.to_string())),
        (Value::Bool(value), Literal::Bool(literal)) => Some(value.cmp(literal)),
        (Value::Number(number), Literal::Number(literal)) => {
            Some(compare_numbers(number.as_str(), &literal.to_string()))
        }
        _ => None,
    }
}

/// Both written out in full, with as many digits on either side of the point.
pub(super) fn compare_numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (written_out(a), written_out(b));
    let whole = a.1.len().max(b.1.len());
    let fraction = a.2.len().max(b.2.len());
    let padded = |number: &(bool, String, String)| format!("{:0>whole$}{:0<fraction$}", number.1, number.2);
    match (a.0, b.0) {
        (false, false) => padded(&a).cmp(&padded(&b)),
        (true, true) => padded(&b).cmp(&padded(&a)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// Every way to split the text is tried.
pub(super) fn fits(pieces: &[Piece], text: &[char]) -> bool {
    match pieces {
        [] => text.is_empty(),
        [Piece::AnyOne, rest @ ..] => !text.is_empty() && fits(rest, &text[1..]),
        [Piece::AnyRun, rest @ ..] => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        [Piece::Text(plain), rest @ ..] => {
            let plain: Vec<char> = plain.chars().collect();
            text.starts_with(&plain) && fits(rest, &text[plain.len()..])
        }
    }
}
