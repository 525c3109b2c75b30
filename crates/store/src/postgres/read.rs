//! Reads of one statement other than point reads. A list chooses the ids first and joins after, so that the planner walks an
//! index for the page and reads wide rows only for its items.

use std::time::Duration;

use chrono::{DateTime, Utc};
use hyperfleet_core::{Reservation, ResourceId, Timestamp, Version, View, printed_size};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::row::StoredReportTimes;
use super::row_security::{Prepared, TenantScope, each_once};
use super::{row, seconds};
use crate::codec::columns::{READ_REPORT, READ_RESOURCE, RESOURCE_BYTES};
use crate::failure::{Failure, readable};
use crate::maintenance::pending::{Pending, Stuck};
use crate::search::{Dialect, Driver, Plan, Select, Value};
use crate::{ListQuery, Page, ReportPage, Slice};

/// How many statements a connection keeps prepared.
const MAX_STATEMENTS: usize = 256;

pub(super) async fn list(
    client: &deadpool_postgres::Client,
    tenant_scope: Option<TenantScope<'_>>,
    view: View<'_>,
    query: &ListQuery,
    reservation: &Reservation,
) -> Result<Page, Failure> {
    // Callers can write very many searches, and a cached statement stays for as long as its connection.
    if client.statement_cache.size() >= MAX_STATEMENTS {
        client.statement_cache.clear();
    }
    let mut plan = Plan::of(query);
    let driver = match plan.needs_numbers() {
        false => plan.begin(),
        true => match begin(client, &mut plan).await? {
            Begin::With(driver) => driver,
            Begin::NothingAt(version) => {
                let total = query.count.then_some(0);
                return Ok(Page { version, total, items: Vec::new(), more: false });
            }
        },
    };
    let statement = list_statement(&plan, driver, view, query, reservation.page_limit());
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut page = Page { version: Version::default(), total: None, items: Vec::new(), more: false };
    let (mut bytes, mut rows) = (reservation.page(), 0);
    let take = |found: &Row| {
        page.version = Version(found.try_get("feed_version")?);
        page.total = found.try_get::<_, Option<i64>>("total")?.map(|n| n as u64);
        // The feed's row comes without a resource if the list is empty.
        if found.try_get::<_, Option<Uuid>>("id")?.is_none() {
            return Ok(false);
        }
        page.more = rows == limit;
        rows += 1;
        if !page.more
            && let Some(resource) =
                readable(found.try_get::<_, Uuid>("id")?, row::resource(view.catalog, found))?
        {
            page.more = !bytes.takes(printed_size(&resource));
            if !page.more {
                page.items.push(resource);
            }
        }
        Ok(!page.more)
    };
    match statement.is_lasting {
        true => {
            let prepared = Prepared::new(client, tenant_scope, &statement.text).await?;
            let values: Vec<&(dyn ToSql + Sync)> = statement.values.iter().map(|value| value as _).collect();
            prepared.each(client, &values, take).await?;
        }
        false => each_once(client, tenant_scope, &statement.text, &statement.values, take).await?,
    }
    Ok(page)
}

/// The table that a list begins with, or the version at which the list is empty.
pub(super) enum Begin {
    With(Driver),
    NothingAt(Version),
}

/// Reads the counts that decide which table to begin with. Often one is zero, and the list is empty. The counts are
/// those of all tenants and are shown to none.
pub(super) async fn begin(client: &deadpool_postgres::Client, plan: &mut Plan<'_>) -> Result<Begin, Failure> {
    let (statement, values) = numbers_statement(plan);
    let statement = client.prepare_cached(&statement).await?;
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
    let row = client.query_one(&statement, &values).await?;
    let mut numbers: Vec<i64> = (1..row.len()).map(|i| row.try_get(i)).collect::<Result<_, _>>()?;
    if numbers.contains(&0) {
        return Ok(Begin::NothingAt(Version(row.try_get("version")?)));
    }
    let stale = plan.stale_before.and_then(|_| numbers.pop());
    Ok(Begin::With(plan.begin_with_fewest(numbers, stale)))
}

