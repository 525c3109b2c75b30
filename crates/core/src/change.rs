//! What happened to a resource, as the feed and the timeline keep it. Written in the transaction
//! of the change itself, so history can never disagree with the data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{FieldChange, ResourceId, Snapshot, Tenant, Timestamp, Undo, Version};

/// One kind of event in a resource's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It was made.
    Created,
    /// Its spec changed.
    SpecChanged,
    /// Its labels changed.
    LabelsChanged,
    /// Its references changed.
    ReferencesChanged,
    /// An adapter reported something new.
    ReportChanged,
    /// One of its conditions flipped.
    ConditionChanged,
    /// Somebody asked for its deletion.
    DeletionRequested,
    /// It is gone, because nothing was left to wait for.
    Deleted,
    /// It is gone, because somebody insisted.
    ForceDeleted,
}

/// One entry of a timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// Field by field.
    pub changes: Vec<FieldChange>,
    /// The adapter that reported; with a flipped condition, the one whose report flipped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Arc<str>>,
    /// The condition that flipped.
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

/// The bit of [`Change::touched`] that says that the resource went.
const WENT: i32 = 128;

/// Everything one commit did to one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The version the resource got.
    pub version: Version,
    /// Which resource.
    pub resource: ResourceId,
    /// Its kind.
    pub kind: Arc<str>,
    /// Whom it belongs to, which is to be known when it is gone, too.
    pub tenancy: Option<Tenant>,
    /// When.
    pub at: Timestamp,
    /// Who asked.
    pub actor: String,
    /// The request it came with.
    pub request_id: String,
    /// What happened, in order.
    pub entries: Vec<Entry>,
    /// The way back to what it was before; `None` if it was not there.
    pub undo: Option<Undo>,
    /// What was left of it when it went.
    pub last: Option<Box<Snapshot>>,
}

impl Change {
    /// Which parts of the resource it touched, a bit for each, and whether that went.
    pub fn touched(&self) -> i32 {
        self.undo.as_ref().map_or(0, Undo::touched) | if self.last.is_some() { WENT } else { 0 }
    }
}
