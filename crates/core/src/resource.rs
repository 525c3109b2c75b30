//! The resource: a wish with its generation, and what is known about its fulfilment. The parts
//! that the server only passes through (spec, labels, references, conditions) stay JSON text;
//! the rules parse what they need.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{RawJson, ResourceId, Tenant, Timestamp, Version};

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
}

/// Where a resource is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// In use.
    Active,
    /// Deletion was requested and is not finished.
    Finalizing(Stamp),
}

/// Where a name must be the only one of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Among all that have no owner, of one tenant.
    Root(Option<Tenant>),
    /// Among the children of an owner.
    Below(ResourceId),
}

impl fmt::Display for Place {
    /// As the stores' index on names has it: the owner, or else the tenant.
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
    /// Whom it belongs to, where tenants are kept apart.
    pub tenancy: Option<Tenant>,
    /// Its owners from the root down; the last one is the direct owner. Empty for a root.
    pub ancestors: Vec<ResourceId>,
    /// Grows with every change of the wish.
    pub generation: i64,
    /// The wish: a JSON object.
    pub spec: RawJson,
    /// A JSON object of texts.
    pub labels: RawJson,
    /// A JSON object: ref type → ids.
    pub references: RawJson,
    /// Who made it.
    pub created: Stamp,
    /// Who last changed it.
    pub updated: Stamp,
    /// Where it is in its life.
    pub phase: Phase,
    /// A JSON array of [`crate::Condition`].
    pub conditions: RawJson,
    /// Since when the world does not match the wish; `None` while it does.
    pub pending_since: Option<Timestamp>,
    /// The version of the last write that changed it.
    pub version: Version,
}

impl Resource {
    /// The direct owner.
    pub fn owner(&self) -> Option<ResourceId> {
        self.ancestors.last().copied()
    }

    /// Where its name must be the only one of its kind.
    pub fn place(&self) -> Place {
        match self.owner() {
            Some(owner) => Place::Below(owner),
            None => Place::Root(self.tenancy.clone()),
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

    /// Whether `other` says the same apart from conditions and version: what callers write, not
    /// what aggregation does.
    pub fn same_wish(&self, other: &Self) -> bool {
        self.generation == other.generation
            && self.updated == other.updated
            && self.phase == other.phase
            && self.labels == other.labels
            && self.references == other.references
            && self.spec == other.spec
    }
}
