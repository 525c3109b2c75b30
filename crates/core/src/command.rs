//! Commands as data, checked for shape but not yet against the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::json_patch::Operation;
use crate::{
    AccessScope, Error, ExpectedVersion, Idempotency, Labels, References, Resource, ResourceId, Submission,
};

/// The member with what a resource refers to.
const REFERENCES: &str = "references";

/// The caller of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The identity recorded in audit fields.
    pub actor: String,
    /// The request's id, recorded with every change.
    pub request_id: String,
    /// The resources that the caller may access.
    pub scope: AccessScope,
}

/// A request to change the store.
#[derive(Debug, Clone)]
pub struct Command {
    /// The caller.
    pub caller: Caller,
    /// Decide and return the outcome, but write nothing.
    pub dry_run: bool,
    /// The command itself.
    pub intent: Intent,
    /// Set for a request with an idempotency key, which must not be executed twice.
    pub idempotency: Option<Idempotency>,
}

/// The command itself.
#[derive(Debug, Clone)]
pub enum Intent {
    /// Make a resource.
    Create(Create),
    /// Change one.
    Patch(Patch),
    /// Request a deletion.
    Delete(Delete),
    /// Remove a resource that does not finish finalizing.
    ForceDelete(ForceDelete),
    /// Store an adapter's report.
    Report(SubmitReport),
    /// Recompute the conditions of these resources by the current configuration.
    Recompute(Vec<ResourceId>),
}

/// The resource that a path names: kind, id and owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourcePath {
    /// The kind the path demands; `None` where any kind will do.
    pub kind: Option<Arc<str>>,
    /// The id in the path. It is text, because a malformed id is simply not found.
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
    pub target: ResourcePath,
    /// The version the caller has seen.
    pub expected: Option<ExpectedVersion>,
    /// The change.
    pub body: Arc<PatchBody>,
    /// A spec that was checked against its schema beforehand, because the check takes long. It counts when the patch
    /// leads to this spec.
    pub checked: Option<Arc<Value>>,
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
    pub target: ResourcePath,
    /// The version the caller has seen.
    pub expected: Option<ExpectedVersion>,
}

/// Remove a finalizing resource and everything below it.
#[derive(Debug, Clone)]
pub struct ForceDelete {
    /// Which resource.
    pub target: ResourcePath,
    /// The version the caller has seen.
    pub expected: Option<ExpectedVersion>,
    /// Why, for the audit record.
    pub reason: String,
}

/// Store an adapter's report on a resource.
#[derive(Debug, Clone)]
pub struct SubmitReport {
    /// Which resource.
    pub target: ResourcePath,
    /// The report.
    pub submission: Submission,
}

impl ResourcePath {
    /// Whether the path names this resource: its kind and its owners must match too.
    pub fn names(&self, resource: &Resource) -> bool {
        let owners = resource.ancestors.iter().rev().zip(self.ancestors.iter().rev());
        self.kind.as_ref().is_none_or(|kind| *kind == resource.kind)
            && resource.ancestors.len() >= self.ancestors.len()
            && owners.into_iter().all(|(is, (_, named))| is.to_string() == *named)
    }

    /// One step of the walk along the owners of a path, outermost first: the id of `found`, if it is the owner that the
    /// path names below the one before.
    pub fn check_owner(
        (kind, id): &(Arc<str>, String),
        before: Option<ResourceId>,
        found: Option<&Resource>,
    ) -> Result<ResourceId, Error> {
        let found = found.filter(|r| r.kind == *kind && (before.is_none() || r.owner() == before));
        found.map(|owner| owner.id).ok_or_else(|| Error::not_found(kind, id))
    }
}

impl PatchBody {
    /// Every id that the change could refer to.
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
