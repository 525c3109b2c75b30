//! Statements that stand alone, besides the read of one resource. A list is one statement that chooses the ids
//! first and joins after, so that the planner walks an index for the page and touches wide rows only for what is
//! returned.

use chrono::{DateTime, Utc};
use hyperfleet_core::{ResourceId, Timestamp, Version, View};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::moved::Noted;
use super::row;
use super::wall::{Prepared, Within};
use crate::failure::Failure;
use crate::memory::Mark;
use crate::moment::Moment;
use crate::packed::Dictionaries;
use crate::report_row::REPORT_COLUMNS;
use crate::search::{Dialect, Driver, Plan, Select, Value};
use crate::{BEHIND_COLUMNS, COLUMNS, ListQuery, Page, Pending, ReportPage, Slice, Stuck};

/// How many statements a connection keeps prepared.
const MAX_STATEMENTS: usize = 256;

pub(super) async fn list(
    client: &deadpool_postgres::Client,
    within: Option<Within<'_>>,
    view: View<'_>,
    query: &ListQuery,
    era: u64,
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
            Begin::NothingAt(mark) => {
                let (moment, total) = (Moment { era, mark }, query.count.then_some(0));
                return Ok(Page { moment, total, items: Vec::new(), more: false });
            }
        },
    };
    let ListStatement { text, values, is_lasting } = list_statement(&plan, driver, view, query);
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
    let rows = Prepared::new(client, within, &text, is_lasting).await?.query(client, &values).await?;

    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let moment = Moment { era, mark: Mark { version: Version::default(), commits: 0 } };
    let mut page = Page { moment, total: None, items: Vec::with_capacity(rows.len()), more: false };
    for (i, found) in rows.iter().enumerate() {
        page.moment.mark.version = Version(found.try_get(BEHIND_COLUMNS)?);
        page.moment.mark.commits = found.try_get(BEHIND_COLUMNS + 1)?;
        page.total = found.try_get::<_, Option<i64>>(BEHIND_COLUMNS + 2)?.map(|n| n as u64);
        // A row without a resource stands for none at all.
        if found.try_get::<_, Option<Uuid>>(0)?.is_none() {
            break;
        }
        page.more = i == limit;
        if page.more {
            break;
        }
        page.items.extend(row::resource(view.catalog, found)?);
    }
    Ok(page)
}

/// The table that a list begins with, or that there is nothing in it.
pub(super) enum Begin {
    With(Driver),
    NothingAt(Mark),
}

/// Asks for the numbers that tell where to begin. Often they are the whole answer: whoever looks for what is stale
/// mostly finds nothing. They are of all tenants, and shown to none.
pub(super) async fn begin(client: &deadpool_postgres::Client, plan: &mut Plan<'_>) -> Result<Begin, Failure> {
    let (statement, values) = numbers_statement(plan);
    let statement = client.prepare_cached(&statement).await?;
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
    let row = client.query_one(&statement, &values).await?;
    let mut numbers: Vec<i64> = (2..row.len()).map(|i| row.try_get(i)).collect::<Result<_, _>>()?;
    if numbers.contains(&0) {
        return Ok(Begin::NothingAt(Mark { version: Version(row.try_get(0)?), commits: row.try_get(1)? }));
    }
    let stale = plan.stale_before.and_then(|_| numbers.pop());
    Ok(Begin::With(plan.begin_with_fewest(numbers, stale)))
}

/// Where the feed stands, how many resources there are to look at by each way, and how many are stale, if that is asked:
/// as far as it matters ([`Plan::most_stale`]).
pub(super) fn numbers_statement(plan: &Plan<'_>) -> (String, Vec<Value>) {
    let mut values: Vec<Value> = Vec::new();
    let mut sums: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (i, kept) in plan.numbers().into_iter().enumerate() {
        let places: Vec<String> = (1..=kept.values.len()).map(|n| format!("${}", values.len() + n)).collect();
        sums.push(format!("{} as n{i}", kept.sum("active + finalizing", &places)));
        names.push(format!("n{i}"));
        values.extend(kept.values);
    }
    let (sums, names) = (sums.join(", "), names.join(", "));
    let mut stale = String::new();
    if let Some(time) = plan.stale_before {
        values.push(Value::Time(time));
        stale = format!(
            ", (select count(*) from (
                    select 1 from resource_status where confirmed_after <= ${}
                    order by confirmed_after limit 1 + least({names}) / {}
                ) stale)",
            values.len(),
            plan.share
        );
    }
    (
        format!("select version, commits, {names}{stale} from feed cross join (select {sums} offset 0) kept"),
        values,
    )
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
) -> ListStatement {
    let Select { ids, total, values, is_lasting } = plan.select(query, view, Dialect::Postgres, driver);
    let text = format!(
        "select {COLUMNS}, v.version, v.commits, {total}
         from feed v
         left join (select id, row_number() over () as position from ({ids}) chosen) page on true
         left join resources r on r.id = page.id
         left join resource_status s on s.resource_id = r.id
         order by page.position"
    );
    ListStatement { text, values, is_lasting }
}

