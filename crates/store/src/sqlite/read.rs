//! Reads, and the few small writes that are no command.

use std::sync::LazyLock;

use hyperfleet_core::{Catalog, Reservation, Resource, ResourceId, Timestamp, Version, View, printed_size};
use rusqlite::{Connection, OptionalExtension, Statement, Transaction, TransactionBehavior};

use super::row;
use crate::codec::columns::{READ_REPORT, READ_RESOURCE, READ_STATUS};
use crate::failure::{Failure, FailureKind, readable};
use crate::maintenance::pending::{Pending, Stuck};
use crate::search::{Dialect, Driver, MaintainedCounts, Plan, Select, Value};
use crate::{ListQuery, Page, ReportPage, Slice};

static GET: LazyLock<String> = LazyLock::new(|| get_columns(READ_RESOURCE));
static GET_STATUS: LazyLock<String> = LazyLock::new(|| get_columns(&READ_STATUS));

static REPORTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {READ_REPORT} from latest_reports
         where resource_id = ?1 and adapter > ?2 order by adapter limit ?3 offset ?4"
    )
});

fn get_columns(columns: &str) -> String {
    format!(
        "select {columns} from resources r join resource_status s on s.resource_id = r.id where r.id = ?1"
    )
}

/// A whole resource.
pub(super) fn get(
    connection: &Connection,
    catalog: &Catalog,
    id: ResourceId,
) -> Result<Option<Resource>, Failure> {
    get_by(connection, catalog, &GET, id)
}

/// A resource without spec and references.
pub(super) fn status(
    connection: &Connection,
    catalog: &Catalog,
    id: ResourceId,
) -> Result<Option<Resource>, Failure> {
    get_by(connection, catalog, &GET_STATUS, id)
}

fn get_by(
    connection: &Connection,
    catalog: &Catalog,
    sql: &str,
    id: ResourceId,
) -> Result<Option<Resource>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([id.to_string()])?;
    match rows.next()? {
        Some(found) => row::resource(catalog, found),
        None => Ok(None),
    }
}

/// Chooses the ids and reads them one by one, in one snapshot.
pub(super) fn list(
    connection: &Connection,
    view: View<'_>,
    query: &ListQuery,
    reservation: &Reservation,
) -> Result<Page, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let ListStatements { ids, total, values } = list_statements(&snapshot, view, query)?;
    let mut found = {
        let mut statement = snapshot.prepare_cached(&ids)?;
        // The statement may name fewer values than there are: those of the total stand in its own.
        bind(&mut statement, &values)?;
        let mut rows = statement.raw_query();
        let mut found = Vec::new();
        while let Some(next) = rows.next()? {
            found.push(row::id(row::text(next, 0)?)?);
        }
        found
    };
    let (version, total) = {
        let mut statement = snapshot.prepare_cached(&total)?;
        bind(&mut statement, &values)?;
        let mut rows = statement.raw_query();
        let row = rows.next()?.ok_or_else(|| Failure::new(FailureKind::Defect, "no feed"))?;
        (Version(row.get("version")?), row.get::<_, Option<i64>>("total")?.map(|n| n as u64))
    };
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut more = found.len() > limit;
    found.truncate(limit);
    let (mut items, mut bytes) = (Vec::with_capacity(found.len()), reservation.page());
    for id in found {
        let Some(resource) = readable(id, get(&snapshot, view.catalog, id))? else { continue };
        if !bytes.takes(printed_size(&resource)) {
            more = true;
            break;
        }
        items.push(resource);
    }
    Ok(Page { version, total, items, more })
}

/// The statements of a list, and what is bound to them.
pub(super) struct ListStatements {
    pub(super) ids: String,
    /// The newest version, and the size of the whole result.
    pub(super) total: String,
    pub(super) values: Vec<Value>,
}