/// The newest version, the number of rows behind each possible first table, and the number of stale resources as far as it
/// matters ([`Plan::most_stale`]).
pub(super) fn numbers_statement(plan: &Plan<'_>) -> (String, Vec<Value>) {
    let mut values: Vec<Value> = Vec::new();
    let mut sums: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (i, counts) in plan.numbers().into_iter().enumerate() {
        let places: Vec<String> =
            (1..=counts.values.len()).map(|n| format!("${}", values.len() + n)).collect();
        sums.push(format!("{} as n{i}", counts.sum("active + finalizing", &places)));
        names.push(format!("n{i}"));
        values.extend(counts.values);
    }
    let (sums, names) = (sums.join(", "), names.join(", "));
    let mut stale = String::new();
    if let Some(time) = plan.stale_before {
        values.push(Value::Time(time));
        stale = format!(
            ", (select count(*) from (
                    select 1 from resource_status where updated_after <= ${}
                    order by updated_after limit 1 + least({names}) / {}
                ) stale)",
            values.len(),
            plan.share
        );
    }
    (format!("select version, {names}{stale} from feed cross join (select {sums} offset 0) counts"), values)
}

/// The statement of a list, and what is bound to it.
pub(super) struct ListStatement {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
    pub(super) is_lasting: bool,
}

pub(super) fn list_statement(
    plan: &Plan<'_>,
    driver: Driver,
    view: View<'_>,
    query: &ListQuery,
    page_limit: usize,
) -> ListStatement {
    let Select { ids, total, values, is_lasting } = plan.select(query, view, Dialect::Postgres, driver);
    // Resources beyond the limit are not fetched, except for one that tells that the list goes on.
    let text = format!(
        "select * from (
             select {READ_RESOURCE}, v.version as feed_version, {total} as total, page.position,
                    sum({RESOURCE_BYTES}) over (order by page.position rows unbounded preceding) - {RESOURCE_BYTES}
                        as bytes_before
             from feed v
             left join (select id, row_number() over () as position from ({ids}) chosen) page on true
             left join resources r on r.id = page.id
             left join resource_status s on s.resource_id = r.id
         ) list
         where coalesce(bytes_before, 0) <= {}
         order by position",
        bound(page_limit)
    );
    ListStatement { text, values, is_lasting }
}

/// A limit of bytes as a literal.
pub(super) fn bound(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A slice of the reports on a resource, by reports_pkey. Reports beyond the limit come without their bodies.
pub(super) async fn reports(
    client: &deadpool_postgres::Client,
    tenant_scope: Option<TenantScope<'_>>,
    resource: ResourceId,
    slice: &Slice,
    reservation: &Reservation,
) -> Result<ReportPage, Failure> {
    let text = format!(
        "select {READ_REPORT}, f.version as feed_version,
                case when $2 then (select count(*) from reports where resource_id = $1) end as total,
                (select report_times::text from resource_status where resource_id = $1) as report_times
         from feed f left join (
             select resource_id, adapter, observed_generation, last_report_time, created_time,
                    case when sum(octet_length(body)) over (order by adapter) - octet_length(body) <= {}
                         then body end as body
             from (
                 select * from reports where resource_id = $1 and adapter > $3 order by adapter limit $4 offset $5
             ) found
         ) page on true
         order by adapter",
        bound(reservation.page_limit())
    );
    let (after, offset, limit) = slice.bounds();
    let statement = Prepared::new(client, tenant_scope, &text).await?;
    let values: [&(dyn ToSql + Sync); 5] = [&resource.uuid(), &slice.count, &after, &limit, &offset];
    let mut page = ReportPage::default();
    let (mut report_times, mut bytes) = (StoredReportTimes::default(), reservation.page());
    let take = |found: &Row| {
        page.version = Version(found.try_get("feed_version")?);
        page.total = found.try_get::<_, Option<i64>>("total")?.map(|n| n as u64);
        if found.try_get::<_, Option<Uuid>>("resource_id")?.is_none() {
            return Ok(false);
        }
        if found.try_get::<_, Option<&[u8]>>("body")?.is_none() {
            page.more = true;
            bytes.cut();
            return Ok(false);
        }
        if page.items.is_empty() {
            report_times.read(resource, found)?;
        }
        Ok(page.take(slice, &mut bytes, report_times.applied(resource, row::report(found)?.1)))
    };
    statement.each(client, &values, take).await?;
    Ok(page)
}

/// The counts of pending resources, and by resource_status_pending those that are pending for too long.
pub(super) async fn pending(
    client: &deadpool_postgres::Client,
    stuck_before: Timestamp,
) -> Result<Pending, Failure> {
    let waiting = client
        .prepare_cached("select kind, pending_active, pending_finalizing from kind_counts order by kind")
        .await?;
    let stuck = client
        .prepare_cached(
            "select r.kind, r.deleted_time is not null as finalizing, count(*), min(s.pending_since) as since
             from resource_status s join resources r on r.id = s.resource_id
             where s.pending_since < $1
             group by 1, 2",
        )
        .await?;
    let mut pending = Pending::default();
    for found in client.query(&waiting, &[]).await? {
        let (active, finalizing): (i64, i64) =
            (found.try_get("pending_active")?, found.try_get("pending_finalizing")?);
        pending.waiting.push((found.try_get("kind")?, active as u64, finalizing as u64));
    }
    for found in client.query(&stuck, &[&stuck_before.utc()]).await? {
        pending.stuck.push(Stuck {
            kind: found.try_get("kind")?,
            finalizing: found.try_get("finalizing")?,
            count: found.try_get::<_, i64>("count")? as u64,
            since: found.try_get::<_, DateTime<Utc>>("since")?.into(),
        });
    }
    Ok(pending)
}

/// The settings by which the conditions of a kind were computed, and when to check them again.
pub(super) async fn stored_settings(
    client: &deadpool_postgres::Client,
    kind: &str,
) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
    let row =
        client.query_opt("select settings, recheck_time from aggregations where kind = $1", &[&kind]).await?;
    let Some(row) = row else { return Ok(None) };
    let recheck_time: Option<DateTime<Utc>> = row.try_get("recheck_time")?;
    Ok(Some((row.try_get("settings")?, recheck_time.map(Timestamp::from))))
}

