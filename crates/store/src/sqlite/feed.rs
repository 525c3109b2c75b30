//! The reads of the feed, each in one snapshot.

use hyperfleet_core::{Catalog, ResourceId, Timestamp, Version, View};
use rusqlite::{Connection, Row};

use super::{read, row};
use crate::ListQuery;
use crate::failure::Failure;
use crate::feed::{KeptChange, PAGE, STATES, Trail, TrailRow};
use crate::packed::Dictionaries;

/// Up to where the past is forgotten, and the newest version.
pub(super) fn bounds(connection: &Connection) -> Result<(Version, Version), Failure> {
    let mut statement = connection.prepare_cached("select forgotten, version from history, feed")?;
    Ok(statement.query_row((), |row| Ok((Version(row.get(0)?), Version(row.get(1)?))))?)
}

/// What comes after `position`, unless that is too much.
pub(super) fn trail(
    connection: &Connection,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    position: Version,
    limit: i64,
) -> Result<Option<Trail>, Failure> {
    let mut statement = connection.prepare_cached(&PAGE)?;
    let mut rows = statement.query([position.0, limit])?;
    let mut trail = Trail::behind(position);
    while let Some(found) = rows.next()? {
        trail.newest = Version(found.get(25)?);
        trail.forgotten = Version(found.get(26)?);
        trail.through = Version(found.get(27)?);
        if !trail.take(trail_row(catalog, dictionaries, found)?) {
            return Ok(None);
        }
    }
    Ok(Some(trail))
}

/// The newest states of resources, with all their changes after `since`, resource by resource.
pub(super) fn states(
    connection: &Connection,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    ids: &[ResourceId],
    since: Version,
) -> Result<Vec<Vec<TrailRow>>, Failure> {
    let mut statement = connection.prepare_cached(&STATES)?;
    let mut states = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query((id.to_string(), since.0))?;
        let mut trail = Vec::new();
        while let Some(found) = rows.next()? {
            trail.push(trail_row(catalog, dictionaries, found)?);
        }
        states.push(trail);
    }
    Ok(states)
}

fn trail_row(catalog: &Catalog, dictionaries: &Dictionaries, found: &Row<'_>) -> Result<TrailRow, Failure> {
    let current = match found.get::<_, Option<i64>>(15)? {
        Some(_) => row::resource(catalog, found)?,
        None => None,
    };
    let change = match found.get::<_, Option<i64>>(19)? {
        Some(version) => Some(KeptChange::new(
            dictionaries,
            version,
            row::id(row::text(found, 20)?)?,
            Timestamp::from_micros(found.get(21)?),
            row::bytes_or_none(found, 22)?,
            [row::text_or_none(found, 23)?, row::text_or_none(found, 24)?],
        )?),
        None => None,
    };
    Ok(TrailRow { current, change })
}

/// The versions and ids of all that a filter means, and the newest version.
pub(super) fn present(
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
        found.push((Version(next.get(0)?), row::id(row::text(next, 1)?)?));
    }
    Ok((bounds(&snapshot)?.1, found))
}
