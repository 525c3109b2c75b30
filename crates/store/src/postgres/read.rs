//! Lists: one statement that chooses the ids first and joins after, so that the planner walks an
//! index for the page and touches wide rows only for what is returned.

use hyperfleet_core::{Catalog, Timestamp, Version};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::row;
use crate::COLUMNS;
use crate::failure::Failure;
use crate::{ListQuery, Page};

pub(super) async fn list(
    client: &deadpool_postgres::Client,
    catalog: &Catalog,
    query: &ListQuery,
) -> Result<Page, Failure> {
    let kinds: Vec<&str> = query.kinds.iter().map(|k| &**k).collect();
    let owner: Option<Uuid> = query.owner.map(hyperfleet_core::ResourceId::uuid);
    let referring: Option<(&str, Uuid)> = query.referring_to.as_ref().map(|(t, id)| (t.as_str(), id.uuid()));
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);

    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&limit, &offset];
    let mut bind = |value| {
        values.push(value);
        format!("${}", values.len())
    };
    // One kind by equality: only then does its index give the order.
    let of_kind = match kinds.as_slice() {
        [_] => format!("r.kind = {}", bind(&kinds[0])),
        _ => format!("r.kind = any({})", bind(&kinds)),
    };
    let mut scope = vec![of_kind.clone()];
    if let Some(owner) = &owner {
        scope.push(format!("r.owner_id = {}", bind(owner)));
    }
    if !query.show_deleted {
        scope.push("r.deleted_time is null".to_owned());
    }
    if let Some((ref_type, target)) = &referring {
        scope.push(format!(
            "r.id in (select source_id from resource_references where target_id = {} and ref_type = {})",
            bind(target),
            bind(ref_type)
        ));
    }
    let scope = scope.join(" and ");
    let total = query.total(&scope, &of_kind);
    let order = query.order_by(catalog);
    let statement = format!(
        "select {COLUMNS}, f.version, {total}
         from feed f
         left join (
             select r.id, row_number() over (order by {order}) as position
             from (select * from resources r where {scope} order by {order} limit $1 offset $2) r
         ) page on true
         left join resources r on r.id = page.id
         left join resource_status s on s.resource_id = r.id
         order by page.position"
    );
    // Callers can write very many orders, and a cached statement stays for as long as its connection.
    let statement = match query.order.as_slice() {
        [_] => client.prepare_cached(&statement).await?,
        _ => client.prepare(&statement).await?,
    };
    let rows = client.query(&statement, &values).await?;

    let mut page = Page { version: Version::default(), total: None, items: Vec::with_capacity(rows.len()) };
    for found in &rows {
        page.version = Version(found.try_get(16)?);
        page.total = found.try_get::<_, Option<i64>>(17)?.map(|n| n as u64);
        if found.try_get::<_, Option<Uuid>>(0)?.is_some() {
            page.items.extend(row::resource(catalog, found)?);
        }
    }
    Ok(page)
}

/// One step: the oldest thousand changes, as far as they are old enough.
pub(super) async fn prune_history(
    client: &deadpool_postgres::Client,
    before: Timestamp,
) -> Result<u64, Failure> {
    let statement = client
        .prepare_cached(
            "delete from changes where version in (
                 select version from (select version, at from changes order by version limit 1000) oldest
                 where at < $1
             )",
        )
        .await?;
    Ok(client.execute(&statement, &[&before.utc()]).await?)
}
