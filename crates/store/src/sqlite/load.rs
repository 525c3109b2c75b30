//! Loads every row that a batch can touch. A prepared statement per row costs as little here as
//! one for all would, because there is no round trip.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hyperfleet_core::rules::{Needs, WorkingSet};
use hyperfleet_core::{Catalog, KEPT_FOR, ResourceId, Timestamp, Version};
use rusqlite::{Connection, OptionalExtension};

use super::{dictionaries, read, row};
use crate::failure::Failure;
use crate::memory::Mark;
use crate::packed::Dictionaries;
use crate::report_row::{REPORT_COLUMNS, STANDING_COLUMNS};
use crate::retries;

/// A resource and its owners up to the root.
const ABOVE: &str = "with recursive above (id, owner_id) as (
         select id, owner_id from resources where id = ?1
         union
         select r.id, r.owner_id from resources r join above on r.id = above.owner_id
     )
     select id from above";

static STANDING: LazyLock<String> = LazyLock::new(|| {
    format!("select {STANDING_COLUMNS} from reported where resource_id = ?1 and adapter = ?2")
});
static REPORT: LazyLock<String> = LazyLock::new(|| {
    format!("select {REPORT_COLUMNS} from reported where resource_id = ?1 and adapter = ?2")
});
static REPORTS: LazyLock<String> =
    LazyLock::new(|| format!("select {REPORT_COLUMNS} from reported where resource_id = ?1"));

/// Where the feed is.
pub(super) fn mark(connection: &Connection) -> Result<Mark, Failure> {
    let mut statement = connection.prepare_cached("select version, commits from feed")?;
    Ok(statement.query_row((), |row| Ok(Mark { version: Version(row.get(0)?), commits: row.get(1)? }))?)
}

pub(super) fn load(
    connection: &Connection,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    needs: &Needs,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    for id in &needs.ids {
        load_resource(connection, catalog, *id, set)?;
    }
    for id in needs.statuses.difference(&needs.ids) {
        // Mapped conditions may look at the whole resource.
        if catalog.has_mappings() {
            load_resource(connection, catalog, *id, set)?;
        } else if let Some(resource) = read::status(connection, catalog, *id)? {
            set.load_light(resource);
        }
    }
    for (id, adapter) in &needs.reports {
        load_reports(connection, dictionaries, *id, Some(adapter), set)?;
    }
    load_names(connection, needs, set)?;
    load_answers(connection, needs, set)?;

    // What may disappear drags its surroundings in.
    let mut surroundings = BTreeSet::new();
    let roots = needs.roots(set);
    for id in &roots {
        surroundings.extend(load_tree(connection, catalog, *id, set)?);
    }
    let finalizing: Vec<ResourceId> = set
        .loaded()
        .filter(|r| !r.is_active() && needs.statuses.contains(&r.id) && !roots.contains(&r.id))
        .map(|r| r.id)
        .collect();
    for id in finalizing {
        for owner in ids(connection, ABOVE, id)? {
            load_resource(connection, catalog, owner, set)?;
            surroundings.insert(owner);
        }
    }
    load_child_counts(connection, &surroundings, set)?;

    let mut recomputed: BTreeSet<ResourceId> = needs.statuses.clone();
    if !surroundings.is_empty() {
        recomputed.extend(set.loaded().map(|r| r.id));
    }
    load_standings(connection, catalog, &recomputed, set)?;
    let mapped = |kind: &str| catalog.get(kind).is_some_and(|entity| !entity.mappings.is_empty());
    let mapped: Vec<ResourceId> = set.loaded().filter(|r| mapped(&r.kind)).map(|r| r.id).collect();
    for id in mapped {
        load_reports(connection, dictionaries, id, None, set)?;
    }
    Ok(())
}

fn load_resource(
    connection: &Connection,
    catalog: &Catalog,
    id: ResourceId,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    if let Some(resource) = read::get(connection, catalog, id)? {
        set.load(resource);
    }
    Ok(())
}