pub(super) fn list_statements(
    connection: &Connection,
    view: View<'_>,
    query: &ListQuery,
) -> Result<ListStatements, Failure> {
    let mut plan = Plan::of(query);
    let driver = driver(connection, &mut plan)?;
    let Select { ids, total, values, .. } = plan.select(query, view, Dialect::Sqlite, driver);
    Ok(ListStatements { ids, total: format!("select version, {total} as total from feed"), values })
}

/// SQLite keeps no statistics, so the table to begin with is chosen here.
fn driver(connection: &Connection, plan: &mut Plan<'_>) -> Result<Driver, Failure> {
    if !plan.needs_numbers() {
        return Ok(plan.begin());
    }
    let mut numbers = Vec::new();
    for MaintainedCounts { table, key, values } in plan.numbers() {
        let mut statement = connection
            .prepare_cached(&format!("select active + finalizing from {table} where {key} = ?1"))?;
        let mut number = 0;
        for value in values {
            number += statement.query_row([value], |row| row.get(0)).optional()?.unwrap_or(0_i64);
        }
        numbers.push(number);
    }
    let stale = match plan.stale_before {
        None => None,
        Some(time) => {
            let mut statement = connection.prepare_cached(
                "select count(*) from (select 1 from resource_status where updated_after <= ?1 limit ?2)",
            )?;
            let most = plan.most_stale(&numbers) + 1;
            Some(statement.query_row([time.micros(), most], |row| row.get(0))?)
        }
    };
    Ok(plan.begin_with_fewest(numbers, stale))
}

pub(super) fn bind(statement: &mut Statement<'_>, values: &[Value]) -> Result<(), Failure> {
    for (index, value) in values.iter().enumerate().take(statement.parameter_count()) {
        statement.raw_bind_parameter(index + 1, value)?;
    }
    Ok(())
}

/// A slice of the reports on a resource, by the primary key.
pub(super) fn reports(
    connection: &Connection,
    resource: ResourceId,
    slice: &Slice,
    reservation: &Reservation,
) -> Result<ReportPage, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let mut page = ReportPage::default();
    (page.version, page.total) = snapshot
        .prepare_cached(
            "select version, case when ?2 then (select count(*) from reports where resource_id = ?1) end from feed",
        )?
        .query_row((resource.to_string(), slice.count), |row| {
            Ok((Version(row.get(0)?), row.get::<_, Option<i64>>(1)?.map(|n| n as u64)))
        })?;
    let mut statement = snapshot.prepare_cached(&REPORTS)?;
    let (after, offset, limit) = slice.bounds();
    let mut rows = statement.query((resource.to_string(), after, limit, offset))?;
    let mut bytes = reservation.page();
    while let Some(found) = rows.next()? {
        if !page.take(slice, &mut bytes, row::report(found)?) {
            break;
        }
    }
    drop(rows);
    Ok(page)
}

/// The counts of pending resources, and by resource_status_pending those that are pending for too long.
pub(super) fn pending(connection: &Connection, stuck_before: Timestamp) -> Result<Pending, Failure> {
    let mut waiting = connection
        .prepare_cached("select kind, pending_active, pending_finalizing from kind_counts order by kind")?;
    let waiting = waiting.query_map((), |row| {
        let count = |name| Ok::<_, rusqlite::Error>(row.get::<_, i64>(name)? as u64);
        Ok((row.get("kind")?, count("pending_active")?, count("pending_finalizing")?))
    })?;
    let mut stuck = connection.prepare_cached(
        "select r.kind, r.deleted_time is not null as finalizing, count(*) as count, min(s.pending_since) as since
         from resource_status s join resources r on r.id = s.resource_id
         where s.pending_since < ?1
         group by 1, 2",
    )?;
    let stuck = stuck.query_map([stuck_before.micros()], |row| {
        Ok(Stuck {
            kind: row.get("kind")?,
            finalizing: row.get("finalizing")?,
            count: row.get::<_, i64>("count")? as u64,
            since: Timestamp::from_micros(row.get("since")?),
        })
    })?;
    Ok(Pending { waiting: waiting.collect::<Result<_, _>>()?, stuck: stuck.collect::<Result<_, _>>()? })
}

