//! From the rows of the database to steps: the newest state of each resource, and one change after the other undone.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use hyperfleet_core::{Catalog, Resource, ResourceId, Snapshot, Timestamp, Undo, Version};

use super::Step;
use crate::COLUMNS;
use crate::failure::{Failure, FailureKind};

/// The columns of a change behind those of its resource.
const CHANGE: &str = "c.version, c.resource_id, c.at, c.undo, c.last";

/// The changes after `$1`, at most `$2` of them, and all later ones of the same resources, because the way to a state
/// leads back from the newest one. That comes with its own change, once. Behind the columns: the newest version, up to
/// where the past is forgotten, and how far this goes.
pub(crate) static PAGE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with page as materialized (
             select version, resource_id from changes where version > $1 order by version limit $2
         ), ids as materialized (
             select distinct resource_id from page
         )
         select {COLUMNS}, {CHANGE}, f.version, h.forgotten,
                case when (select count(*) from page) < $2 then f.version
                     else (select max(version) from page) end
         from feed f
         join history h on true
         left join ids i on true
         left join changes c on c.resource_id = i.resource_id and c.version > $1
         left join resource_status s on s.resource_id = c.resource_id and s.version = c.version
         left join resources r on r.id = s.resource_id
         order by c.version"
    )
});

/// The newest state of the resources `$1`, with all their changes after `$2`.
pub(crate) static STATES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {COLUMNS}, {CHANGE}
         from (select 1) one
         left join changes c on c.resource_id = $1 and c.version > $2
         left join resource_status s on s.resource_id = $1 and s.version = coalesce(c.version, s.version)
         left join resources r on r.id = s.resource_id
         order by c.version"
    )
});

/// One change.
#[derive(Debug)]
pub(crate) struct ChangeRow {
    pub(crate) version: Version,
    pub(crate) resource: ResourceId,
    pub(crate) at: Timestamp,
    pub(crate) undo: Option<Undo>,
    pub(crate) last: Option<Snapshot>,
}

impl ChangeRow {
    /// Reads what the store kept.
    pub(crate) fn new(
        version: i64,
        resource: ResourceId,
        at: Timestamp,
        undo: Option<&str>,
        last: Option<&str>,
    ) -> Result<Self, Failure> {
        let defect = |error| Failure::new(FailureKind::Defect, format!("change {version}: {error}"));
        let undo = undo.map(serde_json::from_str).transpose().map_err(defect)?;
        let last = last.map(serde_json::from_str).transpose().map_err(defect)?;
        Ok(Self { version: Version(version), resource, at, undo, last })
    }
}

/// A change, and the resource as it is if this is its newest.
#[derive(Debug)]
pub(crate) struct TrailRow {
    pub(crate) current: Option<Resource>,
    pub(crate) change: Option<ChangeRow>,
}

/// A stretch of the feed as the database gave it, in the order of versions.
#[derive(Debug)]
pub(crate) struct Trail {
    /// The newest version there is.
    pub(crate) newest: Version,
    /// Up to where the past is forgotten.
    pub(crate) forgotten: Version,
    /// How far this stretch goes.
    pub(crate) through: Version,
    pub(crate) rows: Vec<TrailRow>,
}

impl Trail {
    /// The steps of this stretch. Resources whose kind is not configured any more make none.
    pub(super) fn steps(self, catalog: &Catalog) -> Vec<Step> {
        let mut by_resource: HashMap<ResourceId, Vec<TrailRow>> = HashMap::new();
        for row in self.rows {
            if let Some(change) = &row.change {
                by_resource.entry(change.resource).or_default().push(row);
            }
        }
        let mut steps: Vec<Step> = by_resource.into_values().flat_map(|rows| rewind(rows, catalog)).collect();
        steps.retain(|step| step.version <= self.through);
        steps.sort_unstable_by_key(|step| step.version);
        steps
    }
}

/// The steps of one resource, newest first.
fn rewind(rows: Vec<TrailRow>, catalog: &Catalog) -> Vec<Step> {
    let mut steps = Vec::with_capacity(rows.len());
    let mut state: Option<Arc<Resource>> = None;
    for TrailRow { current, change } in rows.into_iter().rev() {
        let Some(change) = change else { continue };
        let gone = change.last.is_some();
        let newest = || current.or_else(|| change.last?.into_resource(catalog)).map(Arc::new);
        let Some(after) = state.or_else(newest) else { return Vec::new() };
        let before = change.undo.map(|undo| Arc::new(undo.of(&after)));
        state = before.clone();
        steps.push(Step { version: change.version, at: change.at, before, after, gone });
        if state.is_none() {
            break;
        }
    }
    steps
}

/// The state that one resource had before all of `rows`.
pub(super) fn state_before(mut rows: Vec<TrailRow>, catalog: &Catalog) -> Option<Arc<Resource>> {
    if let [TrailRow { change: None, current }] = rows.as_mut_slice() {
        return current.take().map(Arc::new);
    }
    rewind(rows, catalog).pop()?.before
}
