//! The resource: desired state with its generation, and conditions. Members that the server only passes through
//! (spec, labels, references, conditions) stay JSON text; the rules parse what they need.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{RawJson, ResourceId, Tenant, Timestamp, Version};

/// An identity, and when it acted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// When.
    pub at: Timestamp,
    /// The identity.
    pub by: String,
}

/// The phase of a resource's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// In use.
    Active,
    /// Deletion was requested and is not finished.
    Finalizing(Stamp),
}

/// The scope in which a name is unique among resources of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameScope {
    /// Resources without an owner, of one tenant.
    Root(Option<Tenant>),
    /// Children of an owner.
    Below(ResourceId),
}

impl fmt::Display for NameScope {
    /// The value in the stores' index on names: the owner, or else the tenant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(owner) => owner.fmt(f),
            Self::Root(Some(tenant)) => tenant.fmt(f),
            Self::Root(None) => Ok(()),
        }
    }
}

/// A stored resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its id.
    pub id: ResourceId,
    /// Its kind, as the catalog spells it.
    pub kind: Arc<str>,
    /// Its name, which never changes.
    pub name: String,
    /// Its tenant, if tenants are isolated.
    pub tenancy: Option<Tenant>,
    /// Its owners from the root down; the last one is the direct owner. Empty for a root.
    pub ancestors: Vec<ResourceId>,
    /// Increases with every change of the desired state.
    pub generation: i64,
    /// The desired state: a JSON object.
    pub spec: RawJson,
    /// A JSON object of texts.
    pub labels: RawJson,
    /// A JSON object: ref type → ids.
    pub references: RawJson,
    /// The creator, and when.
    pub created: Stamp,
    /// The author of the last change, and when.
    pub updated: Stamp,
    /// Where it is in its life.
    pub phase: Phase,
    /// A JSON array of [`crate::Condition`].
    pub conditions: RawJson,
    /// Since when the resource is not reconciled; `None` while it is.
    pub pending_since: Option<Timestamp>,
    /// The version of the last write that changed it.
    pub version: Version,
}

impl Resource {
    /// The direct owner.
    pub fn owner(&self) -> Option<ResourceId> {
        self.ancestors.last().copied()
    }

    /// The scope in which its name is unique.
    pub fn name_scope(&self) -> NameScope {
        match self.owner() {
            Some(owner) => NameScope::Below(owner),
            None => NameScope::Root(self.tenancy.clone()),
        }
    }

    /// Whether deletion was not requested.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The same resource with other conditions.
    #[must_use]
    pub(crate) fn with_conditions(&self, conditions: RawJson) -> Self {
        Self {
            conditions,
            id: self.id,
            kind: self.kind.clone(),
            name: self.name.clone(),
            tenancy: self.tenancy.clone(),
            ancestors: self.ancestors.clone(),
            generation: self.generation,
            spec: self.spec.clone(),
            labels: self.labels.clone(),
            references: self.references.clone(),
            created: self.created.clone(),
            updated: self.updated.clone(),
            phase: self.phase.clone(),
            pending_since: self.pending_since,
            version: self.version,
        }
    }

    /// Whether `other` is equal apart from conditions and version, which aggregation writes and callers do not.
    pub fn same_desired_state(&self, other: &Self) -> bool {
        self.generation == other.generation
            && self.updated == other.updated
            && self.phase == other.phase
            && self.labels == other.labels
            && self.references == other.references
            && self.spec == other.spec
    }
}
