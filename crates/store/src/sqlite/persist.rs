//! Writes the differences of a batch, table by table. What frees a name comes before what takes one, so that one batch can
//! delete a name and use it again.

use std::sync::LazyLock;

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Catalog, Phase, Report, Resource, ResourceId, Tenant, Timestamp, json_text};
use rusqlite::{Connection, Statement, params};

use super::row;
use crate::codec::columns::{self, names, typed};
use crate::codec::{conditions, print_ancestors, report};
use crate::failure::Failure;
use crate::history;
use crate::write::facets::FacetDifferences;
use crate::write::{ConfirmedResource, Differences, ReportTimes, updated_after_of};

static INSERT_RESOURCE: LazyLock<String> = LazyLock::new(|| insert("resources", columns::RESOURCE));
static UPDATE_RESOURCE: LazyLock<String> =
    LazyLock::new(|| update("resources", columns::RESOURCE_CHANGE, 1, ""));
static INSERT_STATUS: LazyLock<String> = LazyLock::new(|| insert("resource_status", columns::STATUS));
static UPDATE_STATUS: LazyLock<String> =
    LazyLock::new(|| update("resource_status", columns::STATUS, 1, ", last_updated_times = ''"));
static INSERT_REPORT: LazyLock<String> = LazyLock::new(|| insert("reports", &columns::REPORT));
static UPDATE_REPORT: LazyLock<String> = LazyLock::new(|| update("reports", columns::REPORT_CHANGE, 2, ""));
static INSERT_REFERENCE: LazyLock<String> =
    LazyLock::new(|| insert("resource_references", columns::REFERENCE));
static INSERT_FACET: LazyLock<String> = LazyLock::new(|| insert("resource_facets", columns::FACET));
static ADD_FACET_COUNT: LazyLock<String> =
    LazyLock::new(|| insert_or_add("facet_counts", columns::FACET_COUNT));
static ADD_KIND_COUNT: LazyLock<String> = LazyLock::new(|| insert_or_add("kind_counts", columns::KIND_COUNT));
static INSERT_CHANGE: LazyLock<String> = LazyLock::new(|| insert("changes", columns::CHANGE));
// A record that is there has expired.
static REPLACE_IDEMPOTENCY_RECORD: LazyLock<String> = LazyLock::new(|| {
    insert("idempotency_records", columns::IDEMPOTENCY_RECORD).replacen("insert", "insert or replace", 1)
});

fn insert(table: &str, columns: &str) -> String {
    let values: Vec<_> = (1..=typed(columns).count()).map(|number| format!("?{number}")).collect();
    format!("insert into {table} ({}) values ({})", names(columns), values.join(", "))
}

/// Inserts counts, or adds them to the counts that are there. The first column is the key.
fn insert_or_add(table: &str, columns: &str) -> String {
    let (key, _) = typed(columns).next().unwrap_or_default();
    let sums = typed(columns).skip(1).map(|(name, _)| format!("{name} = {name} + excluded.{name}"));
    let sums = sums.collect::<Vec<_>>().join(", ");
    format!("{} on conflict ({key}) do update set {sums}", insert(table, columns))
}

/// Updates a row by a key of the first columns; `also` is set too.
fn update(table: &str, columns: &str, key_columns: usize, also: &str) -> String {
    let mut assignments = typed(columns).enumerate().map(|(i, (name, _))| format!("{name} = ?{}", i + 1));
    let key = assignments.by_ref().take(key_columns).collect::<Vec<_>>().join(" and ");
    let set = assignments.collect::<Vec<_>>().join(", ");
    format!("update {table} set {set}{also} where {key}")
}

