//! Leases on PostgreSQL, by the database's clock, which is the same for all replicas. All by leases_pkey.

use std::time::Duration;

use chrono::{DateTime, Utc};
use deadpool_postgres::Client;
use hyperfleet_core::{Claim, Epoch, Lease, Timestamp, Version};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::row_security::{Prepared, TenantScope};
use super::seconds;
use crate::failure::Failure;
use crate::{LeasePage, Slice};

/// A slice of the held leases.
pub(super) async fn list(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    scope: &str,
    group: &str,
    slice: &Slice,
) -> Result<LeasePage, Failure> {
    let text = "with group_leases as (
            select * from leases where tenancy = $1 and group_name = $2 and expires > now()
        )
        select page.name, page.holder, page.expires, page.version, total
        from (select case when $3 then (select count(*) from group_leases) end as total) counted
        left join (
            select * from group_leases where name > $4 order by name limit $5 offset $6
        ) page on true
        order by page.name";
    let (after, offset, limit) = slice.bounds();
    let values: [&(dyn ToSql + Sync); 6] = [&scope, &group, &slice.count, &after, &limit, &offset];
    let rows = Prepared::new(client, tenant_scope, text).await?.query(client, &values).await?;
    let mut page = LeasePage { total: None, items: Vec::new(), more: false };
    for found in &rows {
        page.total = found.try_get::<_, Option<i64>>("total")?.map(|n| n as u64);
        page.items.extend(lease(found)?);
    }
    page.more = slice.cut(&mut page.items);
    Ok(page)
}

/// The lease, and the epoch and the time of the database.
pub(super) async fn find(
    client: &Client,
    scope: &str,
    claim: &Claim,
) -> Result<(Epoch, Timestamp, Option<Lease>), Failure> {
    let statement = client
        .prepare_cached(
            "select name, holder, expires, leases.version, epoch, now() as now from feed
             left join leases on tenancy = $1 and group_name = $2 and name = $3",
        )
        .await?;
    let found = client.query_one(&statement, &[&scope, &claim.group, &claim.name]).await?;
    let now = found.try_get::<_, DateTime<Utc>>("now")?.into();
    Ok((Epoch(found.try_get("epoch")?), now, lease(&found)?))
}

/// Stores the lease unless another claim has changed it since it was read.
pub(super) async fn put(
    client: &Client,
    scope: &str,
    group: &str,
    found: Option<Version>,
    lease: &Lease,
) -> Result<bool, Failure> {
    let statement = client
        .prepare_cached(
            "insert into leases as kept (tenancy, group_name, name, holder, expires, version)
             values ($1, $2, $3, $4, $5, $6)
             on conflict (tenancy, group_name, name) do update
             set holder = excluded.holder, expires = excluded.expires, version = excluded.version
             where kept.version = $7",
        )
        .await?;
    let (expires, found) = (lease.expires.utc(), found.map(|version| version.0));
    let values: [&(dyn ToSql + Sync); 7] =
        [&scope, &group, &lease.name, &lease.holder, &expires, &lease.version.0, &found];
    Ok(client.execute(&statement, &values).await? > 0)
}

/// Removes up to a thousand leases that expired longer ago than `age`, by leases_by_expiry.
pub(super) async fn prune(client: &Client, age: Duration) -> Result<u64, Failure> {
    let statement = client
        .prepare_cached(
            "delete from leases where ctid = any(array(
                 select ctid from leases where expires <= now() - make_interval(secs => $1)
                 order by expires limit 1000
             )) and expires <= now() - make_interval(secs => $1)",
        )
        .await?;
    Ok(client.execute(&statement, &[&seconds(age)]).await?)
}

fn lease(found: &Row) -> Result<Option<Lease>, Failure> {
    let Some(name) = found.try_get("name")? else { return Ok(None) };
    Ok(Some(Lease {
        name,
        holder: found.try_get("holder")?,
        expires: found.try_get::<_, DateTime<Utc>>("expires")?.into(),
        version: Version(found.try_get("version")?),
    }))
}
