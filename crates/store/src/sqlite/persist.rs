//! Writes the differences of a batch, table by table. What goes and what frees its name comes before
//! what is new, so that one batch can delete a name and use it again.

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Catalog, Phase, Report, Resource, ResourceId, Tenant, Timestamp, json_text};
use rusqlite::{Connection, Statement, params};

use super::row;
use crate::differences::{Differences, Refreshed};
use crate::facets::FacetDifferences;
use crate::failure::Failure;
use crate::memory::Mark;
use crate::moved::Moves;
use crate::packed::Dictionaries;
use crate::report_row::ReportTexts;
use crate::{ancestors, confirmed, past, shorthand};

pub(super) fn persist(
    connection: &Connection,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    set: &WorkingSet,
    left: Mark,
) -> Result<(), Failure> {
    let differences = Differences::of(set)?;
    let moves = Moves::of(catalog, set, &differences);
    for id in &differences.unlinked {
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
    update(connection, &differences.updated)?;
    insert(connection, &differences.inserted)?;
    restate(connection, &differences.restated)?;
    refresh(connection, &differences.refreshed, &moves)?;
    refacet(connection, &differences.facets)?;
    insert_reports(connection, dictionaries, &differences.new_reports)?;
    update_reports(connection, dictionaries, &differences.changed_reports)?;
    for (id, report) in &differences.set_back {
        connection
            .prepare_cached(
                "update resource_status set moved = json_remove(moved, ?2) where resource_id = ?1 and moved is not null",
            )?
            .execute((id.to_string(), format!("$.{}", json_text(&&*report.adapter))))?;
    }
    for (id, report) in &moves.in_rows {
        connection
            .prepare_cached(
                "update reports set last_report_time = ?3 where resource_id = ?1 and adapter = ?2",
            )?
            .execute((id.to_string(), &report.adapter, report.last_report_time.micros()))?;
    }
    for link in &differences.links {
        connection
            .prepare_cached(
                "insert into resource_references (source_id, ref_type, target_id) values (?1, ?2, ?3)",
            )?
            .execute((link.source.to_string(), &link.ref_type, link.target.to_string()))?;
    }
    for (kind, by) in &differences.counts {
        connection
            .prepare_cached(
                "insert into kind_counts (kind, active, finalizing, pending_active, pending_finalizing)
                 values (?1, ?2, ?3, ?4, ?5)
                 on conflict (kind) do update
                 set active = active + excluded.active, finalizing = finalizing + excluded.finalizing,
                     pending_active = pending_active + excluded.pending_active,
                     pending_finalizing = pending_finalizing + excluded.pending_finalizing",
            )?
            .execute((kind, by.active, by.finalizing, by.pending_active, by.pending_finalizing))?;
    }
    record(connection, dictionaries, set, left)
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
              created_time, created_by, updated_time, updated_by, deleted_time, deleted_by, tenancy)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    let mut narrow = connection.prepare_cached(
        "insert into resource_status (resource_id, version, conditions, pending_since, confirmed_after)
         values (?1, ?2, ?3, ?4, ?5)",
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
            r.tenancy.as_ref().map(Tenant::as_str),
        ])?;
        narrow.execute(params![
            id,
            r.version.0,
            shorthand::shorten(r.conditions.as_str()),
            r.pending_since.map(Timestamp::micros),
            confirmed::of(r)?.map(Timestamp::micros),
        ])?;
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
    let mut statement = connection.prepare_cached(
        "update resource_status
         set version = ?2, conditions = ?3, refreshed = '', pending_since = ?4, confirmed_after = ?5
         where resource_id = ?1",
    )?;
    for r in resources {
        statement.execute(params![
            r.id.to_string(),
            r.version.0,
            shorthand::shorten(r.conditions.as_str()),
            r.pending_since.map(Timestamp::micros),
            confirmed::of(r)?.map(Timestamp::micros),
        ])?;
    }
    Ok(())
}

