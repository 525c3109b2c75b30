//! The model's state as the API shows it: JSON with the members, order and time format of the contract. Members that
//! the model does not know (who did it) are left out.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use super::conditions::Condition;
use super::state::{Model, Phase, Slot, StoredCondition, StoredReport};

/// The prefix of every path.
pub(super) const BASE: &str = "/api/hyperfleet/v1";

/// A time as the API writes it: UTC with six fractional digits.
pub(super) fn time_text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// An existing resource as the model expects it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceView {
    /// Its place in the model.
    pub slot: Slot,
    /// Its kind.
    pub kind: String,
    /// Its kind in paths.
    pub plural: String,
    /// Its id.
    pub id: String,
    /// Its generation.
    pub generation: u64,
    /// Where it is in its life.
    pub phase: Phase,
    /// The whole `status.conditions` array.
    pub conditions: Value,
    /// The items of its `statuses` list, in order.
    pub statuses: Vec<Value>,
    /// The resource as the API returns it, without `created_by`, `updated_by` and `deleted_by`.
    pub document: Value,
}

impl Model {
    /// Every existing resource, in the order of creation.
    pub fn resources(&self) -> Vec<ResourceView> {
        self.living().into_iter().filter_map(|slot| self.resource(slot)).collect()
    }

    /// The resource of a slot, while it exists.
    pub fn resource(&self, slot: Slot) -> Option<ResourceView> {
        let entry = self.entries.get(slot.0)?;
        let state = entry.state.as_ref()?;
        let document = self.document(slot)?;
        Some(ResourceView {
            slot,
            kind: entry.kind.clone(),
            plural: self.kind_of(slot)?.plural.clone(),
            id: entry.id.clone(),
            generation: state.generation,
            phase: state.phase,
            conditions: document["status"]["conditions"].clone(),
            statuses: state.reports.iter().map(|(adapter, stored)| status_item(adapter, stored)).collect(),
            document,
        })
    }

    pub(super) fn document(&self, slot: Slot) -> Option<Value> {
        let entry = self.entries.get(slot.0)?;
        let state = entry.state.as_ref()?;
        let mut document = json!({
            "kind": entry.kind,
            "id": entry.id,
            "href": self.href(slot),
            "name": entry.name,
            "generation": state.generation,
            "spec": {"size": state.size},
            "labels": {},
            "created_time": time_text(state.created),
            "updated_time": time_text(state.updated),
        });
        if let Some(tier) = &state.tier {
            document["labels"] = json!({"tier": tier});
        }
        if let Phase::Finalizing(at) = state.phase {
            document["deleted_time"] = json!(time_text(at));
        }
        if let Some(parent) = entry.parent {
            document["owner_references"] = self.pointer(parent);
        }
        for (ref_type, &target) in &state.references {
            document["references"][ref_type] = json!([self.pointer(target)]);
        }
        let mut conditions: Vec<Value> = state.conditions.iter().map(condition_item).collect();
        if let Some(legacy) = &state.legacy {
            conditions.splice(2..2, legacy.items());
        }
        document["status"] = json!({"conditions": conditions});
        Some(document)
    }

    fn pointer(&self, slot: Slot) -> Value {
        let entry = &self.entries[slot.0];
        json!({"kind": entry.kind, "id": entry.id, "href": self.href(slot)})
    }

    fn href(&self, slot: Slot) -> String {
        let plural = self.kind_of(slot).map_or("", |kind| &*kind.plural);
        format!("{BASE}/{plural}/{}", self.entries[slot.0].id)
    }

    /// The stored report of an adapter as the API returns it.
    pub(super) fn status_item(&self, slot: Slot, adapter: &str) -> Option<Value> {
        Some(status_item(adapter, self.state(slot)?.reports.get(adapter)?))
    }
}

fn condition_item(condition: &Condition) -> Value {
    json!({
        "type": condition.type_,
        "status": if condition.content.status { "True" } else { "False" },
        "reason": condition.content.reason,
        "message": condition.content.message,
        "observed_generation": condition.observed_generation,
        "created_time": time_text(condition.created),
        "last_updated_time": time_text(condition.updated),
        "last_transition_time": time_text(condition.transition),
    })
}

fn status_item(adapter: &str, stored: &StoredReport) -> Value {
    let mut item = json!({
        "adapter": adapter,
        "observed_generation": stored.generation,
        "conditions": stored.conditions.iter().map(reported_condition).collect::<Vec<_>>(),
        "data": stored.data,
        "created_time": time_text(stored.created),
        "last_report_time": time_text(stored.reported),
    });
    if let Some(metadata) = &stored.metadata {
        item["metadata"] = metadata.clone();
    }
    item
}

fn reported_condition(condition: &StoredCondition) -> Value {
    let mut item = Map::new();
    item.insert("type".into(), json!(condition.type_));
    item.insert("status".into(), json!(condition.status.as_str()));
    if let Some(reason) = &condition.reason {
        item.insert("reason".into(), json!(reason));
    }
    if let Some(message) = &condition.message {
        item.insert("message".into(), json!(message));
    }
    item.insert("last_transition_time".into(), json!(time_text(condition.transition)));
    Value::Object(item)
}

/// Where `actual` differs from `expected`, one line for each place. A member that `expected` does not have may be
/// anything; arrays must have the same length. Use `assert_eq!` where nothing is left open.
pub fn mismatches(expected: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", expected, actual, &mut found);
    found
}

fn compare(path: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (name, member) in expected {
                compare(&format!("{path}.{name}"), member, actual.get(name).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                compare(&format!("{path}[{index}]"), expected, actual, found);
            }
        }
        _ if expected == actual => {}
        _ => found.push(format!("{path}: expected {expected}, found {actual}")),
    }
}
