//! A resource is found by its shown values: every field of the fleet, compared with every value that it has anywhere,
//! finds exactly the resources that an order computed from the answers names.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::*;

const PLAIN: [&str; 20] = [
    "id",
    "name",
    "kind",
    "href",
    "created_by",
    "updated_by",
    "deleted_by",
    "owner_id",
    "owner_kind",
    "generation",
    "created_time",
    "updated_time",
    "deleted_time",
    "labels.env",
    "labels.tier",
    "spec.region",
    "spec.size",
    "spec.ratio",
    "spec.on",
    "spec.list.0",
];
const CONDITIONS: [&str; 4] = ["Reconciled", "LastKnownReconciled", "ValidatorSuccessful", "DnsSuccessful"];
const PARTS: [&str; 6] =
    ["status", "reason", "message", "observed_generation", "last_updated_time", "last_transition_time"];

/// What the resource shows at the field; null for nothing.
fn shown(resource: &Value, field: &str) -> Value {
    let mut value = match field.split('.').next() {
        Some("owner_id") => return resource["owner_references"]["id"].clone(),
        Some("owner_kind") => return resource["owner_references"]["kind"].clone(),
        _ => resource.clone(),
    };
    for segment in field.split('.') {
        value = match value {
            Value::Array(items) if segment == "0" => items.into_iter().next().unwrap_or_default(),
            Value::Array(items) => items.into_iter().find(|item| item["type"] == segment).unwrap_or_default(),
            mut other => other.get_mut(segment).map(Value::take).unwrap_or_default(),
        };
    }
    value
}

/// A search, and how a value must stand to the one in it to be found.
type Form = (String, fn(Ordering) -> bool);

/// The order of two values of one type; none for values of two.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64().unwrap().partial_cmp(&b.as_f64().unwrap()),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        other => other.to_string(),
    }
}

async fn every_field_is_found_by_its_shown_value(app: &App) {
    Fleet::built(app).await;
    let whole = app.get("/resources?showDeleted=true&pageSize=500").await.expect_status(200).json();
    let resources = whole["items"].as_array().unwrap();
    let parts =
        CONDITIONS.iter().flat_map(|kind| PARTS.map(|part| format!("status.conditions.{kind}.{part}")));
    let fields: Vec<String> = PLAIN.map(str::to_owned).into_iter().chain(parts).collect();
    let mut wrong = Vec::new();
    for field in &fields {
        let values: Vec<Value> = resources.iter().map(|resource| shown(resource, field)).collect();
        let distinct: BTreeSet<String> = values.iter().filter(|v| !v.is_null()).map(literal).collect();
        assert!(!distinct.is_empty(), "no resource has {field}");
        for written in distinct.iter().take(3) {
            let value = values.iter().find(|value| literal(value) == *written).unwrap();
            let orders: Vec<Option<Ordering>> = values.iter().map(|other| order(other, value)).collect();
            let mut forms: Vec<Form> = vec![
                (format!("{field} = {written}"), Ordering::is_eq),
                (format!("{field} != {written}"), Ordering::is_ne),
                (format!("{field} in [{written}]"), Ordering::is_eq),
            ];
            if !value.is_boolean() {
                forms.push((format!("{field} < {written}"), Ordering::is_lt));
                forms.push((format!("{field} >= {written}"), Ordering::is_ge));
                forms.push((format!("{field} not between {written} and {written}"), Ordering::is_ne));
            }
            for (search, fits) in forms {
                let expected: BTreeSet<&str> = resources
                    .iter()
                    .zip(&orders)
                    .filter(|(_, order)| order.is_some_and(fits))
                    .map(|(resource, _)| id(resource))
                    .collect();
                let path = searched("/resources?showDeleted=true&pageSize=500&fields=id", &search);
                let list = app.get(&path).await.expect_status(200).json();
                let found: BTreeSet<&str> = list["items"].as_array().unwrap().iter().map(id).collect();
                if found != expected || list["total"] != expected.len() {
                    wrong.push(format!("{search}: {} instead of {}", found.len(), expected.len()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

both_stores!(config = CATALOG; every_field_is_found_by_its_shown_value);
