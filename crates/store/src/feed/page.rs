//! A page of the feed: from the newest state of each resource, undoing one change after the other restores the states
//! before and after each change.

use std::sync::Arc;

use hyperfleet_core::{
    Catalog, FeedPosition, IdMap, Resource, ResourceId, Snapshot, Timestamp, Undo, Version, printed_size,
};

use super::FeedChange;
use crate::codec::columns::READ_RESOURCE;
use crate::codec::compression::decompress;
use crate::failure::{Failure, FailureKind};

/// The most bytes of a page.
const MAX_BYTES: usize = 64 << 20;

/// The columns of a change behind those of its resource.
const CHANGE: &str = "c.version as change_version, c.resource_id as changed_resource, c.changed_time, c.body";

/// A bit for each part of a resource that a change can touch.
const EVERY_PART: i32 = (1 << 17) - 1;

/// How a store walks the changes of one resource, by changes_by_resource.
pub(crate) struct Later {
    /// Joins to each row of `found f` the next change `n` of its resource that touches a part still missing.
    pub(crate) next: &'static str,
    /// The parameters `$1` and `$2` as the id of a resource and a version.
    pub(crate) parameters: &'static str,
}

impl Later {
    /// For each id and version of `start`, the later changes that were the first to touch some part. The walk goes from
    /// one to the next, so a resource costs one walk at most, however many parts it has.
    fn first_to_touch(&self, start: &str) -> String {
        format!(
            "found (resource_id, version, missing) as (
                 {start}
                 union all
                 select f.resource_id, n.version, f.missing & ~n.touched_parts
                 from found f {} where f.missing <> 0
             )",
            self.next
        )
    }

    /// The changes after `$1`, at most `$2` of them, with the newest state of their resources and, of later changes, the
    /// first that touched each part.
    pub(crate) fn page_statement(&self) -> String {
        format!(
            "with recursive page as materialized (
                 select version, resource_id from changes where version > $1 order by version limit $2
             ), ids as materialized (
                 select distinct resource_id from page
             ), far as materialized (
                 select max(version) as version from page
             ), {}, wanted (version) as (
                 select version from page
                 union
                 select version from found
                 union
                 select s.version from ids i join resource_status s on s.resource_id = i.resource_id
             )
             select {READ_RESOURCE}, {CHANGE}, f.version as feed_version, f.epoch, h.pruned_version,
                    case when (select count(*) from page) < $2 then f.version else (select version from far) end
                        as through
             from feed f
             join history h on true
             left join wanted w on true
             left join changes c on c.version = w.version
             left join resource_status s on s.resource_id = c.resource_id and s.version = c.version
             left join resources r on r.id = s.resource_id
             order by c.version",
            self.first_to_touch(&format!("select i.resource_id, far.version, {EVERY_PART} from ids i, far"))
        )
    }

    /// The newest state of the resource `$1`, and of its changes after `$2` the first that touched each part.
    pub(crate) fn states_statement(&self) -> String {
        format!(
            "with recursive {}, wanted (version) as (
                 select version from found
                 union
                 select s.version from resource_status s where s.resource_id = $1
             )
             select {READ_RESOURCE}, {CHANGE}
             from wanted w
             left join changes c on c.version = w.version and c.version > $2
             left join resource_status s on s.resource_id = $1 and s.version = w.version
             left join resources r on r.id = s.resource_id
             order by w.version",
            self.first_to_touch(&format!("select {}, {EVERY_PART}", self.parameters))
        )
    }
}

/// A change with its undo.
#[derive(Debug)]
pub(crate) struct StoredChange {
    pub(crate) version: Version,
    pub(crate) resource: ResourceId,
    pub(crate) at: Timestamp,
    pub(crate) undo: Option<Undo>,
    pub(crate) last: Option<Snapshot>,
}

impl StoredChange {
    /// A change put together from its columns.
    pub(crate) fn new(
        version: i64,
        resource: ResourceId,
        at: Timestamp,
        body: &[u8],
    ) -> Result<Self, Failure> {
        let defect = |error| Failure::new(FailureKind::Defect, format!("change {version}: {error}"));
        let [_, undo, last] = decompress(body)?;
        let undo = undo.as_deref().map(serde_json::from_str).transpose().map_err(defect)?;
        let last = last.as_deref().map(serde_json::from_str).transpose().map_err(defect)?;
        Ok(Self { version: Version(version), resource, at, undo, last })
    }