/// A slice of the reports on a resource, by reports_pkey.
pub(super) async fn reports(
    client: &deadpool_postgres::Client,
    within: Option<Within<'_>>,
    dictionaries: &Dictionaries,
    resource: ResourceId,
    slice: &Slice,
) -> Result<ReportPage, Failure> {
    let text = format!(
        "select {REPORT_COLUMNS}, f.version,
                case when $2 then (select count(*) from reports where resource_id = $1) end,
                (select moved::text from resource_status where resource_id = $1)
         from feed f left join (
             select * from reports where resource_id = $1 and adapter > $3 order by adapter limit $4 offset $5
         ) page on true
         order by adapter"
    );
    let (after, offset, limit) = slice.bounds();
    let statement = Prepared::new(client, within, &text, true).await?;
    let values: [&(dyn ToSql + Sync); 5] = [&resource.uuid(), &slice.count, &after, &limit, &offset];
    let rows = statement.query(client, &values).await?;
    let mut page = ReportPage { version: Version::default(), total: None, items: Vec::new(), more: false };
    let mut noted = Noted::default();
    if let Some(first) = rows.first() {
        noted.read(resource, first, 11)?;
    }
    for found in &rows {
        page.version = Version(found.try_get(9)?);
        page.total = found.try_get::<_, Option<i64>>(10)?.map(|n| n as u64);
        if found.try_get::<_, Option<Uuid>>(0)?.is_some() {
            page.items.push(noted.applied(resource, row::report(dictionaries, found)?.1));
        }
    }
    page.more = slice.cut(&mut page.items);
    Ok(page)
}

/// What waits: the kept numbers, and by resource_status_pending those that wait for too long.
pub(super) async fn pending(
    client: &deadpool_postgres::Client,
    stuck_before: Timestamp,
) -> Result<Pending, Failure> {
    let waiting = client
        .prepare_cached("select kind, pending_active, pending_finalizing from kind_counts order by kind")
        .await?;
    let stuck = client
        .prepare_cached(
            "select r.kind, r.deleted_time is not null, count(*), min(s.pending_since)
             from resource_status s join resources r on r.id = s.resource_id
             where s.pending_since < $1
             group by 1, 2",
        )
        .await?;
    let mut pending = Pending::default();
    for found in client.query(&waiting, &[]).await? {
        let (active, finalizing): (i64, i64) = (found.try_get(1)?, found.try_get(2)?);
        pending.waiting.push((found.try_get(0)?, active as u64, finalizing as u64));
    }
    for found in client.query(&stuck, &[&stuck_before.utc()]).await? {
        pending.stuck.push(Stuck {
            kind: found.try_get(0)?,
            finalizing: found.try_get(1)?,
            count: found.try_get::<_, i64>(2)? as u64,
            since: found.try_get::<_, DateTime<Utc>>(3)?.into(),
        });
    }
    Ok(pending)
}

/// By which settings the conditions of a kind were computed, and when that is to be looked at again.
pub(super) async fn basis(
    client: &deadpool_postgres::Client,
    kind: &str,
) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
    let row =
        client.query_opt("select basis, look_again_at from aggregations where kind = $1", &[&kind]).await?;
    let Some(row) = row else { return Ok(None) };
    let look_again_at: Option<DateTime<Utc>> = row.try_get(1)?;
    Ok(Some((row.try_get(0)?, look_again_at.map(Timestamp::from))))
}

/// Remembers them.
pub(super) async fn set_basis(
    client: &deadpool_postgres::Client,
    kind: &str,
    basis: &str,
    look_again_at: Option<Timestamp>,
) -> Result<(), Failure> {
    client
        .execute(
            "insert into aggregations (kind, basis, look_again_at) values ($1, $2, $3)
             on conflict (kind) do update
             set basis = excluded.basis, look_again_at = excluded.look_again_at",
            &[&kind, &basis, &look_again_at.map(Timestamp::utc)],
        )
        .await?;
    Ok(())
}

/// The secret with this name; `fresh` if there is none yet.
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

/// The next ids of a kind after the resource that was made at `after`, by resources_by_kind.
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
        .map(|row| Ok((row.try_get::<_, DateTime<Utc>>(0)?.into(), row.try_get::<_, Uuid>(1)?.into())))
        .collect()
}

/// One step: the oldest thousand changes, up to the first that is young enough to stay, so that what is kept has no
/// gaps.
pub(super) async fn prune_history(
    client: &deadpool_postgres::Client,
    before: Timestamp,
) -> Result<u64, Failure> {
    let statement = client
        .prepare_cached(
            "with oldest as materialized (
                 select version, at from changes order by version limit 1000
             ), step as (
                 select max(version) as last from oldest
                 where version < coalesce((select min(version) from oldest where at >= $1), 9223372036854775807)
             ), noted as (
                 update history set forgotten = greatest(forgotten, step.last) from step
                 where step.last is not null
             )
             delete from changes using step where version <= step.last",
        )
        .await?;
    Ok(client.execute(&statement, &[&before.utc()]).await?)
}

/// One step: a thousand answers that are too old to count.
pub(super) async fn prune_retries(
    client: &deadpool_postgres::Client,
    before: Timestamp,
) -> Result<u64, Failure> {
    let statement = client
        .prepare_cached(
            "delete from retries where key = any(array(
                 select key from retries where at <= $1 order by at limit 1000
             ))",
        )
        .await?;
    Ok(client.execute(&statement, &[&before.utc()]).await?)
}