/// SQLite writes an index whenever its column is named, so the one that seldom moves is named only then.
fn refresh(connection: &Connection, refreshed: &[Refreshed<'_>], moves: &Moves<'_>) -> Result<(), Failure> {
    const TIMES: &str = "refreshed = ?2, moved = coalesce(json_patch(coalesce(moved, '{}'), ?3), moved)";
    let mut times =
        connection.prepare_cached(&format!("update resource_status set {TIMES} where resource_id = ?1"))?;
    let mut times_and_index = connection.prepare_cached(&format!(
        "update resource_status set {TIMES}, confirmed_after = ?4 where resource_id = ?1"
    ))?;
    for r in refreshed {
        let (id, printed, noted) = (r.id.to_string(), row::print_times(&r.times), moves.noted(r.id));
        match r.moved()? {
            true => {
                times_and_index.execute((id, printed, noted, r.confirmed_after.map(Timestamp::micros)))?
            }
            false => times.execute((id, printed, noted))?,
        };
    }
    Ok(())
}

fn refacet(connection: &Connection, facets: &FacetDifferences) -> Result<(), Failure> {
    let mut delete = connection.prepare_cached(
        "delete from resource_facets where facet = ?1 and created_time = ?2 and resource_id = ?3",
    )?;
    for row in &facets.gone {
        delete.execute((row.facet.bytes(), row.created_time.micros(), row.resource.to_string()))?;
    }
    let mut insert = connection.prepare_cached(
        "insert into resource_facets (facet, created_time, resource_id) values (?1, ?2, ?3)",
    )?;
    for row in &facets.new {
        insert.execute((row.facet.bytes(), row.created_time.micros(), row.resource.to_string()))?;
    }
    let mut count = connection.prepare_cached(
        "insert into facet_counts (facet, active, finalizing) values (?1, ?2, ?3)
         on conflict (facet) do update
         set active = active + excluded.active, finalizing = finalizing + excluded.finalizing",
    )?;
    for (facet, (active, finalizing)) in &facets.counts {
        count.execute((facet.bytes(), active, finalizing))?;
    }
    let mut tidy = connection
        .prepare_cached("delete from facet_counts where facet = ?1 and active = 0 and finalizing = 0")?;
    for row in &facets.gone {
        tidy.execute([row.facet.bytes()])?;
    }
    Ok(())
}

fn insert_reports(
    connection: &Connection,
    dictionaries: &Dictionaries,
    reports: &[(ResourceId, &Report)],
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "insert into reports
             (resource_id, adapter, observed_generation, last_report_time, available, finalized, reason,
              message, packed, data, metadata, conditions, created_time)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, '', ?12)",
    )?;
    for (id, report) in reports {
        bind_report(&mut statement, dictionaries, *id, report)?;
        statement.raw_bind_parameter(12, report.created_time.micros())?;
        statement.raw_execute()?;
    }
    Ok(())
}

fn update_reports(
    connection: &Connection,
    dictionaries: &Dictionaries,
    reports: &[(ResourceId, &Report)],
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "update reports
         set observed_generation = ?3, last_report_time = ?4, available = ?5, finalized = ?6, reason = ?7,
             message = ?8, packed = ?9, data = ?10, metadata = ?11, conditions = ''
         where resource_id = ?1 and adapter = ?2",
    )?;
    for (id, report) in reports {
        bind_report(&mut statement, dictionaries, *id, report)?;
        statement.raw_execute()?;
    }
    Ok(())
}

/// Binds what every report carries.
fn bind_report(
    statement: &mut Statement<'_>,
    dictionaries: &Dictionaries,
    id: ResourceId,
    report: &Report,
) -> Result<(), Failure> {
    let standing = report.standing();
    statement.raw_bind_parameter(1, id.to_string())?;
    statement.raw_bind_parameter(2, &report.adapter)?;
    statement.raw_bind_parameter(3, report.observed_generation)?;
    statement.raw_bind_parameter(4, report.last_report_time.micros())?;
    statement.raw_bind_parameter(5, standing.available.name())?;
    statement.raw_bind_parameter(6, standing.finalized)?;
    statement.raw_bind_parameter(7, standing.reason)?;
    statement.raw_bind_parameter(8, standing.message)?;
    let texts = ReportTexts::of(dictionaries, report)?;
    statement.raw_bind_parameter(9, texts.packed)?;
    statement.raw_bind_parameter(10, texts.data)?;
    statement.raw_bind_parameter(11, texts.metadata)?;
    Ok(())
}

/// The change rows and where they leave the feed.
fn record(
    connection: &Connection,
    dictionaries: &Dictionaries,
    set: &WorkingSet,
    left: Mark,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "insert into changes
             (version, resource_id, kind, at, actor, request_id, packed, size, tenancy, touched, entries)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, '')",
    )?;
    for change in set.changes() {
        statement.execute(params![
            change.version.0,
            change.resource.to_string(),
            &*change.kind,
            change.at.micros(),
            change.actor,
            change.request_id,
            past::pack(dictionaries, change)?,
            change.entries.len() as i64,
            change.tenancy.as_ref().map(Tenant::as_str),
            change.touched(),
        ])?;
    }
    for (key, kept) in set.new_answers() {
        // One that is there is too old to count.
        connection
            .prepare_cached("insert or replace into retries (key, body, at, answer) values (?1, ?2, ?3, ?4)")?
            .execute(params![key, kept.body, kept.at.micros(), json_text(&kept.answer)])?;
    }
    connection
        .prepare_cached("update feed set version = ?1, commits = ?2")?
        .execute([left.version.0, left.commits])?;
    Ok(())
}
