//! Loads every row that a batch can touch. A prepared statement per row costs as little here as
//! one for all would, because there is no round trip.

use std::collections::BTreeSet;

use hyperfleet_core::rules::{Needs, WorkingSet};
use hyperfleet_core::{Catalog, ResourceId, Version};
use rusqlite::{Connection, OptionalExtension};

use super::{read, row};
use crate::failure::Failure;

pub(super) fn load(connection: &Connection, catalog: &Catalog, needs: &Needs) -> Result<WorkingSet, Failure> {
    let version = connection.prepare_cached("select version from feed")?.query_row((), |row| row.get(0))?;
    let mut set = WorkingSet::new(Version(version));
    for id in &needs.ids {
        load_resource(connection, catalog, *id, &mut set)?;
    }
    load_names(connection, needs, &mut set)?;
    let mut surroundings = BTreeSet::new();
    for id in &needs.trees {
        surroundings.extend(load_tree(connection, catalog, *id, &mut set)?);
    }
    load_child_counts(connection, &surroundings, &mut set)?;
    Ok(set)
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

fn load_names(connection: &Connection, needs: &Needs, set: &mut WorkingSet) -> Result<(), Failure> {
    // By resources_active_name.
    let mut statement = connection.prepare_cached(
        "select id from resources
         where kind = ?1 and coalesce(owner_id, '') = ?2 and name = ?3 and deleted_time is null",
    )?;
    for (kind, owner, name) in &needs.names {
        let owner_text = owner.map(|id| id.to_string()).unwrap_or_default();
        let holder: Option<String> =
            statement.query_row((&**kind, owner_text, name), |row| row.get(0)).optional()?;
        if let Some(holder) = holder {
            set.load_name(kind.clone(), *owner, name.clone(), row::id(&holder)?);
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
    let above = ids(
        connection,
        "with recursive above (id, owner_id) as (
             select id, owner_id from resources where id = ?1
             union
             select r.id, r.owner_id from resources r join above on r.id = above.owner_id
         )
         select id from above",
        id,
    )?;
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
