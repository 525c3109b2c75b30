//! Writes the differences of a batch, table by table. What goes and what frees its name comes before
//! what is new, so that one batch can delete a name and use it again.

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Phase, RawJson, Resource};
use rusqlite::{Connection, params};

use crate::ancestors;
use crate::differences::Differences;
use crate::failure::Failure;

pub(super) fn persist(connection: &Connection, set: &WorkingSet) -> Result<(), Failure> {
    let differences = Differences::of(set)?;
    for id in &differences.unlinked {
        connection
            .prepare_cached("delete from resource_references where source_id = ?1")?
            .execute([id.to_string()])?;
    }
    for id in &differences.removed {
        let id = id.to_string();
        connection.prepare_cached("delete from resources where id = ?1")?.execute([&id])?;
        connection.prepare_cached("delete from resource_status where resource_id = ?1")?.execute([&id])?;
    }
    update(connection, &differences.updated)?;
    insert(connection, &differences.inserted)?;
    restate(connection, &differences.restated)?;
    for link in &differences.links {
        connection
            .prepare_cached(
                "insert into resource_references (source_id, ref_type, target_id) values (?1, ?2, ?3)",
            )?
            .execute((link.source.to_string(), &link.ref_type, link.target.to_string()))?;
    }
    for (kind, (active, finalizing)) in &differences.counts {
        connection
            .prepare_cached(
                "insert into kind_counts (kind, active, finalizing) values (?1, ?2, ?3)
                 on conflict (kind) do update
                 set active = active + excluded.active, finalizing = finalizing + excluded.finalizing",
            )?
            .execute((kind, active, finalizing))?;
    }
    record(connection, set)
}

fn deleted(resource: &Resource) -> (Option<i64>, Option<&str>) {
    match &resource.phase {
        Phase::Active => (None, None),
        Phase::Finalizing(stamp) => (Some(stamp.at.micros()), Some(&stamp.by)),
    }
}

fn insert(connection: &Connection, resources: &[&Resource]) -> Result<(), Failure> {
    let mut wide = connection.prepare_cached(
        "insert into resources
             (id, kind, name, owner_id, ancestors, generation, spec, labels, refs,
              created_time, created_by, updated_time, updated_by, deleted_time, deleted_by)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    let mut narrow = connection.prepare_cached(
        "insert into resource_status (resource_id, version, conditions) values (?1, ?2, ?3)",
    )?;
    for r in resources {
        let id = r.id.to_string();
        let (deleted_time, deleted_by) = deleted(r);
        wide.execute(params![
            id,
            &*r.kind,
            r.name,
            r.owner().map(|owner| owner.to_string()),
            ancestors::print(r),
            r.generation,
            r.spec.as_str(),
            r.labels.as_str(),
            r.references.as_str(),
            r.created.at.micros(),
            r.created.by,
            r.updated.at.micros(),
            r.updated.by,
            deleted_time,
            deleted_by,
        ])?;
        narrow.execute((&id, r.version.0, r.conditions.as_str()))?;
    }
    Ok(())
}

fn update(connection: &Connection, resources: &[&Resource]) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "update resources
         set generation = ?2, spec = ?3, labels = ?4, refs = ?5, updated_time = ?6, updated_by = ?7,
             deleted_time = ?8, deleted_by = ?9
         where id = ?1",
    )?;
    for r in resources {
        let (deleted_time, deleted_by) = deleted(r);
        statement.execute(params![
            r.id.to_string(),
            r.generation,
            r.spec.as_str(),
            r.labels.as_str(),
            r.references.as_str(),
            r.updated.at.micros(),
            r.updated.by,
            deleted_time,
            deleted_by,
        ])?;
    }
    Ok(())
}

fn restate(connection: &Connection, resources: &[&Resource]) -> Result<(), Failure> {
    let mut statement = connection
        .prepare_cached("update resource_status set version = ?2, conditions = ?3 where resource_id = ?1")?;
    for r in resources {
        statement.execute((r.id.to_string(), r.version.0, r.conditions.as_str()))?;
    }
    Ok(())
}

/// The change rows and the version they lead to.
fn record(connection: &Connection, set: &WorkingSet) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "insert into changes (version, resource_id, kind, at, actor, request_id, entries)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for change in set.changes() {
        statement.execute(params![
            change.version.0,
            change.resource.to_string(),
            &*change.kind,
            change.at.micros(),
            change.actor,
            change.request_id,
            RawJson::from_value(&change.entries).as_str(),
        ])?;
    }
    connection.prepare_cached("update feed set version = ?1")?.execute([set.version().0])?;
    Ok(())
}