pub(super) fn persist(connection: &Connection, catalog: &Catalog, set: &WorkingSet) -> Result<(), Failure> {
    let differences = Differences::of(set)?;
    let report_times = ReportTimes::from_batch(catalog, set, &differences);
    for id in &differences.references_removed_from {
        connection
            .prepare_cached("delete from resource_references where source_id = ?1")?
            .execute([id.to_string()])?;
    }
    for id in &differences.removed {
        let id = id.to_string();
        connection.prepare_cached("delete from resources where id = ?1")?.execute([&id])?;
        connection.prepare_cached("delete from resource_status where resource_id = ?1")?.execute([&id])?;
        connection.prepare_cached("delete from reports where resource_id = ?1")?.execute([&id])?;
    }
    update_resources(connection, &differences.updated)?;
    insert_resources(connection, &differences.inserted)?;
    update_statuses(connection, &differences.status_changed)?;
    update_times(connection, &differences.confirmed, &report_times)?;
    update_facets(connection, &differences.facets)?;
    insert_reports(connection, &differences.new_reports)?;
    update_reports(connection, &differences.changed_reports)?;
    for (id, report) in &differences.reports_with_earlier_time {
        connection
            .prepare_cached(
                "update resource_status set report_times = json_remove(report_times, ?2)
                 where resource_id = ?1 and report_times is not null",
            )?
            .execute((id.to_string(), format!("$.{}", json_text(&&*report.adapter))))?;
    }
    for (id, report) in &report_times.for_report_rows {
        connection
            .prepare_cached(
                "update reports set last_report_time = ?3 where resource_id = ?1 and adapter = ?2",
            )?
            .execute((id.to_string(), &report.adapter, report.last_report_time.micros()))?;
    }
    for link in &differences.new_references {
        connection.prepare_cached(&INSERT_REFERENCE)?.execute((
            link.source.to_string(),
            &link.ref_type,
            link.target.to_string(),
        ))?;
    }
    for (kind, by) in &differences.counts {
        connection.prepare_cached(&ADD_KIND_COUNT)?.execute((
            kind,
            by.active,
            by.finalizing,
            by.pending_active,
            by.pending_finalizing,
        ))?;
    }
    record(connection, set)
}

fn deleted(resource: &Resource) -> (Option<i64>, Option<&str>) {
    match &resource.phase {
        Phase::Active => (None, None),
        Phase::Finalizing(stamp) => (Some(stamp.at.micros()), Some(&stamp.by)),
    }
}

fn insert_resources(connection: &Connection, resources: &[&Resource]) -> Result<(), Failure> {
    let mut resource = connection.prepare_cached(&INSERT_RESOURCE)?;
    let mut status = connection.prepare_cached(&INSERT_STATUS)?;
    for r in resources {
        let id = r.id.to_string();
        let (deleted_time, deleted_by) = deleted(r);
        resource.execute(params![
            id,
            &*r.kind,
            r.name,
            r.owner().map(|owner| owner.to_string()),
            print_ancestors(r),
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
            r.tenancy.as_ref().map(Tenant::as_str),
        ])?;
        status.execute(params![
            id,
            r.version.0,
            conditions::encode(r.conditions.as_str()),
            r.pending_since.map(Timestamp::micros),
            updated_after_of(r)?.map(Timestamp::micros),
        ])?;
    }
    Ok(())
}

fn update_resources(connection: &Connection, resources: &[&Resource]) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&UPDATE_RESOURCE)?;
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

fn update_statuses(connection: &Connection, resources: &[&Resource]) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&UPDATE_STATUS)?;
    for r in resources {
        statement.execute(params![
            r.id.to_string(),
            r.version.0,
            conditions::encode(r.conditions.as_str()),
            r.pending_since.map(Timestamp::micros),
            updated_after_of(r)?.map(Timestamp::micros),
        ])?;
    }
    Ok(())
}

