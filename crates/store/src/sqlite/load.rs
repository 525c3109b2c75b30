//! Loads every row that a batch can touch, with a statement for each row, because there is no round trip.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hyperfleet_core::rules::{LoadPlan, WorkingSet};
use hyperfleet_core::{Catalog, IDEMPOTENCY_RETENTION, ResourceId};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Rows};

use super::{feed, read, row};
use crate::clock::Clock;
use crate::codec::columns::{READ_REPORT, READ_SUMMARY, read_reports};
use crate::codec::idempotency_record;
use crate::failure::Failure;

/// A resource and its owners up to the root.
const ABOVE: &str = "with recursive above (id, owner_id) as (
         select id, owner_id from resources where id = ?1
         union
         select r.id, r.owner_id from resources r join above on r.id = above.owner_id
     )
     select id from above";

static SUMMARY: LazyLock<String> = LazyLock::new(|| {
    format!("select {READ_SUMMARY} from latest_reports where resource_id = ?1 and adapter = ?2")
});
static REPORT: LazyLock<String> = LazyLock::new(|| {
    format!("select {READ_REPORT} from latest_reports where resource_id = ?1 and adapter = ?2")
});
static REPORTS: LazyLock<String> = LazyLock::new(|| read_reports("latest_reports", "= ?1", "?2"));
const SIZES: &str = "select adapter, bytes from reports where resource_id = ?1";

pub(super) fn load(
    connection: &Connection,
    catalog: &Catalog,
    plan: &LoadPlan,
    clock: &Clock,
) -> Result<WorkingSet, Failure> {
    let set = &mut WorkingSet::new(feed::bounds(connection)?.newest);
    set.load_changed_time(read::changed_time(connection)?);
    for id in &plan.ids {
        load_resource(connection, catalog, *id, set)?;
    }
    for id in plan.statuses.difference(&plan.ids) {
        // Mapped conditions may look at the whole resource.
        if catalog.has_mappings() {
            load_resource(connection, catalog, *id, set)?;
        } else if let Some(resource) = read::status(connection, catalog, *id)? {
            set.load_without_spec(resource);
        }
    }
    for (id, adapter) in &plan.reports {
        let mut statement = connection.prepare_cached(&REPORT)?;
        take_reports(statement.query((id.to_string(), adapter))?, *id, set)?;
    }
    load_sizes(connection, plan, set)?;
    load_names(connection, plan, set)?;
    load_idempotency_records(connection, plan, clock, set)?;

    // A removal also needs the tree of the resource.
    let mut trees = BTreeSet::new();
    let roots = plan.roots(set);
    for id in &roots {
        trees.extend(load_tree(connection, catalog, *id, set)?);
    }
    let finalizing: Vec<ResourceId> = set
        .loaded()
        .filter(|r| !r.is_active() && plan.statuses.contains(&r.id) && !roots.contains(&r.id))
        .map(|r| r.id)
        .collect();
    for id in finalizing {
        for owner in ids(connection, ABOVE, id)? {
            load_resource(connection, catalog, owner, set)?;
            trees.insert(owner);
        }
    }
    load_child_counts(connection, &trees, set)?;

    let mut recomputed: BTreeSet<ResourceId> = plan.statuses.clone();
    if !trees.is_empty() {
        recomputed.extend(set.loaded().map(|r| r.id));
    }
    load_summaries(connection, catalog, &recomputed, set)?;
    for id in plan.read_whole(catalog, set, !trees.is_empty()) {
        let mut statement = connection.prepare_cached(&REPORTS)?;
        take_reports(statement.query((id.to_string(), plan.report_bytes as i64))?, id, set)?;
    }
    Ok(std::mem::take(set))
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

/// The report summaries of required adapters, by the primary key.
fn load_summaries(
    connection: &Connection,
    catalog: &Catalog,
    of: &BTreeSet<ResourceId>,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&SUMMARY)?;
    for id in of {
        let Some(entity) = set.kind_of(*id).and_then(|kind| catalog.get(kind)) else { continue };
        for adapter in &entity.required_adapters {
            let mut rows = statement.query((id.to_string(), adapter))?;
            if let Some(found) = rows.next()? {
                set.load_summary(*id, row::summary(found)?);
            }
        }
    }
    Ok(())
}

fn take_reports(mut rows: Rows<'_>, id: ResourceId, set: &mut WorkingSet) -> Result<(), Failure> {
    while let Some(found) = rows.next()? {
        match found.get_ref("body")? {
            ValueRef::Null => set.load_oversized(id),
            _ => set.load_report(id, row::report(found)?),
        }
    }
    Ok(())
}

/// The sizes of the reports that are measured.
fn load_sizes(connection: &Connection, plan: &LoadPlan, set: &mut WorkingSet) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(SIZES)?;
    for id in &plan.measured {
        set.load_measured(*id);
        let mut rows = statement.query([id.to_string()])?;
        while let Some(found) = rows.next()? {
            let bytes: i64 = found.get("bytes")?;
            set.load_report_size(*id, row::text(found, "adapter")?.into(), bytes as usize);
        }
    }
    Ok(())
}

/// The recorded responses of idempotency keys.
fn load_idempotency_records(
    connection: &Connection,
    plan: &LoadPlan,
    clock: &Clock,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let mut statement =
        connection.prepare_cached("select key, request, created_time, response from idempotency_records where key = ?1 and created_time > ?2")?;
    let kept_since = clock.expired(IDEMPOTENCY_RETENTION).micros();
    for key in &plan.idempotency_keys {
        let mut rows = statement.query((key, kept_since))?;
        if let Some(found) = rows.next()? {
            let (key, record) = idempotency_record(
                row::bytes(found, "key")?,
                row::bytes(found, "request")?,
                row::time(found, "created_time")?,
                row::text(found, "response")?,
            )?;
            set.load_idempotency_record(key, record);
        }
    }
    Ok(())
}

fn load_names(connection: &Connection, plan: &LoadPlan, set: &mut WorkingSet) -> Result<(), Failure> {
    // By resources_active_name.
    let mut statement = connection.prepare_cached(
        "select id from resources
         where kind = ?1 and coalesce(owner_id, tenancy, '') = ?2 and name = ?3 and deleted_time is null",
    )?;
    for (kind, scope, name) in &plan.names {
        let holder: Option<String> =
            statement.query_row((&**kind, scope.to_string(), name), |row| row.get(0)).optional()?;
        if let Some(holder) = holder {
            set.load_name(kind.clone(), scope.clone(), name.clone(), row::id(&holder)?);
        }
    }
    Ok(())
}

/// Loads the descendants and owners of a resource and the referrers of its descendants. Returns the ids of the descendants
/// and owners.
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
    let trees: BTreeSet<_> = below.into_iter().chain(above).collect();
    for id in &trees {
        load_resource(connection, catalog, *id, set)?;
    }
    Ok(trees)
}

fn load_child_counts(
    connection: &Connection,
    owners: &BTreeSet<ResourceId>,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "select kind, count(*) as children from resources where owner_id = ?1 group by kind",
    )?;
    for owner in owners {
        let mut rows = statement.query([owner.to_string()])?;
        while let Some(found) = rows.next()? {
            set.load_child_count(
                *owner,
                row::text(found, "kind")?.into(),
                found.get::<_, i64>("children")? as usize,
            );
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
