//! Commands as data: what a caller wants done, checked for shape but not yet against the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::json_patch::Operation;
use crate::{IfMatch, Labels, References, ResourceId, Retry, Sight, Submission};

/// The member with what a resource refers to.
const REFERENCES: &str = "references";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The identity recorded in audit fields.
    pub actor: String,
    /// The request's id, recorded with every change.
    pub request_id: String,
    /// What exists for them.
    pub sight: Sight,
}

/// A wish to change the store.
#[derive(Debug, Clone)]
pub struct Command {
    /// Who asks.
    pub caller: Caller,
    /// Decide and answer, but write nothing.
    pub dry_run: bool,
    /// What is asked for.
    pub intent: Intent,
    /// Set if the same may be asked again and must not be done again.
    pub retry: Option<Retry>,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub enum Intent {
    /// Make a resource.
    Create(Create),
    /// Change one.
    Patch(Patch),
    /// Request a deletion.
    Delete(Delete),
    /// Remove what does not finish finalizing.
    ForceDelete(ForceDelete),
    /// Take in what an adapter says.
    Report(SubmitReport),
    /// Compute the conditions of these resources anew, by the configuration of now.
    Recompute(Vec<ResourceId>),
}

/// Which resource a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind the path demands; `None` where any kind will do.
    pub kind: Option<Arc<str>>,
    /// The id in the path. Text, because an id of another form is simply nobody's.
    pub id: String,
    /// The owners that the path names, outermost first: kind and id.
    pub ancestors: Vec<(Arc<str>, String)>,
}

/// Make a resource of a kind below the owner that the path names.
#[derive(Debug, Clone)]
pub struct Create {
    /// The id it gets.
    pub id: ResourceId,
    /// The kind.
    pub kind: Arc<str>,
    /// The owners that the path names, outermost first; the last is the direct owner.
    pub ancestors: Vec<(Arc<str>, String)>,
    /// The name, checked.
    pub name: String,
    /// The spec: a checked JSON object.
    pub spec: Value,
    /// The labels, checked.
    pub labels: Labels,
    /// The references, checked for shape and counts.
    pub references: References,
}

/// Change spec, labels, references.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Which resource.
    pub target: Target,
    /// The version the caller has seen.
    pub if_match: Option<IfMatch>,
    /// The change.
    pub body: PatchBody,
}

/// The two languages in which a change is written.
#[derive(Debug, Clone)]
pub enum PatchBody {
    /// RFC 7396: an object with some of `spec`, `labels`, `references`.
    Merge(serde_json::Map<String, Value>),
    /// RFC 6902: operations on a document with these three members.
    Json(Vec<Operation>),
}

/// Request a deletion.
#[derive(Debug, Clone)]
pub struct Delete {
    /// Which resource.
    pub target: Target,
    /// The version the caller has seen.
    pub if_match: Option<IfMatch>,
}

/// Remove a finalizing resource and everything below it.
#[derive(Debug, Clone)]
pub struct ForceDelete {
    /// Which resource.
    pub target: Target,
    /// The version the caller has seen.
    pub if_match: Option<IfMatch>,
    /// Why, for the audit record.
    pub reason: String,
}

/// Take in what an adapter says about a resource.
#[derive(Debug, Clone)]
pub struct SubmitReport {
    /// Which resource.
    pub target: Target,
    /// What the adapter says.
    pub submission: Submission,
}

impl PatchBody {
    /// Whether references may be others behind the change.
    pub fn touches_references(&self) -> bool {
        match self {
            Self::Merge(members) => members.contains_key(REFERENCES),
            Self::Json(operations) => operations.iter().any(|operation| operation.touches(REFERENCES)),
        }
    }

    /// Every id that the change could make a reference to.
    pub(crate) fn mentioned_ids(&self) -> BTreeSet<ResourceId> {
        let mut ids = BTreeSet::new();
        match self {
            Self::Merge(members) => {
                members.get(REFERENCES).into_iter().for_each(|v| collect_ids(v, &mut ids));
            }
            Self::Json(operations) => {
                operations.iter().filter_map(Operation::value).for_each(|v| collect_ids(v, &mut ids));
            }
        }
        ids
    }
}

fn collect_ids(value: &Value, ids: &mut BTreeSet<ResourceId>) {
    match value {
        Value::String(text) => ids.extend(ResourceId::parse(text)),
        Value::Array(items) => items.iter().for_each(|v| collect_ids(v, ids)),
        Value::Object(members) => members.values().for_each(|v| collect_ids(v, ids)),
        _ => {}
    }
}
