//! The first round trip of a batch: lock the feed and load every row that the batch can touch, one query for each
//! table. Each statement sees what was committed when the lock was granted.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::try_join;
use hyperfleet_core::rules::{LoadPlan, WorkingSet};
use hyperfleet_core::{
    Catalog, Epoch, FeedPosition, IDEMPOTENCY_RETENTION, NameScope, ResourceId, Tenant, Timestamp, Version,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::row::StoredReportTimes;
use super::session::{Session, set_idle_timeout};
use super::statements::statements;
use super::{row, seconds};
use crate::codec::columns::{READ_REPORT, READ_RESOURCE, READ_STATUS, READ_SUMMARY, read_reports};
use crate::codec::idempotency_record;
use crate::failure::Failure;

/// The ids of the trees: everything below, and the owners above.
const TREES: &str = "with recursive below as (
         select id from resources where id = any($1)
         union
         select r.id from resources r join below on r.owner_id = below.id
     ), above as (
         select id, owner_id from resources where id = any($1)
         union
         select r.id, r.owner_id from resources r join above on r.id = above.owner_id
     ), trees as (
         select id from below union select id from above
     )";

/// The ids of resources and their owners up to the root.
const OWNERS: &str = "with recursive above as (
         select id, owner_id from resources where id = any($1)
         union
         select r.id, r.owner_id from resources r join above on r.id = above.owner_id
     )";

/// Resources with their report times, by a condition on their id.
fn resources(columns: &str, condition: &str) -> String {
    format!(
        "select {columns}, s.report_times::text as report_times
         from resources r join resource_status s on s.resource_id = r.id where r.id {condition}"
    )
}

/// The number of children of each kind of the owners in a set of ids.
fn child_counts(with: &str, owners: &str) -> String {
    format!(
        "{with} select r.owner_id, r.kind, count(*) as children from resources r
         join {owners} owners on r.owner_id = owners.id group by r.owner_id, r.kind"
    )
}

statements! {
    // A row that was waited for is read again, and the clock is read after that.
    lock: "select version, epoch, changed_time, clock_timestamp() as now
           from (select version, epoch, changed_time from feed for update) locked".to_owned(),
    resources: resources(READ_RESOURCE, "= any($1)"),
    statuses: resources(&READ_STATUS, "= any($1)"),
    // By reports_pkey.
    summaries: format!("select {READ_SUMMARY} from reports where resource_id = any($1) and adapter = any($2)"),
    reports: format!(
        "select {READ_REPORT} from unnest($1::uuid[], $2::text[]) asked (id, name)
         join reports on resource_id = id and adapter = name"
    ),
    sizes: "select resource_id, adapter, bytes from reports where resource_id = any($1)".to_owned(),
    all_reports: read_reports("reports", "= any($1)", "$2::bigint"),
    // By resources_active_name.
    names: "select kind, owner_id, name, id, tenancy from resources
            where kind || '/' || coalesce(owner_id::text, tenancy, '') || '/' || name = any($1)
                and deleted_time is null".to_owned(),
    // The trees and their referrers.
    trees: format!(
        "{TREES} {}",
        resources(
            READ_RESOURCE,
            "in (select id from trees
                 union select e.source_id from resource_references e join below on e.target_id = below.id)",
        )
    ),
    child_counts: child_counts(TREES, "trees"),
    referrers: format!(
        "{TREES} select e.target_id, e.source_id from resource_references e
         join below on e.target_id = below.id"
    ),
    owners: format!("{OWNERS} {}", resources(READ_RESOURCE, "in (select id from above)")),
    owners_child_counts: child_counts(OWNERS, "above"),
    idempotency_records: "select key, request, created_time, response from idempotency_records
                          where key = any($1) and created_time > now() - make_interval(secs => $2)".to_owned(),
}

/// Statements with an empty list are not worth a round trip.
async fn ask<const N: usize>(
    client: &Client,
    statement: &Statement,
    nothing: bool,
    values: [&(dyn ToSql + Sync); N],
) -> Result<Vec<Row>, Failure> {
    if nothing { Ok(Vec::new()) } else { Ok(client.query(statement, &values).await?) }
}

