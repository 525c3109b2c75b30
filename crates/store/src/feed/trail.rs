//! From the rows of the database to steps: the newest state of each resource, and one change after the other undone.

use std::sync::{Arc, LazyLock};

use hyperfleet_core::{
    Catalog, IdMap, Resource, ResourceId, Snapshot, Timestamp, Undo, Version, printed_size,
};

use super::Step;
use crate::COLUMNS;
use crate::failure::{Failure, FailureKind};
use crate::packed::Dictionaries;

/// The most that is read of the feed at once, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The columns of a change behind those of its resource.
const CHANGE: &str = "c.version, c.resource_id, c.at, c.packed, c.undo, c.last";

/// A row for each part of a resource that a change can touch.
const PARTS: &str =
    "parts (bit) as (values (1), (2), (4), (8), (16), (32), (64), (128), (256), (512), (1024), (2048),
    (4096), (8192), (16384), (32768), (65536))";

/// The first change of a resource after some version that touched a part, by changes_by_resource; PostgreSQL would
/// rather walk everyone's changes if it were not asked by rows.
fn first_to_touch(resource: &str, after: &str) -> String {
    format!(
        "(select c.version from changes c
          where (c.resource_id, c.version) > ({resource}, {after}) and c.resource_id = {resource}
              and c.touched & parts.bit <> 0
          order by c.resource_id, c.version limit 1)"
    )
}

/// The changes after `$1`, at most `$2` of them, and what the way back to them takes: the newest state of their
/// resources, and of later changes the first that touched each part. Behind the columns: the newest version, up to
/// where the past is forgotten, and how far this goes.
pub(crate) static PAGE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with page as materialized (
             select version, resource_id from changes where version > $1 order by version limit $2
         ), ids as materialized (
             select distinct resource_id from page
         ), far as materialized (
             select max(version) as version from page
         ), {PARTS}, wanted (version) as (
             select version from page
             union
             select {} from ids i, far, parts
             union
             select s.version from ids i join resource_status s on s.resource_id = i.resource_id
         )
         select {COLUMNS}, {CHANGE}, f.version, h.forgotten,
                case when (select count(*) from page) < $2 then f.version else (select version from far) end
         from feed f
         join history h on true
         left join wanted w on true
         left join changes c on c.version = w.version
         left join resource_status s on s.resource_id = c.resource_id and s.version = c.version
         left join resources r on r.id = s.resource_id
         order by c.version",
        first_to_touch("i.resource_id", "far.version")
    )
});

/// The newest state of the resource `$1`, and of its changes after `$2` the first that touched each part.
pub(crate) static STATES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with {PARTS}, wanted (version) as (
             select {} from parts
             union
             select s.version from resource_status s where s.resource_id = $1
         )
         select {COLUMNS}, {CHANGE}
         from wanted w
         left join changes c on c.version = w.version and c.version > $2
         left join resource_status s on s.resource_id = $1 and s.version = w.version
         left join resources r on r.id = s.resource_id
         order by w.version",
        first_to_touch("$1", "$2")
    )
});

/// A change as it is kept: with the way back.
#[derive(Debug)]
pub(crate) struct KeptChange {
    pub(crate) version: Version,
    pub(crate) resource: ResourceId,
    pub(crate) at: Timestamp,
    pub(crate) undo: Option<Undo>,
    pub(crate) last: Option<Snapshot>,
}

impl KeptChange {
    /// Reads what the store kept.
    pub(crate) fn new(
        dictionaries: &Dictionaries,
        version: i64,
        resource: ResourceId,
        at: Timestamp,
        packed: Option<&[u8]>,
        plain: [Option<&str>; 2],
    ) -> Result<Self, Failure> {
        let defect = |error| Failure::new(FailureKind::Defect, format!("change {version}: {error}"));
        let [undo, last] = plain;
        let [_, undo, last] = dictionaries.texts(packed, [None, undo, last])?;
        let undo = undo.as_deref().map(serde_json::from_str).transpose().map_err(defect)?;
        let last = last.as_deref().map(serde_json::from_str).transpose().map_err(defect)?;
        Ok(Self { version: Version(version), resource, at, undo, last })
    }
}

/// A change, and the resource as it is if this is its newest.
#[derive(Debug)]
pub(crate) struct TrailRow {
    pub(crate) current: Option<Resource>,
    pub(crate) change: Option<KeptChange>,
}

impl TrailRow {
    fn size(&self) -> usize {
        let undo = |change: &KeptChange| {
            change.undo.as_ref().map_or(0, Undo::size) + change.last.as_ref().map_or(0, Snapshot::size)
        };
        self.current.as_ref().map_or(0, printed_size) + self.change.as_ref().map_or(0, undo)
    }
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
    bytes: usize,
}

impl Trail {
    /// One that has yet to be read.
    pub(crate) fn behind(position: Version) -> Self {
        Self {
            newest: position,
            forgotten: Version::default(),
            through: position,
            rows: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes a row in; false if that is more than can be held.
    #[must_use]
    pub(crate) fn take(&mut self, row: TrailRow) -> bool {
        self.bytes += row.size();
        self.rows.push(row);
        self.bytes <= MAX_BYTES
    }

    /// The steps of this stretch. Resources whose kind is not configured any more make none.
    pub(super) fn steps(self, catalog: &Catalog) -> Vec<Step> {
        let mut by_resource: IdMap<Vec<TrailRow>> = IdMap::default();
        for row in self.rows {
            if let Some(change) = &row.change {
                by_resource.entry(change.resource).or_default().push(row);
            }
        }
        let rewound = by_resource.into_values().flat_map(|rows| rewind(rows, catalog, self.through));
        let mut steps: Vec<Step> = rewound.collect();
        steps.sort_unstable_by_key(|step| step.version);
        steps
    }
}

/// The newest state that one resource has or had.
fn newest(rows: &mut [TrailRow], catalog: &Catalog) -> Option<Resource> {
    let current = rows.iter_mut().find_map(|row| row.current.take());
    let last = || rows.iter().find_map(|row| row.change.as_ref()?.last.clone())?.into_resource(catalog);
    current.or_else(last)
}

/// The steps of one resource up to `through`, newest first, by its changes in the order of versions.
fn rewind(mut rows: Vec<TrailRow>, catalog: &Catalog, through: Version) -> Vec<Step> {
    let mut steps = Vec::with_capacity(rows.len());
    let mut state = newest(&mut rows, catalog).map(Arc::new);
    for change in rows.into_iter().rev().filter_map(|row| row.change) {
        let Some(after) = state else { break };
        let before = change.undo.map(|undo| Arc::new(undo.of(&after)));
        state = before.clone();
        if change.version <= through {
            // Changes that touched nothing else were passed over on the way.
            let after = Arc::new(Resource { version: change.version, ..(*after).clone() });
            let gone = change.last.is_some();
            steps.push(Step { version: change.version, at: change.at, before, after, gone });
        }
    }
    steps
}

/// The state that one resource had before all of `rows`, by its changes in the order of versions.
pub(super) fn state_before(mut rows: Vec<TrailRow>, catalog: &Catalog) -> Option<Resource> {
    let state = newest(&mut rows, catalog)?;
    let mut changes = rows.into_iter().rev().filter_map(|row| row.change);
    changes.try_fold(state, |after, change| Some(change.undo?.of(&after)))
}
