//! Resources and changes as columns, one array each, for the statements that write many at once.

use chrono::{DateTime, Utc};
use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Phase, RawJson, Resource, ResourceId, Timestamp};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::ancestors;

/// Wide rows.
#[derive(Default)]
pub(super) struct Columns<'a> {
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    names: Vec<&'a str>,
    owners: Vec<Option<Uuid>>,
    ancestors: Vec<String>,
    generations: Vec<i64>,
    specs: Vec<&'a str>,
    labels: Vec<&'a str>,
    references: Vec<&'a str>,
    created_times: Vec<DateTime<Utc>>,
    created_by: Vec<&'a str>,
    updated_times: Vec<DateTime<Utc>>,
    updated_by: Vec<&'a str>,
    deleted_times: Vec<Option<DateTime<Utc>>>,
    deleted_by: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(resources: &[&'a Resource]) -> Self {
        let mut columns = Self::default();
        for r in resources {
            columns.ids.push(r.id.uuid());
            columns.kinds.push(&r.kind);
            columns.names.push(&r.name);
            columns.owners.push(r.owner().map(ResourceId::uuid));
            columns.ancestors.push(ancestors::print(r));
            columns.generations.push(r.generation);
            columns.specs.push(r.spec.as_str());
            columns.labels.push(r.labels.as_str());
            columns.references.push(r.references.as_str());
            columns.created_times.push(r.created.at.utc());
            columns.created_by.push(&r.created.by);
            columns.updated_times.push(r.updated.at.utc());
            columns.updated_by.push(&r.updated.by);
            let deleted = match &r.phase {
                Phase::Active => None,
                Phase::Finalizing(stamp) => Some(stamp),
            };
            columns.deleted_times.push(deleted.map(|stamp| stamp.at.utc()));
            columns.deleted_by.push(deleted.map(|stamp| stamp.by.as_str()));
        }
        columns
    }

    /// In the order of `insert_resources`.
    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.ids,
            &self.kinds,
            &self.names,
            &self.owners,
            &self.ancestors,
            &self.generations,
            &self.specs,
            &self.labels,
            &self.references,
            &self.created_times,
            &self.created_by,
            &self.updated_times,
            &self.updated_by,
            &self.deleted_times,
            &self.deleted_by,
        ]
    }

    /// In the order of `update_resources`: what can change.
    pub(super) fn changing(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.ids,
            &self.generations,
            &self.specs,
            &self.labels,
            &self.references,
            &self.updated_times,
            &self.updated_by,
            &self.deleted_times,
            &self.deleted_by,
        ]
    }
}

/// Narrow rows.
pub(super) struct StatusColumns<'a> {
    ids: Vec<Uuid>,
    versions: Vec<i64>,
    conditions: Vec<&'a str>,
    pending_since: Vec<Option<DateTime<Utc>>>,
}

impl<'a> StatusColumns<'a> {
    pub(super) fn of(resources: &[&'a Resource]) -> Self {
        Self {
            ids: resources.iter().map(|r| r.id.uuid()).collect(),
            versions: resources.iter().map(|r| r.version.0).collect(),
            conditions: resources.iter().map(|r| r.conditions.as_str()).collect(),
            pending_since: resources.iter().map(|r| r.pending_since.map(Timestamp::utc)).collect(),
        }
    }

    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.ids, &self.versions, &self.conditions, &self.pending_since]
    }
}

/// Change rows.
pub(super) struct ChangeColumns<'a> {
    versions: Vec<i64>,
    resources: Vec<Uuid>,
    kinds: Vec<&'a str>,
    times: Vec<DateTime<Utc>>,
    actors: Vec<&'a str>,
    request_ids: Vec<&'a str>,
    entries: Vec<String>,
}

impl<'a> ChangeColumns<'a> {
    pub(super) fn of(set: &'a WorkingSet) -> Self {
        let changes = set.changes();
        Self {
            versions: changes.iter().map(|c| c.version.0).collect(),
            resources: changes.iter().map(|c| c.resource.uuid()).collect(),
            kinds: changes.iter().map(|c| &*c.kind).collect(),
            times: changes.iter().map(|c| c.at.utc()).collect(),
            actors: changes.iter().map(|c| c.actor.as_str()).collect(),
            request_ids: changes.iter().map(|c| c.request_id.as_str()).collect(),
            entries: changes
                .iter()
                .map(|c| RawJson::from_value(&c.entries))
                .map(|raw| raw.as_str().to_owned())
                .collect(),
        }
    }

    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.versions,
            &self.resources,
            &self.kinds,
            &self.times,
            &self.actors,
            &self.request_ids,
            &self.entries,
        ]
    }
}