/// Stores these settings.
pub(super) async fn store_settings(
    client: &deadpool_postgres::Client,
    kind: &str,
    settings: &str,
    recheck_time: Option<Timestamp>,
) -> Result<(), Failure> {
    client
        .execute(
            "insert into aggregations (kind, settings, recheck_time) values ($1, $2, $3)
             on conflict (kind) do update
             set settings = excluded.settings, recheck_time = excluded.recheck_time",
            &[&kind, &settings, &recheck_time.map(Timestamp::utc)],
        )
        .await?;
    Ok(())
}

/// The secret with this name, or else `fresh`, which is stored.
pub(super) async fn secret(
    client: &deadpool_postgres::Client,
    name: &str,
    fresh: &[u8],
) -> Result<Vec<u8>, Failure> {
    client
        .execute("insert into secrets (name, value) values ($1, $2) on conflict do nothing", &[&name, &fresh])
        .await?;
    Ok(client.query_one("select value from secrets where name = $1", &[&name]).await?.try_get(0)?)
}

/// The next ids of a kind in the order of creation, by resources_by_kind.
pub(super) async fn ids_of_kind(
    client: &deadpool_postgres::Client,
    kind: &str,
    after: Option<(Timestamp, ResourceId)>,
    limit: i64,
) -> Result<Vec<(Timestamp, ResourceId)>, Failure> {
    let (time, id) = after.unwrap_or((Timestamp::from_micros(0), Uuid::nil().into()));
    let rows = client
        .query(
            "select created_time, id from resources where kind = $1 and (created_time, id) > ($2, $3)
             order by created_time, id limit $4",
            &[&kind, &time.utc(), &id.uuid(), &limit],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok((
                row.try_get::<_, DateTime<Utc>>("created_time")?.into(),
                row.try_get::<_, Uuid>("id")?.into(),
            ))
        })
        .collect()
}

/// Removes up to a thousand changes that are older than `age`, up to the first that stays, so that history has no gaps.
pub(super) async fn prune_history(client: &deadpool_postgres::Client, age: Duration) -> Result<u64, Failure> {
    let statement = client
        .prepare_cached(
            "with oldest as materialized (
                 select version, changed_time from changes order by version limit 1000
             ), step as (
                 select max(version) as last from oldest
                 where version < coalesce((select min(version) from oldest
                     where changed_time >= now() - make_interval(secs => $1)), 9223372036854775807)
             ), pruned as (
                 update history set pruned_version = greatest(pruned_version, step.last) from step
                 where step.last is not null
             )
             delete from changes using step where version <= step.last",
        )
        .await?;
    Ok(client.execute(&statement, &[&seconds(age)]).await?)
}

/// Removes up to a thousand idempotency records that are older than `age`.
pub(super) async fn prune_idempotency_records(
    client: &deadpool_postgres::Client,
    age: Duration,
) -> Result<u64, Failure> {
    let statement = client
        .prepare_cached(
            "delete from idempotency_records where key = any(array(
                 select key from idempotency_records where created_time <= now() - make_interval(secs => $1)
                 order by created_time limit 1000
             ))",
        )
        .await?;
    Ok(client.execute(&statement, &[&seconds(age)]).await?)
}
