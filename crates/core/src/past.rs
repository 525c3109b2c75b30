//! The past of a resource: what each change took away, and what was left when it went. From the newest state, undoing
//! one change after the other leads to the state after any version that history still holds; so nothing that did
//! not change is ever kept twice.

use serde::{Deserialize, Serialize};

use crate::diff::text_diff;
use crate::{
    Catalog, Error, FieldChange, Phase, RawJson, Resource, ResourceId, Stamp, Tenant, Timestamp, Version,
};

/// What a resource was before a change, as far as the change touched it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undo {
    version: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    references: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated: Option<Stamp>,
    /// Whether it was active and is not any more. There is no way back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    active: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conditions: Option<RawJson>,
}

impl Undo {
    /// What leads from `after` back to `before`.
    pub fn between(before: &Resource, after: &Resource) -> Self {
        let old = |old: &RawJson, new: &RawJson| (old != new).then(|| old.clone());
        Self {
            version: before.version,
            generation: (before.generation != after.generation).then_some(before.generation),
            spec: old(&before.spec, &after.spec),
            labels: old(&before.labels, &after.labels),
            references: old(&before.references, &after.references),
            updated: (before.updated != after.updated).then(|| before.updated.clone()),
            active: before.is_active() && !after.is_active(),
            conditions: old(&before.conditions, &after.conditions),
        }
    }

    /// Which parts it holds, a bit for each. The way back needs, for each part, only the first change that took it away.
    pub fn touched(&self) -> i32 {
        let parts = [
            self.generation.is_some(),
            self.spec.is_some(),
            self.labels.is_some(),
            self.references.is_some(),
            self.updated.is_some(),
            self.active,
            self.conditions.is_some(),
        ];
        parts.into_iter().enumerate().map(|(bit, touched)| i32::from(touched) << bit).sum()
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let parts = [&self.spec, &self.labels, &self.references, &self.conditions];
        parts.into_iter().flatten().map(|part| part.as_str().len()).sum::<usize>() + 256
    }

    /// The state before the change that led to `after`. Since when it waited then is not told.
    #[must_use]
    pub fn of(&self, after: &Resource) -> Resource {
        let mut before = Resource { version: self.version, pending_since: None, ..after.clone() };
        let replace = |place: &mut RawJson, old: &Option<RawJson>| {
            if let Some(old) = old {
                *place = old.clone();
            }
        };
        replace(&mut before.spec, &self.spec);
        replace(&mut before.labels, &self.labels);
        replace(&mut before.references, &self.references);
        replace(&mut before.conditions, &self.conditions);
        before.generation = self.generation.unwrap_or(after.generation);
        if let Some(updated) = &self.updated {
            before.updated = updated.clone();
        }
        if self.active {
            before.phase = Phase::Active;
        }
        before
    }
}

/// A whole resource as history keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    id: ResourceId,
    kind: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenancy: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ancestors: Vec<ResourceId>,
    generation: i64,
    spec: RawJson,
    labels: RawJson,
    references: RawJson,
    created: Stamp,
    updated: Stamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted: Option<Stamp>,
    conditions: RawJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending_since: Option<Timestamp>,
    version: Version,
}

impl Snapshot {
    /// The resource as it is.
    pub fn of(resource: &Resource) -> Self {
        let r = resource.clone();
        Self {
            id: r.id,
            kind: r.kind.to_string(),
            name: r.name,
            tenancy: r.tenancy.map(|tenant| tenant.to_string()),
            ancestors: r.ancestors,
            generation: r.generation,
            spec: r.spec,
            labels: r.labels,
            references: r.references,
            created: r.created,
            updated: r.updated,
            deleted: match r.phase {
                Phase::Active => None,
                Phase::Finalizing(stamp) => Some(stamp),
            },
            conditions: r.conditions,
            pending_since: r.pending_since,
            version: r.version,
        }
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let parts = [&self.spec, &self.labels, &self.references, &self.conditions];
        parts.into_iter().map(|part| part.as_str().len()).sum::<usize>() + 512
    }

    /// The resource as it was, unless its kind is not configured any more.
    pub fn into_resource(self, catalog: &Catalog) -> Option<Resource> {
        Some(Resource {
            id: self.id,
            kind: catalog.get(&self.kind)?.kind.clone(),
            name: self.name,
            tenancy: self.tenancy.as_deref().map(Tenant::from_stored),
            ancestors: self.ancestors,
            generation: self.generation,
            spec: self.spec,
            labels: self.labels,
            references: self.references,
            created: self.created,
            updated: self.updated,
            phase: self.deleted.map_or(Phase::Active, Phase::Finalizing),
            conditions: self.conditions,
            pending_since: self.pending_since,
            version: self.version,
        })
    }
}

/// What differs between two states of a resource in what callers wish: spec, labels and references, path by path.
pub fn wish_changes(from: &Resource, to: &Resource) -> Result<Vec<FieldChange>, Error> {
    let spec = text_diff("spec", &from.spec, &to.spec)?;
    let labels = text_diff("labels", &from.labels, &to.labels)?;
    let references = text_diff("references", &from.references, &to.references)?;
    Ok([spec, labels, references].concat())
}
