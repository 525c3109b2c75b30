//! Resources and changes as columns, one array each, for the statements that write many at once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Change, Phase, Resource, ResourceId, Tenant, Timestamp, json_text};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::differences::Refreshed;
use crate::facets::{Facet, FacetRow};
use crate::failure::Failure;
use crate::moved::Moves;
use crate::packed::Dictionaries;
use crate::{ancestors, confirmed, past, shorthand};

/// Wide rows.
#[derive(Default)]
pub(super) struct Columns<'a> {
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    names: Vec<&'a str>,
    tenants: Vec<Option<&'a str>>,
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
            columns.tenants.push(r.tenancy.as_ref().map(Tenant::as_str));
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

    /// In the order of [`super::together::Write::NewResources`].
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
            &self.tenants,
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
    conditions: Vec<Cow<'a, str>>,
    pending_since: Vec<Option<DateTime<Utc>>>,
    confirmed_after: Vec<Option<DateTime<Utc>>>,
    tenancies: Vec<Option<&'a str>>,
}

impl<'a> StatusColumns<'a> {
    pub(super) fn of(resources: &[&'a Resource]) -> Result<Self, Failure> {
        let confirmed_after = resources.iter().map(|r| Ok(confirmed::of(r)?.map(Timestamp::utc)));
        Ok(Self {
            confirmed_after: confirmed_after.collect::<Result<_, Failure>>()?,
            ids: resources.iter().map(|r| r.id.uuid()).collect(),
            versions: resources.iter().map(|r| r.version.0).collect(),
            conditions: resources.iter().map(|r| shorthand::shorten(r.conditions.as_str())).collect(),
            pending_since: resources.iter().map(|r| r.pending_since.map(Timestamp::utc)).collect(),
            tenancies: resources.iter().map(|r| r.tenancy.as_ref().map(Tenant::as_str)).collect(),
        })
    }

    /// In the order of [`super::together::Write::NewStatuses`].
    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut all = self.changing();
        all.push(&self.tenancies);
        all
    }

    /// In the order of [`super::together::Write::Statuses`].
    pub(super) fn changing(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.ids, &self.versions, &self.conditions, &self.pending_since, &self.confirmed_after]
    }
}

/// The moved times of narrow rows.
pub(super) struct RefreshedColumns<'a> {
    pub(super) ids: Vec<Uuid>,
    confirmed_after: Vec<Option<DateTime<Utc>>>,
    /// When adapters reported.
    moved: Vec<Option<&'a str>>,
    /// The times of all rows, one row after the other, and the numbers of the last of each row.
    times: Vec<i64>,
    last: Vec<i32>,
    count: Vec<i32>,
}

impl<'a> RefreshedColumns<'a> {
    pub(super) fn of(refreshed: &[Refreshed<'_>], moves: &'a Moves<'_>) -> Self {
        let count = |r: &Refreshed<'_>| r.times.len() as i32;
        let last = |end: &mut i32, r: &Refreshed<'_>| {
            *end += count(r);
            Some(*end)
        };
        Self {
            ids: refreshed.iter().map(|r| r.id.uuid()).collect(),
            confirmed_after: refreshed.iter().map(|r| r.confirmed_after.map(Timestamp::utc)).collect(),
            moved: refreshed.iter().map(|r| moves.noted(r.id)).collect(),
            times: refreshed.iter().flat_map(|r| &r.times).map(|time| time.micros()).collect(),
            last: refreshed.iter().scan(0, last).collect(),
            count: refreshed.iter().map(count).collect(),
        }
    }

    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.ids, &self.confirmed_after, &self.moved, &self.last, &self.count, &self.times]
    }
}

/// Rows of facets.
pub(super) struct FacetColumns {
    pub(super) facets: Vec<Uuid>,
    created_times: Vec<DateTime<Utc>>,
    resources: Vec<Uuid>,
}

impl FacetColumns {
    pub(super) fn of(rows: &[FacetRow]) -> Self {
        Self {
            facets: rows.iter().map(|row| row.facet.uuid()).collect(),
            created_times: rows.iter().map(|row| row.created_time.utc()).collect(),
            resources: rows.iter().map(|row| row.resource.uuid()).collect(),
        }
    }

    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.facets, &self.created_times, &self.resources]
    }
}

/// By how much the numbers of facets changed.
pub(super) struct FacetCountColumns {
    pub(super) facets: Vec<Uuid>,
    active: Vec<i64>,
    finalizing: Vec<i64>,
}

impl FacetCountColumns {
    pub(super) fn of(counts: &BTreeMap<Facet, (i64, i64)>) -> Self {
        Self {
            facets: counts.keys().map(|facet| facet.uuid()).collect(),
            active: counts.values().map(|(active, _)| *active).collect(),
            finalizing: counts.values().map(|(_, finalizing)| *finalizing).collect(),
        }
    }

    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.facets, &self.active, &self.finalizing]
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
    packed: Vec<Vec<u8>>,
    sizes: Vec<i32>,
    tenancies: Vec<Option<&'a str>>,
    touched: Vec<i32>,
}

impl<'a> ChangeColumns<'a> {
    pub(super) fn of(dictionaries: &Dictionaries, set: &'a WorkingSet) -> Result<Self, Failure> {
        let changes = set.changes();
        Ok(Self {
            versions: changes.iter().map(|c| c.version.0).collect(),
            resources: changes.iter().map(|c| c.resource.uuid()).collect(),
            kinds: changes.iter().map(|c| &*c.kind).collect(),
            times: changes.iter().map(|c| c.at.utc()).collect(),
            actors: changes.iter().map(|c| c.actor.as_str()).collect(),
            request_ids: changes.iter().map(|c| c.request_id.as_str()).collect(),
            packed: changes.iter().map(|c| past::pack(dictionaries, c)).collect::<Result<_, Failure>>()?,
            sizes: changes.iter().map(|c| c.entries.len() as i32).collect(),
            touched: changes.iter().map(Change::touched).collect(),
            tenancies: changes.iter().map(|c| c.tenancy.as_ref().map(Tenant::as_str)).collect(),
        })
    }

    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.versions,
            &self.resources,
            &self.kinds,
            &self.times,
            &self.actors,
            &self.request_ids,
            &self.packed,
            &self.sizes,
            &self.tenancies,
            &self.touched,
        ]
    }
}

/// Answers to requests that may come again.
pub(super) struct AnswerColumns<'a> {
    pub(super) keys: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
    times: Vec<DateTime<Utc>>,
    answers: Vec<String>,
}

impl<'a> AnswerColumns<'a> {
    pub(super) fn of(set: &'a WorkingSet) -> Self {
        let mut columns =
            Self { keys: Vec::new(), bodies: Vec::new(), times: Vec::new(), answers: Vec::new() };
        for (key, kept) in set.new_answers() {
            columns.keys.push(key);
            columns.bodies.push(&kept.body);
            columns.times.push(kept.at.utc());
            columns.answers.push(json_text(&kept.answer));
        }
        columns
    }

    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.keys, &self.bodies, &self.times, &self.answers]
    }
}