/// Loads the rows of `plan`, and reads the database's clock. The session ends when it is idle for longer than
/// `idle_timeout`, so that the lock is not held for longer.
pub(super) async fn load(
    session: &Session,
    catalog: &Catalog,
    plan: &LoadPlan,
    idle_timeout: Option<Duration>,
) -> Result<(WorkingSet, Timestamp), Failure> {
    let Session { client, load: statements, .. } = session;
    // Mapped conditions may look at the whole resource.
    let whole = catalog.has_mappings();
    let (mut ids, mut light) = (Vec::new(), Vec::new());
    ids.extend(plan.ids.iter().map(|id| id.uuid()));
    for id in plan.statuses.difference(&plan.ids) {
        if whole { &mut ids } else { &mut light }.push(id.uuid());
    }
    let statuses = uuids(&plan.statuses);
    let adapters: Vec<&str> = catalog.required_adapters().collect();
    let reported: Vec<Uuid> = plan.reports.iter().map(|(id, _)| id.uuid()).collect();
    let reporters: Vec<&str> = plan.reports.iter().map(|(_, adapter)| &**adapter).collect();
    let measured = uuids(&plan.measured);
    let names: Vec<String> =
        plan.names.iter().map(|(kind, scope, name)| format!("{kind}/{scope}/{name}")).collect();

    let keys: Vec<&[u8]> = plan.idempotency_keys.iter().map(<[u8; 32]>::as_slice).collect();
    let kept = seconds(IDEMPOTENCY_RETENTION);

    let set_timeout = idle_timeout.map(set_idle_timeout).unwrap_or_default();
    let begin = format!("begin isolation level read committed; {set_timeout}");
    let begin = async { Ok(client.batch_execute(&begin).await?) };
    let lock = async { Ok(client.query_one(&statements.lock, &[]).await?) };
    let ((), lock, resources, statuses, summaries, reports, sizes, names, records) = try_join!(
        begin,
        lock,
        ask(client, &statements.resources, ids.is_empty(), [&ids]),
        ask(client, &statements.statuses, light.is_empty(), [&light]),
        ask(client, &statements.summaries, statuses.is_empty(), [&statuses, &adapters]),
        ask(client, &statements.reports, reported.is_empty(), [&reported, &reporters]),
        ask(client, &statements.sizes, measured.is_empty(), [&measured]),
        ask(client, &statements.names, names.is_empty(), [&names]),
        ask(client, &statements.idempotency_records, keys.is_empty(), [&keys, &kept]),
    )?;
    let (epoch, version) = (Epoch(lock.try_get("epoch")?), Version(lock.try_get("version")?));
    let mut set = WorkingSet::new(FeedPosition { epoch, version });
    set.load_changed_time(lock.try_get::<_, Option<DateTime<Utc>>>("changed_time")?.map(Timestamp::from));
    let now = lock.try_get::<_, DateTime<Utc>>("now")?.into();
    let mut report_times = StoredReportTimes::default();
    take_resources(catalog, &resources, &mut set, &mut report_times)?;
    for found in &statuses {
        if let Some(resource) = row::resource(catalog, found)? {
            report_times.read(resource.id, found)?;
            set.load_without_spec(resource);
        }
    }
    take_summaries(&summaries, &mut set, &report_times)?;
    take_reports(&reports, &mut set, &report_times)?;
    plan.measured.iter().for_each(|id| set.load_measured(*id));
    for found in &sizes {
        let (id, bytes): (Uuid, i64) = (found.try_get("resource_id")?, found.try_get("bytes")?);
        set.load_report_size(id.into(), found.try_get::<_, &str>("adapter")?.into(), bytes as usize);
    }
    for found in &names {
        if let Some(entity) = catalog.get(found.try_get("kind")?) {
            let owner: Option<Uuid> = found.try_get("owner_id")?;
            let tenant = found.try_get::<_, Option<&str>>("tenancy")?.map(Tenant::from_stored);
            let scope = owner.map_or(NameScope::Root(tenant), |owner| NameScope::Below(owner.into()));
            let holder: Uuid = found.try_get("id")?;
            set.load_name(entity.kind.clone(), scope, found.try_get("name")?, holder.into());
        }
    }

    for found in &records {
        let created: DateTime<Utc> = found.try_get("created_time")?;
        let (key, record) = idempotency_record(
            found.try_get("key")?,
            found.try_get("request")?,
            created.into(),
            found.try_get("response")?,
        )?;
        set.load_idempotency_record(key, record);
    }

    // A removal also needs the tree of the resource. It is rare, so it takes round trips of its own.
    let roots = plan.roots(&set);
    let trees = uuids(&roots);
    if !trees.is_empty() {
        load_trees(session, catalog, &trees, &mut set, &mut report_times).await?;
    }
    let finalizing: Vec<Uuid> = set
        .loaded()
        .filter(|r| !r.is_active() && plan.statuses.contains(&r.id) && !roots.contains(&r.id))
        .map(|r| r.id.uuid())
        .collect();
    if !finalizing.is_empty() {
        load_owners(session, catalog, &finalizing, &mut set, &mut report_times).await?;
    }
    if !trees.is_empty() || !finalizing.is_empty() {
        let all: Vec<Uuid> = set.loaded().map(|r| r.id.uuid()).collect();
        let summaries = client.query(&statements.summaries, &[&all, &adapters]).await?;
        take_summaries(&summaries, &mut set, &report_times)?;
    }
    let all = !trees.is_empty() || !finalizing.is_empty();
    let read_whole: Vec<Uuid> = plan.read_whole(catalog, &set, all).iter().map(|id| id.uuid()).collect();
    let most = plan.report_bytes as i64;
    let reports = ask(client, &statements.all_reports, read_whole.is_empty(), [&read_whole, &most]).await?;
    take_reports(&reports, &mut set, &report_times)?;
    Ok((set, now))
}

