//! Reads of the past: timelines, and the states that a resource had before. Each is read in one snapshot.

use std::sync::LazyLock;

use hyperfleet_core::{Catalog, Resource, ResourceId, Sight, Timestamp};
use rusqlite::Connection;

use super::{read, row};
use crate::failure::Failure;
use crate::packed::Dictionaries;
use crate::past::{Bounds, TimelineRow, last, slice_statement, step_back};
use crate::{Past, TimelinePage, TimelineQuery};

/// The changes of a resource up to a version, and their order. By changes_by_resource.
const UP_TO: (&str, &str) = ("resource_id = ?1 and version <= ?2", "version desc");

static SLICE: LazyLock<String> = LazyLock::new(|| slice_statement('?', UP_TO) + " order by version desc");

/// What the resource is or was when it went, and a slice of its timeline.
pub(super) fn timeline(
    connection: &Connection,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    id: ResourceId,
    query: &TimelineQuery,
) -> Result<Option<(Resource, TimelinePage)>, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let Some(resource) = newest(&snapshot, catalog, dictionaries, id)? else { return Ok(None) };
    let version = snapshot.prepare_cached("select version from feed")?.query_row((), |row| row.get(0))?;
    let total = match query.count {
        true => {
            let sum = "select coalesce(sum(size), 0) from changes where resource_id = ?1";
            Some(snapshot.prepare_cached(sum)?.query_row([id.to_string()], |row| row.get(0))?)
        }
        false => None,
    };
    let mut page = TimelinePage::new(version, total);
    let bounds = Bounds::of(query);
    let mut statement = snapshot.prepare_cached(&SLICE)?;
    let Bounds { version, index, changes, first, behind } = bounds;
    let mut rows = statement.query((id.to_string(), version, index, changes, first, behind))?;
    while let Some(found) = rows.next()? {
        let change = TimelineRow {
            version: found.get(0)?,
            at: Timestamp::from_micros(found.get(1)?),
            actor: row::text(found, 2)?,
            request_id: row::text(found, 3)?,
            packed: row::bytes_or_none(found, 4)?,
            entries: row::text_or_none(found, 5)?,
            visible: found.get(6)?,
            upto: found.get(7)?,
        };
        page.take(dictionaries, &bounds, &change)?;
    }
    Ok(Some((resource, page)))
}

/// What the resource was at the ends of generations, which must be named newest first; `None` unless it is in sight. The
/// way back may be long, and how long must be told to nobody who does not see the resource.
pub(super) fn past(
    connection: &Connection,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    sight: &Sight,
    id: ResourceId,
    generations: &[i64],
) -> Result<Option<Past>, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let Some(newest) = newest(&snapshot, catalog, dictionaries, id)? else { return Ok(None) };
    if !sight.sees(&newest)? {
        return Ok(None);
    }
    let mut state = newest.clone();
    let mut past = Past::new(newest);
    for generation in generations {
        rewind(&snapshot, dictionaries, &mut state, *generation)?;
        past.reached(&state, *generation);
    }
    Ok(Some(past))
}

/// Undoes changes until the resource is at a generation, or no more are kept. By changes_by_resource.
fn rewind(
    connection: &Connection,
    dictionaries: &Dictionaries,
    state: &mut Resource,
    generation: i64,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "select version, packed, undo from changes where resource_id = ?1 and version <= ?2
         order by version desc",
    )?;
    let mut rows = statement.query((state.id.to_string(), state.version.0))?;
    while state.generation > generation
        && let Some(found) = rows.next()?
    {
        let (packed, undo) = (row::bytes_or_none(found, 1)?, row::text_or_none(found, 2)?);
        if !step_back(dictionaries, state, found.get(0)?, packed, undo)? {
            break;
        }
    }
    Ok(())
}

/// The resource as it is, or as its last change left it.
fn newest(
    connection: &Connection,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    id: ResourceId,
) -> Result<Option<Resource>, Failure> {
    if let Some(resource) = read::get(connection, catalog, id)? {
        return Ok(Some(resource));
    }
    let mut statement = connection.prepare_cached(
        "select packed, last from changes where resource_id = ?1 order by version desc limit 1",
    )?;
    let mut rows = statement.query([id.to_string()])?;
    let Some(found) = rows.next()? else { return Ok(None) };
    last(catalog, dictionaries, row::bytes_or_none(found, 0)?, row::text_or_none(found, 1)?)
}