/// SQLite writes an index whenever its column is named, so `updated_after` is named only if it changed.
fn update_times(
    connection: &Connection,
    confirmed: &[ConfirmedResource<'_>],
    report_times: &ReportTimes<'_>,
) -> Result<(), Failure> {
    const TIMES: &str = "last_updated_times = ?2,
        report_times = coalesce(json_patch(coalesce(report_times, '{}'), ?3), report_times)";
    let mut times =
        connection.prepare_cached(&format!("update resource_status set {TIMES} where resource_id = ?1"))?;
    let mut times_and_index = connection.prepare_cached(&format!(
        "update resource_status set {TIMES}, updated_after = ?4 where resource_id = ?1"
    ))?;
    for r in confirmed {
        let (id, printed, kept) = (r.id.to_string(), row::print_times(&r.times), report_times.of(r.id));
        match r.changes_updated_after()? {
            true => times_and_index.execute((id, printed, kept, r.updated_after.map(Timestamp::micros)))?,
            false => times.execute((id, printed, kept))?,
        };
    }
    Ok(())
}

fn update_facets(connection: &Connection, facets: &FacetDifferences) -> Result<(), Failure> {
    let mut delete = connection.prepare_cached(
        "delete from resource_facets where facet = ?1 and created_time = ?2 and resource_id = ?3",
    )?;
    for row in &facets.old {
        delete.execute((row.facet.bytes(), row.created_time.micros(), row.resource.to_string()))?;
    }
    let mut insert = connection.prepare_cached(&INSERT_FACET)?;
    for row in &facets.new {
        insert.execute((row.facet.bytes(), row.created_time.micros(), row.resource.to_string()))?;
    }
    let mut count = connection.prepare_cached(&ADD_FACET_COUNT)?;
    for (facet, (active, finalizing)) in &facets.counts {
        count.execute((facet.bytes(), active, finalizing))?;
    }
    let mut tidy = connection
        .prepare_cached("delete from facet_counts where facet = ?1 and active = 0 and finalizing = 0")?;
    for row in &facets.old {
        tidy.execute([row.facet.bytes()])?;
    }
    Ok(())
}

fn insert_reports(connection: &Connection, reports: &[(ResourceId, &Report)]) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&INSERT_REPORT)?;
    for (id, report) in reports {
        bind_report(&mut statement, *id, report)?;
        statement.raw_bind_parameter(11, report.created_time.micros())?;
        statement.raw_execute()?;
    }
    Ok(())
}

fn update_reports(connection: &Connection, reports: &[(ResourceId, &Report)]) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&UPDATE_REPORT)?;
    for (id, report) in reports {
        bind_report(&mut statement, *id, report)?;
        statement.raw_execute()?;
    }
    Ok(())
}

/// Binds the columns of a changed report.
fn bind_report(statement: &mut Statement<'_>, id: ResourceId, report: &Report) -> Result<(), Failure> {
    let summary = report.summary();
    statement.raw_bind_parameter(1, id.to_string())?;
    statement.raw_bind_parameter(2, &report.adapter)?;
    statement.raw_bind_parameter(3, report.observed_generation)?;
    statement.raw_bind_parameter(4, report.last_report_time.micros())?;
    statement.raw_bind_parameter(5, summary.available.name())?;
    statement.raw_bind_parameter(6, summary.finalized)?;
    statement.raw_bind_parameter(7, summary.reason)?;
    statement.raw_bind_parameter(8, summary.message)?;
    statement.raw_bind_parameter(9, report::body(report)?)?;
    statement.raw_bind_parameter(10, report.printed_size() as i64)?;
    Ok(())
}

/// The rows of the feed: changes, recorded responses and the newest version.
fn record(connection: &Connection, set: &WorkingSet) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(&INSERT_CHANGE)?;
    for change in set.changes() {
        statement.execute(params![
            change.version.0,
            change.resource.to_string(),
            &*change.kind,
            change.at.micros(),
            change.actor,
            change.request_id,
            history::body(change)?,
            change.entries.len() as i64,
            change.tenancy.as_ref().map(Tenant::as_str),
            change.touched(),
        ])?;
    }
    for (key, record) in set.new_idempotency_records() {
        connection.prepare_cached(&REPLACE_IDEMPOTENCY_RECORD)?.execute(params![
            key,
            record.body,
            record.at.micros(),
            json_text(&record.response)
        ])?;
    }
    connection
        .prepare_cached("update feed set version = ?1, changed_time = ?2 where version < ?1")?
        .execute((set.version().0, set.changed_time().map(Timestamp::micros)))?;
    Ok(())
}