/// Where the required adapters of these resources stand. By the primary key.
fn load_standings(
    connection: &Connection,
    catalog: &Catalog,
    of: &BTreeSet<ResourceId>,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&STANDING)?;
    for id in of {
        let Some(entity) = set.kind_of(*id).and_then(|kind| catalog.get(kind)) else { continue };
        for adapter in &entity.required_adapters {
            let mut rows = statement.query((id.to_string(), adapter))?;
            if let Some(found) = rows.next()? {
                set.load_standing(*id, row::standing(found)?);
            }
        }
    }
    Ok(())
}

/// The whole reports on a resource, or that of one adapter.
fn load_reports(
    connection: &Connection,
    dictionaries: &Dictionaries,
    id: ResourceId,
    adapter: Option<&str>,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let sql = if adapter.is_some() { &REPORT } else { &REPORTS };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = match adapter {
        Some(adapter) => statement.query((id.to_string(), adapter))?,
        None => statement.query([id.to_string()])?,
    };
    while let Some(found) = rows.next()? {
        let report = dictionaries::reread(connection, dictionaries, || row::report(dictionaries, found))?;
        set.load_report(id, report);
    }
    Ok(())
}

/// What was answered to requests that come again.
fn load_answers(connection: &Connection, needs: &Needs, set: &mut WorkingSet) -> Result<(), Failure> {
    let mut statement =
        connection.prepare_cached("select body, at, answer from retries where key = ?1 and at > ?2")?;
    let kept_since = Timestamp::now().micros() - KEPT_FOR;
    for key in &needs.retries {
        let mut rows = statement.query((key, kept_since))?;
        if let Some(found) = rows.next()? {
            let (body, at): (Vec<u8>, i64) = (found.get(0)?, found.get(1)?);
            let (key, answer) = retries::read(key, &body, Timestamp::from_micros(at), row::text(found, 2)?)?;
            set.load_answer(key, answer);
        }
    }
    Ok(())
}

fn load_names(connection: &Connection, needs: &Needs, set: &mut WorkingSet) -> Result<(), Failure> {
    // By resources_active_name.
    let mut statement = connection.prepare_cached(
        "select id from resources
         where kind = ?1 and coalesce(owner_id, tenancy, '') = ?2 and name = ?3 and deleted_time is null",
    )?;
    for (kind, place, name) in &needs.names {
        let holder: Option<String> =
            statement.query_row((&**kind, place.to_string(), name), |row| row.get(0)).optional()?;
        if let Some(holder) = holder {
            set.load_name(kind.clone(), place.clone(), name.clone(), row::id(&holder)?);
        }
    }
    Ok(())
}

/// Everything below and above a resource, and whoever refers to what is below. Returns the ids
/// below and above.
fn load_tree(
    connection: &Connection,
    catalog: &Catalog,
    id: ResourceId,
    set: &mut WorkingSet,
) -> Result<BTreeSet<ResourceId>, Failure> {
    let below = ids(
        connection,
        "with recursive below (id) as (
             select id from resources where id = ?1
             union
             select r.id from resources r join below on r.owner_id = below.id
         )
         select id from below",
        id,
    )?;
    let above = ids(connection, ABOVE, id)?;
    for target in &below {
        for source in
            ids(connection, "select source_id from resource_references where target_id = ?1", *target)?
        {
            set.load_referrer(*target, source);
            load_resource(connection, catalog, source, set)?;
        }
    }
    let surroundings: BTreeSet<_> = below.into_iter().chain(above).collect();
    for id in &surroundings {
        load_resource(connection, catalog, *id, set)?;
    }
    Ok(surroundings)
}

fn load_child_counts(
    connection: &Connection,
    owners: &BTreeSet<ResourceId>,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let mut statement = connection
        .prepare_cached("select kind, count(*) from resources where owner_id = ?1 group by kind")?;
    for owner in owners {
        let mut rows = statement.query([owner.to_string()])?;
        while let Some(found) = rows.next()? {
            set.load_child_count(*owner, row::text(found, 0)?.into(), found.get::<_, i64>(1)? as usize);
        }
    }
    Ok(())
}

fn ids(connection: &Connection, sql: &str, of: ResourceId) -> Result<Vec<ResourceId>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([of.to_string()])?;
    let mut found = Vec::new();
    while let Some(next) = rows.next()? {
        found.push(row::id(row::text(next, 0)?)?);
    }
    Ok(found)
}
