//! A step made concrete: who is asked for what, with real ids and values. It can be sent over HTTP (method, path,
//! body) or translated to calls of the rules, and it can be written by hand where a test needs exact values.

use chrono::{DateTime, SecondsFormat, Timelike as _, Utc};
use serde_json::{Map, Value, json};

use super::operation::Available;
use super::state::Slot;
use super::view::BASE;

/// One owner on the way from the root to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its kind in paths.
    pub plural: String,
    /// Its id.
    pub id: String,
    /// Its place in the model.
    pub slot: Slot,
}

/// One condition of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportCondition {
    /// `type`.
    pub type_: String,
    /// `status`.
    pub status: Available,
    /// `reason`, when given.
    pub reason: Option<String>,
    /// `message`, when given.
    pub message: Option<String>,
}

impl ReportCondition {
    /// A condition without reason and message.
    pub fn new(type_: &str, status: Available) -> Self {
        Self { type_: type_.into(), status, reason: None, message: None }
    }

    fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("type".into(), json!(self.type_));
        body.insert("status".into(), json!(self.status.as_str()));
        if let Some(reason) = &self.reason {
            body.insert("reason".into(), json!(reason));
        }
        if let Some(message) = &self.message {
            body.insert("message".into(), json!(message));
        }
        Value::Object(body)
    }
}

/// A report with real values.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// `adapter`.
    pub adapter: String,
    /// `observed_generation`.
    pub observed_generation: u64,
    /// `observed_time`, possibly finer than a microsecond. The model does not refuse one that lies far ahead of the
    /// present.
    pub observed_time: DateTime<Utc>,
    /// `conditions`, in the order sent.
    pub conditions: Vec<ReportCondition>,
    /// `data`, when sent; may be null.
    pub data: Option<Value>,
    /// `metadata`, when sent; may be null.
    pub metadata: Option<Value>,
}

impl Report {
    /// The request body.
    pub fn body(&self) -> Value {
        let finer = !self.observed_time.nanosecond().is_multiple_of(1_000);
        let digits = if finer { SecondsFormat::Nanos } else { SecondsFormat::Micros };
        let mut body = Map::new();
        body.insert("adapter".into(), json!(self.adapter));
        body.insert("observed_generation".into(), json!(self.observed_generation));
        body.insert("observed_time".into(), json!(self.observed_time.to_rfc3339_opts(digits, true)));
        body.insert("conditions".into(), self.conditions.iter().map(ReportCondition::body).collect());
        if let Some(data) = &self.data {
            body.insert("data".into(), data.clone());
        }
        if let Some(metadata) = &self.metadata {
            body.insert("metadata".into(), metadata.clone());
        }
        Value::Object(body)
    }
}

/// The action of the request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// POST of a new resource.
    Create {
        /// Its name.
        name: String,
        /// `spec.size`.
        size: u64,
        /// Reference type and what it points at.
        reference: Option<(String, Slot, String)>,
    },
    /// PATCH of `spec.size`.
    PatchSpec {
        /// The value.
        size: u64,
    },
    /// PATCH of `labels.tier`.
    PatchLabels {
        /// The value.
        tier: String,
    },
    /// PATCH of `references`.
    PatchReference {
        /// Reference type and what it points at; `None` empties all references.
        to: Option<(String, Slot, String)>,
    },
    /// PUT of a report.
    Report(Report),
    /// DELETE.
    Delete,
    /// POST to `force-delete`.
    ForceDelete {
        /// Why; empty is invalid.
        reason: String,
    },
}

/// A concrete request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The kind's name.
    pub kind: String,
    /// The kind in paths.
    pub plural: String,
    /// The resource; `None` when it is to be made.
    pub target: Option<(Slot, String)>,
    /// Its owners, the root first.
    pub owners: Vec<Owner>,
    /// The action of the request.
    pub action: Action,
}

impl Request {
    /// The HTTP method.
    pub fn method(&self) -> &'static str {
        match self.action {
            Action::Create { .. } | Action::ForceDelete { .. } => "POST",
            Action::PatchSpec { .. } | Action::PatchLabels { .. } | Action::PatchReference { .. } => "PATCH",
            Action::Report(_) => "PUT",
            Action::Delete => "DELETE",
        }
    }

    /// The shortest path: flat, or for a creation directly below the owner.
    pub fn path(&self) -> String {
        let owners = match self.action {
            Action::Create { .. } => &self.owners[self.owners.len().saturating_sub(1)..],
            _ => &[],
        };
        self.path_below(owners)
    }

    /// The path below all owners.
    pub fn nested_path(&self) -> String {
        self.path_below(&self.owners)
    }

    fn path_below(&self, owners: &[Owner]) -> String {
        let mut path = String::from(BASE);
        for owner in owners {
            path.extend(["/", &owner.plural, "/", &owner.id]);
        }
        path.extend(["/", &self.plural]);
        if let Some((_, id)) = &self.target {
            path.extend(["/", id]);
        }
        path.push_str(match self.action {
            Action::Report(_) => "/statuses",
            Action::ForceDelete { .. } => "/force-delete",
            _ => "",
        });
        path
    }

    /// The body, where the request has one.
    pub fn body(&self) -> Option<Value> {
        let entry = |(ref_type, _, id): &(String, Slot, String)| json!({ref_type: [{"id": id}]});
        Some(match &self.action {
            Action::Create { name, size, reference } => {
                let mut body = json!({"kind": self.kind, "name": name, "spec": {"size": size}});
                if let Some(reference) = reference {
                    body["references"] = entry(reference);
                }
                body
            }
            Action::PatchSpec { size } => json!({"spec": {"size": size}}),
            Action::PatchLabels { tier } => json!({"labels": {"tier": tier}}),
            Action::PatchReference { to } => json!({"references": to.as_ref().map(entry)}),
            Action::Report(report) => report.body(),
            Action::Delete => return None,
            Action::ForceDelete { reason } => json!({"reason": reason}),
        })
    }
}
