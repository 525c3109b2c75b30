//! What an execution did, for logs, traces and dry runs.

use serde_json::{Map, Value};

/// The record of an execution.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// Parameters and captured values.
    pub params: Map<String, Value>,
    /// Preconditions, in order.
    pub preconditions: Vec<PreconditionRecord>,
    /// Resources, in order.
    pub resources: Vec<ResourceRecord>,
    /// Objects as expressions see them.
    pub objects: Map<String, Value>,
    /// Post actions, in order.
    pub actions: Vec<ActionRecord>,
    /// Calls of the task to the API, in order.
    pub calls: Vec<CallRecord>,
    /// Errors by phase, in order.
    pub errors: Vec<(&'static str, String)>,
    /// Messages that the task logs.
    pub logs: Vec<(&'static str, String)>,
    /// Values that could not be computed and were left out.
    pub warnings: Vec<String>,
    /// The last report that was sent.
    pub report: Option<Value>,
    /// Why it was sent instead of the author's.
    pub fallback: Option<String>,
    /// Conditions that the framework corrected.
    pub corrected: Vec<&'static str>,
    /// Why `Finalized` was withheld.
    pub withheld: Option<(&'static str, String)>,
    /// Whether resources were left alone, and why.
    pub skipped: Option<String>,
}

/// The record of a precondition.
#[derive(Debug, Clone)]
pub struct PreconditionRecord {
    /// Its name.
    pub name: String,
    /// Whether it is met.
    pub matched: bool,
    /// Why it could not be told.
    pub error: Option<String>,
    /// What it captured.
    pub captured: Map<String, Value>,
}

/// The record of a declared resource.
#[derive(Debug, Clone)]
pub struct ResourceRecord {
    /// Its name in the task.
    pub name: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub object: String,
    /// `create`, `update`, `recreate`, `skip`, `delete` or `hold`.
    pub operation: &'static str,
    /// Why.
    pub reason: String,
    /// Why it failed.
    pub error: Option<String>,
    /// The rendered manifest.
    pub manifest: Option<Value>,
}

/// The record of a post action.
#[derive(Debug, Clone)]
pub struct ActionRecord {
    /// Its name.
    pub name: String,
    /// Why it was skipped.
    pub skipped: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

/// The record of a call to the API.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The method.
    pub method: &'static str,
    /// Path and query.
    pub path: String,
    /// The status of the answer; 0 without one.
    pub status: u16,
    /// The body of the request.
    pub request: Option<String>,
    /// The body of the answer.
    pub response: String,
}
