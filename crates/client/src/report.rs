//! Reports of adapters: those that are there, and one to send.

use hyperfleet_core::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::resource::{Condition, Status, text, time};

/// A stored report.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterReport(Map<String, Value>);

/// A report to send.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewReport {
    /// The name of the adapter.
    pub adapter: String,
    /// On which generation.
    pub observed_generation: i64,
    /// As of when; without it, as of its arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_time: Option<Timestamp>,
    /// What was found.
    pub conditions: Vec<NewCondition>,
    /// Further data of the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// About the work itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewCondition {
    /// The type: `Available`, `Applied` and `Health` must be there.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, for machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The outcome of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Reported {
    /// The report was stored.
    Stored(AdapterReport),
    /// The server has a newer one, or cannot use it.
    Discarded,
}

impl NewCondition {
    /// A finding without reasons.
    pub fn new(kind: impl Into<String>, status: Status) -> Self {
        Self { kind: kind.into(), status, reason: None, message: None }
    }
}

impl AdapterReport {
    /// The name of the adapter.
    pub fn adapter(&self) -> &str {
        text(&self.0, "adapter")
    }

    /// On which generation.
    pub fn observed_generation(&self) -> i64 {
        self.0.get("observed_generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// What was found.
    pub fn conditions(&self) -> Vec<Condition> {
        let conditions = self.0.get("conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().map(Condition::of).collect()
    }

    /// One finding.
    pub fn condition(&self, kind: &str) -> Option<Condition> {
        self.conditions().into_iter().find(|condition| condition.kind == kind)
    }

    /// Further data of the adapter.
    pub fn data(&self) -> Option<&Value> {
        self.0.get("data")
    }

    /// About the work itself.
    pub fn metadata(&self) -> Option<&Value> {
        self.0.get("metadata")
    }

    /// When the adapter first reported.
    pub fn created_time(&self) -> Option<Timestamp> {
        time(self.0.get("created_time"))
    }

    /// When the adapter last reported.
    pub fn last_report_time(&self) -> Option<Timestamp> {
        time(self.0.get("last_report_time"))
    }

    /// Every member as it came.
    pub fn raw(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl Serialize for AdapterReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AdapterReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::deserialize(deserializer)?;
        match members.get("adapter") {
            Some(Value::String(_)) => Ok(Self(members)),
            _ => Err(serde::de::Error::custom("a report names its adapter")),
        }
    }
}