fn uuids(ids: &BTreeSet<ResourceId>) -> Vec<Uuid> {
    ids.iter().map(|id| id.uuid()).collect()
}

fn take_resources(
    catalog: &Catalog,
    rows: &[Row],
    set: &mut WorkingSet,
    report_times: &mut StoredReportTimes,
) -> Result<(), Failure> {
    for found in rows {
        if let Some(resource) = row::resource(catalog, found)? {
            report_times.read(resource.id, found)?;
            set.load(resource);
        }
    }
    Ok(())
}

fn take_summaries(
    rows: &[Row],
    set: &mut WorkingSet,
    report_times: &StoredReportTimes,
) -> Result<(), Failure> {
    for found in rows {
        let (id, mut summary) = row::summary(found)?;
        summary.time = report_times.latest(id, &summary.adapter, summary.time);
        set.load_summary(id, summary);
    }
    Ok(())
}

fn take_reports(rows: &[Row], set: &mut WorkingSet, report_times: &StoredReportTimes) -> Result<(), Failure> {
    for found in rows {
        if found.try_get::<_, Option<&[u8]>>("body")?.is_none() {
            set.load_oversized(found.try_get::<_, Uuid>("resource_id")?.into());
            continue;
        }
        let (id, report) = row::report(found)?;
        set.load_report(id, report_times.applied(id, report));
    }
    Ok(())
}

fn take_child_counts(rows: &[Row], set: &mut WorkingSet) -> Result<(), Failure> {
    for found in rows {
        let owner: Uuid = found.try_get("owner_id")?;
        let kind: &str = found.try_get("kind")?;
        set.load_child_count(owner.into(), kind.into(), found.try_get::<_, i64>("children")? as usize);
    }
    Ok(())
}

async fn load_trees(
    session: &Session,
    catalog: &Catalog,
    trees: &[Uuid],
    set: &mut WorkingSet,
    report_times: &mut StoredReportTimes,
) -> Result<(), Failure> {
    let Session { client, load: statements, .. } = session;
    let roots: [&(dyn ToSql + Sync); 1] = [&trees];
    let (resources, counts, referrers) = try_join!(
        client.query(&statements.trees, &roots),
        client.query(&statements.child_counts, &roots),
        client.query(&statements.referrers, &roots),
    )?;
    take_resources(catalog, &resources, set, report_times)?;
    take_child_counts(&counts, set)?;
    for found in &referrers {
        let (target, source): (Uuid, Uuid) = (found.try_get("target_id")?, found.try_get("source_id")?);
        set.load_referrer(target.into(), source.into());
    }
    Ok(())
}

async fn load_owners(
    session: &Session,
    catalog: &Catalog,
    of: &[Uuid],
    set: &mut WorkingSet,
    report_times: &mut StoredReportTimes,
) -> Result<(), Failure> {
    let Session { client, load: statements, .. } = session;
    let roots: [&(dyn ToSql + Sync); 1] = [&of];
    let (owners, counts) = try_join!(
        client.query(&statements.owners, &roots),
        client.query(&statements.owners_child_counts, &roots),
    )?;
    take_resources(catalog, &owners, set, report_times)?;
    take_child_counts(&counts, set)
}
