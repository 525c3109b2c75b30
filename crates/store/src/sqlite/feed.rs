//! The reads of the feed, each in one snapshot.

use std::sync::LazyLock;

use hyperfleet_core::{Catalog, Epoch, FeedPosition, ResourceId, Version, View};
use rusqlite::{Connection, Row};

use super::{read, row};
use crate::ListQuery;
use crate::failure::{Failure, readable};
use crate::feed::{FeedBounds, FeedPage, FeedRow, Later, StoredChange};

const LATER: Later = Later {
    next: "join changes n on n.version = (
               select c.version from changes c
               where c.resource_id = f.resource_id and c.version > f.version and c.touched_parts & f.missing <> 0
               order by c.version limit 1
           )",
    parameters: "$1, $2",
};

pub(super) static PAGE: LazyLock<String> = LazyLock::new(|| LATER.page_statement());
pub(super) static STATES: LazyLock<String> = LazyLock::new(|| LATER.states_statement());

pub(super) const BOUNDS: &str = "select pruned_version, version, epoch from history, feed";

pub(super) fn bounds(connection: &Connection) -> Result<FeedBounds, Failure> {
    let mut statement = connection.prepare_cached(BOUNDS)?;
    Ok(statement.query_row((), |row| {
        let newest = FeedPosition { epoch: Epoch(row.get("epoch")?), version: Version(row.get("version")?) };
        Ok(FeedBounds { pruned: Version(row.get("pruned_version")?), newest })
    })?)
}

pub(super) const BEGIN_EPOCH: &str = "update feed set epoch = abs(random()) % 4294967296 returning epoch";

/// Changes an epoch, unless another process has changed it.
pub(super) fn renew_epoch(connection: &Connection, epoch: Epoch) -> Result<(), Failure> {
    connection.execute("update feed set epoch = abs(random()) % 4294967296 where epoch = ?1", [epoch.0])?;
    Ok(())
}

/// The page after `position`; `None` if it gets too large.
pub(super) fn feed_page(
    connection: &Connection,
    catalog: &Catalog,
    position: Version,
    limit: i64,
) -> Result<Option<FeedPage>, Failure> {
    let mut statement = connection.prepare_cached(&PAGE)?;
    let mut rows = statement.query([position.0, limit])?;
    let mut page = FeedPage::after(position);
    while let Some(found) = rows.next()? {
        page.newest =
            FeedPosition { epoch: Epoch(found.get("epoch")?), version: Version(found.get("feed_version")?) };
        page.pruned = Version(found.get("pruned_version")?);
        page.through = Version(found.get("through")?);
        if !page.push(feed_row(catalog, found)?) {
            return Ok(None);
        }
    }
    Ok(Some(page))
}

/// The newest states of resources and their changes after `since`, resource by resource.
pub(super) fn states(
    connection: &Connection,
    catalog: &Catalog,
    ids: &[ResourceId],
    since: Version,
) -> Result<Vec<Vec<FeedRow>>, Failure> {
    let mut statement = connection.prepare_cached(&STATES)?;
    let mut states = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query((id.to_string(), since.0))?;
        let mut rows_of_one = Vec::new();
        while let Some(found) = rows.next()? {
            rows_of_one.push(feed_row(catalog, found)?);
        }
        states.push(rows_of_one);
    }
    Ok(states)
}

fn feed_row(catalog: &Catalog, found: &Row<'_>) -> Result<FeedRow, Failure> {
    let current = match found.get::<_, Option<String>>("id")? {
        Some(id) => readable(id, row::resource(catalog, found))?,
        None => None,
    };
    let change = match found.get::<_, Option<i64>>("change_version")? {
        Some(version) => Some(StoredChange::readable(
            version,
            row::id(row::text(found, "changed_resource")?)?,
            row::time(found, "changed_time")?,
            row::bytes(found, "body").unwrap_or_default(),
        )),
        None => None,
    };
    Ok(FeedRow { current, change })
}

/// The versions and ids of the resources that match a filter, and the newest version.
pub(super) fn snapshot(
    connection: &Connection,
    view: View<'_>,
    query: &ListQuery,
) -> Result<(Version, Vec<(Version, ResourceId)>), Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let statements = read::list_statements(&snapshot, view, query)?;
    let mut statement = snapshot.prepare(&format!(
        "select s.version, chosen.id from ({}) chosen join resource_status s on s.resource_id = chosen.id",
        statements.ids
    ))?;
    read::bind(&mut statement, &statements.values)?;
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(next) = rows.next()? {
        found.push((Version(next.get("version")?), row::id(row::text(next, "id")?)?));
    }
    Ok((bounds(&snapshot)?.newest.version, found))
}
