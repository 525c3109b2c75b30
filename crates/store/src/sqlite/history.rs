//! Reads of history, each in one snapshot.

use std::sync::LazyLock;

use hyperfleet_core::{AccessScope, Catalog, Reservation, Resource, ResourceId};
use rusqlite::Connection;

use super::{read, row};
use crate::failure::Failure;
use crate::history::{Bounds, TimelineRow, last, slice_statement, step_back};
use crate::{PastGenerations, TimelinePage, TimelineQuery};

/// The changes of a resource up to a version, and their order. By changes_by_resource.
const UP_TO: (&str, &str) = ("resource_id = ?1 and version <= ?2", "version desc");

/// Without bodies, because SQLite would hold all of them at once.
static SLICE: LazyLock<String> =
    LazyLock::new(|| slice_statement('?', UP_TO, None) + " order by version desc");

/// The newest or last state of a resource, and a slice of its timeline.
pub(super) fn timeline(
    connection: &Connection,
    catalog: &Catalog,
    id: ResourceId,
    query: &TimelineQuery,
    reservation: &Reservation,
) -> Result<Option<(Resource, TimelinePage)>, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let Some(resource) = newest(&snapshot, catalog, id)? else { return Ok(None) };
    let version = snapshot.prepare_cached("select version from feed")?.query_row((), |row| row.get(0))?;
    let total = match query.count {
        true => {
            let sum = "select coalesce(sum(entry_count), 0) from changes where resource_id = ?1";
            Some(snapshot.prepare_cached(sum)?.query_row([id.to_string()], |row| row.get(0))?)
        }
        false => None,
    };
    let mut page = TimelinePage::new(version, total);
    let bounds = Bounds::of(query);
    let mut statement = snapshot.prepare_cached(&SLICE)?;
    let Bounds { version, index, changes, first, behind } = bounds;
    let mut rows = statement.query((id.to_string(), version, index, changes, first, behind))?;
    let mut bodies = snapshot.prepare_cached("select body from changes where version = ?1")?;
    let mut bytes = reservation.page();
    while let Some(found) = rows.next()? {
        let version = found.get("version")?;
        let change = TimelineRow {
            version,
            at: row::time(found, "changed_time")?,
            actor: row::text(found, "actor")?,
            request_id: row::text(found, "request_id")?,
            body: &bodies.query_row([version], |body| body.get::<_, Vec<u8>>(0))?,
            visible: found.get("visible")?,
            upto: found.get("upto")?,
        };
        if !page.take(&bounds, &mut bytes, &change)? {
            break;
        }
    }
    Ok(Some((resource, page)))
}

/// The resource at the ends of generations, newest first; `None` unless it is visible.
pub(super) fn past_generations(
    connection: &Connection,
    catalog: &Catalog,
    scope: &AccessScope,
    id: ResourceId,
    generations: &[i64],
) -> Result<Option<PastGenerations>, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let Some(newest) = newest(&snapshot, catalog, id)? else { return Ok(None) };
    if !scope.sees(&newest)? {
        return Ok(None);
    }
    let mut state = newest.clone();
    let mut states = PastGenerations::new(newest);
    for generation in generations {
        rewind(&snapshot, &mut state, *generation)?;
        states.reached(&state, *generation);
    }
    Ok(Some(states))
}

/// Undoes changes until the resource is at a generation, or history ends. By changes_by_resource.
fn rewind(connection: &Connection, state: &mut Resource, generation: i64) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "select version, body from changes where resource_id = ?1 and version <= ?2
         order by version desc",
    )?;
    let mut rows = statement.query((state.id.to_string(), state.version.0))?;
    while state.generation > generation
        && let Some(found) = rows.next()?
    {
        if !step_back(state, found.get("version")?, row::bytes(found, "body")?)? {
            break;
        }
    }
    Ok(())
}

/// The newest state of a resource, or its last one.
fn newest(connection: &Connection, catalog: &Catalog, id: ResourceId) -> Result<Option<Resource>, Failure> {
    if let Some(resource) = read::get(connection, catalog, id)? {
        return Ok(Some(resource));
    }
    let mut statement = connection
        .prepare_cached("select body from changes where resource_id = ?1 order by version desc limit 1")?;
    let mut rows = statement.query([id.to_string()])?;
    let Some(found) = rows.next()? else { return Ok(None) };
    last(catalog, row::bytes(found, "body")?)
}
