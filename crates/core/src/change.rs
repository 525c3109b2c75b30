//! Changes of a resource, as the change feed and the timeline store them. They are written in the transaction of the
//! change itself, so history cannot disagree with the data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{FieldChange, ResourceId, Snapshot, Tenant, Timestamp, Undo, Version};

/// One kind of event in a resource's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The resource was created.
    Created,
    /// Its spec changed.
    SpecChanged,
    /// Its labels changed.
    LabelsChanged,
    /// Its references changed.
    ReferencesChanged,
    /// An adapter reported something new.
    ReportChanged,
    /// The status of one of its conditions changed.
    ConditionChanged,
    /// Its deletion was requested.
    DeletionRequested,
    /// The resource was removed, because its deletion was complete.
    Deleted,
    /// The resource was removed by a force-delete.
    ForceDeleted,
}

/// One entry of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// Field by field.
    pub changes: Vec<FieldChange>,
    /// The adapter that reported; with a changed condition, the one whose report changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Arc<str>>,
    /// The condition whose status changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The reason given for a force-delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a force-delete removed besides the resource itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ResourceId>,
    /// Resources whose references to it a force-delete dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_references_of: Vec<ResourceId>,
}

impl Entry {
    /// An entry with its field changes.
    pub fn new(action: Action, changes: Vec<FieldChange>) -> Self {
        Self {
            action,
            changes,
            adapter: None,
            condition: None,
            reason: None,
            removed: Vec::new(),
            dropped_references_of: Vec::new(),
        }
    }
}

/// The bit of [`Change::touched`] for a removal.
const REMOVED: i32 = 128;

/// Everything one commit did to one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The version the resource got.
    pub version: Version,
    /// Which resource.
    pub resource: ResourceId,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its tenant, which access checks need after the removal too.
    pub tenancy: Option<Tenant>,
    /// The time of the change.
    pub at: Timestamp,
    /// The identity of the caller.
    pub actor: String,
    /// The id of the request.
    pub request_id: String,
    /// What happened, in order.
    pub entries: Vec<Entry>,
    /// Leads back to the state before the change; `None` for a creation.
    pub undo: Option<Undo>,
    /// The whole resource, if the change removed it.
    pub last: Option<Box<Snapshot>>,
}

impl Change {
    /// The members of the resource that changed, a bit for each, and whether it was removed.
    pub fn touched(&self) -> i32 {
        self.undo.as_ref().map_or(0, Undo::touched) | if self.last.is_some() { REMOVED } else { 0 }
    }
}