    /// The same, without an undo if the body cannot be read: then only what was before this change is unknown.
    pub(crate) fn readable(version: i64, resource: ResourceId, at: Timestamp, body: &[u8]) -> Self {
        Self::new(version, resource, at, body).unwrap_or_else(|failure| {
            tracing::error!(
                version,
                error = failure.chain(),
                "a change cannot be read; `hyperfleet verify` names what is damaged"
            );
            Self { version: Version(version), resource, at, undo: None, last: None }
        })
    }
}

/// A change, and the newest state of the resource if this is its newest change.
#[derive(Debug)]
pub(crate) struct FeedRow {
    pub(crate) current: Option<Resource>,
    pub(crate) change: Option<StoredChange>,
}

impl FeedRow {
    fn size(&self) -> usize {
        let undo = |change: &StoredChange| {
            change.undo.as_ref().map_or(0, Undo::size) + change.last.as_ref().map_or(0, Snapshot::size)
        };
        self.current.as_ref().map_or(0, printed_size) + self.change.as_ref().map_or(0, undo)
    }
}

/// The rows of a page, in the order of versions.
#[derive(Debug)]
pub(crate) struct FeedPage {
    /// The newest position of the feed.
    pub(crate) newest: FeedPosition,
    /// The newest version that was pruned.
    pub(crate) pruned: Version,
    /// The last version of the page.
    pub(crate) through: Version,
    pub(crate) rows: Vec<FeedRow>,
    bytes: usize,
}

impl FeedPage {
    /// An empty page.
    pub(crate) fn after(position: Version) -> Self {
        let (newest, pruned) = (FeedPosition::default(), Version::default());
        Self { newest, pruned, through: position, rows: Vec::new(), bytes: 0 }
    }

    /// Adds a row; false if the page gets too large.
    #[must_use]
    pub(crate) fn push(&mut self, row: FeedRow) -> bool {
        self.bytes += row.size();
        self.rows.push(row);
        self.bytes <= MAX_BYTES
    }

    /// The changes of the page, without those of kinds that are not configured any more.
    pub(super) fn changes(self, catalog: &Catalog) -> Vec<FeedChange> {
        let mut by_resource: IdMap<Vec<FeedRow>> = IdMap::default();
        for row in self.rows {
            if let Some(change) = &row.change {
                by_resource.entry(change.resource).or_default().push(row);
            }
        }
        let rewound = by_resource.into_values().flat_map(|rows| rewind(rows, catalog, self.through));
        let mut changes: Vec<FeedChange> = rewound.collect();
        changes.sort_unstable_by_key(|change| change.version);
        changes
    }
}

/// The newest state of a resource, or its last one.
fn newest(rows: &mut [FeedRow], catalog: &Catalog) -> Option<Resource> {
    let current = rows.iter_mut().find_map(|row| row.current.take());
    let last = || rows.iter().find_map(|row| row.change.as_ref()?.last.clone())?.into_resource(catalog);
    current.or_else(last)
}

/// The changes of one resource up to `through`, newest first, from its rows in the order of versions.
fn rewind(mut rows: Vec<FeedRow>, catalog: &Catalog, through: Version) -> Vec<FeedChange> {
    let mut changes = Vec::with_capacity(rows.len());
    let mut state = newest(&mut rows, catalog).map(Arc::new);
    for change in rows.into_iter().rev().filter_map(|row| row.change) {
        let Some(after) = state else { break };
        let before = change.undo.map(|undo| Arc::new(undo.apply(&after)));
        state = before.clone();
        if change.version <= through {
            // The statement left out changes of parts that this one does not touch.
            let after = Arc::new(Resource { version: change.version, ..(*after).clone() });
            let deleted = change.last.is_some();
            changes.push(FeedChange { version: change.version, at: change.at, before, after, deleted });
        }
    }
    changes
}

/// The state that one resource had before all of `rows`, by its changes in the order of versions.
pub(super) fn state_before(mut rows: Vec<FeedRow>, catalog: &Catalog) -> Option<Resource> {
    let state = newest(&mut rows, catalog)?;
    let mut changes = rows.into_iter().rev().filter_map(|row| row.change);
    changes.try_fold(state, |after, change| Some(change.undo?.apply(&after)))
}