/// The time of the newest change.
pub(super) fn changed_time(connection: &Connection) -> Result<Option<Timestamp>, rusqlite::Error> {
    let mut statement = connection.prepare_cached("select changed_time from feed")?;
    statement.query_row((), |row| Ok(row.get::<_, Option<i64>>(0)?.map(Timestamp::from_micros)))
}

/// The settings by which the conditions of a kind were computed, and when to check them again.
pub(super) fn stored_settings(
    connection: &Connection,
    kind: &str,
) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
    let mut statement =
        connection.prepare_cached("select settings, recheck_time from aggregations where kind = ?1")?;
    let found = statement.query_row([kind], |row| {
        Ok((row.get("settings")?, row.get::<_, Option<i64>>("recheck_time")?.map(Timestamp::from_micros)))
    });
    Ok(found.optional()?)
}

/// Stores these settings.
pub(super) fn store_settings(
    connection: &Connection,
    kind: &str,
    settings: &str,
    recheck_time: Option<Timestamp>,
) -> Result<(), Failure> {
    connection.execute(
        "insert into aggregations (kind, settings, recheck_time) values (?1, ?2, ?3)
         on conflict (kind) do update set settings = excluded.settings, recheck_time = excluded.recheck_time",
        (kind, settings, recheck_time.map(Timestamp::micros)),
    )?;
    Ok(())
}

/// The secret with this name, or else `fresh`, which is stored.
pub(super) fn secret(connection: &Connection, name: &str, fresh: &[u8]) -> Result<Vec<u8>, Failure> {
    connection
        .execute("insert into secrets (name, value) values (?1, ?2) on conflict do nothing", (name, fresh))?;
    Ok(connection.query_row("select value from secrets where name = ?1", [name], |row| row.get(0))?)
}

/// The next ids of a kind in the order of creation, by resources_by_kind.
pub(super) fn ids_of_kind(
    connection: &Connection,
    kind: &str,
    after: Option<(Timestamp, ResourceId)>,
    limit: i64,
) -> Result<Vec<(Timestamp, ResourceId)>, Failure> {
    let mut statement = connection.prepare_cached(
        "select created_time, id from resources where kind = ?1 and (created_time, id) > (?2, ?3)
         order by created_time, id limit ?4",
    )?;
    let (time, id) = after.map_or((0, String::new()), |(time, id)| (time.micros(), id.to_string()));
    let mut rows = statement.query((kind, time, id, limit))?;
    let mut found = Vec::new();
    while let Some(next) = rows.next()? {
        found.push((row::time(next, "created_time")?, row::id(row::text(next, "id")?)?));
    }
    Ok(found)
}

/// Removes up to a thousand of the oldest changes, up to the first that stays, so that history has no gaps.
pub(super) fn prune_history(connection: &Connection, before: Timestamp) -> Result<u64, Failure> {
    // A read that becomes a write does not wait for another writer: it fails. So it begins as one.
    let step = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let last: Option<i64> = step.query_row(
        "with oldest as materialized (select version, changed_time from changes order by version limit 1000)
         select max(version) from oldest
         where version < coalesce((select min(version) from oldest where changed_time >= ?1), 9223372036854775807)",
        [before.micros()],
        |row| row.get(0),
    )?;
    let Some(last) = last else { return Ok(0) };
    let removed = step.execute("delete from changes where version <= ?1", [last])?;
    step.execute("update history set pruned_version = max(pruned_version, ?1)", [last])?;
    step.commit()?;
    Ok(removed as u64)
}

/// Removes up to a thousand expired idempotency records.
pub(super) fn prune_idempotency_records(connection: &Connection, before: Timestamp) -> Result<u64, Failure> {
    let removed = connection.execute(
        "delete from idempotency_records where key in (
             select key from idempotency_records where created_time <= ?1 order by created_time limit 1000
         )",
        [before.micros()],
    )?;
    Ok(removed as u64)
}
