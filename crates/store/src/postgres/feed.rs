//! Reads of the feed, each one statement and so one snapshot.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use hyperfleet_core::{Catalog, Epoch, FeedPosition, ResourceId, Version, View};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::read::{Begin, begin};
use super::row;
use super::row_security::{Prepared, TenantScope, each_once};
use crate::ListQuery;
use crate::failure::{Failure, readable};
use crate::feed::{FeedBounds, FeedPage, FeedRow, Later, StoredChange};
use crate::search::{Dialect, Plan};

/// With `c.resource_id = …` PostgreSQL could walk the primary key instead, through the changes of all resources, because
/// that has the order of versions too. With a comparison of rows beside it, it would begin with the first change of the
/// resource. A comparison of `version` with a subquery would find nothing by index where policies apply.
const LATER: Later = Later {
    next: "cross join lateral (
               select c.version, c.touched_parts from changes c
               where c.resource_id >= f.resource_id and c.resource_id <= f.resource_id and c.version > f.version
                   and c.touched_parts & f.missing <> 0
               order by c.resource_id, c.version limit 1
           ) n",
    parameters: "$1::uuid, $2::bigint",
};

pub(super) static PAGE: LazyLock<String> = LazyLock::new(|| LATER.page_statement());
pub(super) static STATES: LazyLock<String> = LazyLock::new(|| LATER.states_statement());

pub(super) const BOUNDS: &str = "select pruned_version, version, epoch from history, feed";

pub(super) async fn bounds(client: &deadpool_postgres::Client) -> Result<FeedBounds, Failure> {
    let statement = client.prepare_cached(BOUNDS).await?;
    let row = client.query_one(&statement, &[]).await?;
    let newest =
        FeedPosition { epoch: Epoch(row.try_get("epoch")?), version: Version(row.try_get("version")?) };
    Ok(FeedBounds { pruned: Version(row.try_get("pruned_version")?), newest })
}

/// Changes the epoch.
pub(super) async fn begin_epoch(client: &tokio_postgres::Client) -> Result<Epoch, Failure> {
    Ok(Epoch(client.query_one("update feed set epoch = default returning epoch", &[]).await?.try_get(0)?))
}

/// Changes an epoch, unless another replica has changed it.
pub(super) async fn renew_epoch(client: &deadpool_postgres::Client, epoch: Epoch) -> Result<(), Failure> {
    client.execute("update feed set epoch = default where epoch = $1", &[&epoch.0]).await?;
    Ok(())
}

/// The page after `position`; `None` if it gets too large.
pub(super) async fn feed_page(
    client: &deadpool_postgres::Client,
    catalog: &Catalog,
    position: Version,
    limit: i64,
) -> Result<Option<FeedPage>, Failure> {
    let statement = client.prepare_cached(&PAGE).await?;
    let rows = client.query_raw(&statement, [position.0, limit]).await?;
    futures_util::pin_mut!(rows);
    let mut page = FeedPage::after(position);
    while let Some(found) = rows.try_next().await? {
        page.newest = FeedPosition {
            epoch: Epoch(found.try_get("epoch")?),
            version: Version(found.try_get("feed_version")?),
        };
        page.pruned = Version(found.try_get("pruned_version")?);
        page.through = Version(found.try_get("through")?);
        if !page.push(feed_row(catalog, &found)?) {
            return Ok(None);
        }
    }
    Ok(Some(page))
}

/// The newest states of resources and their changes after `since`, resource by resource.
pub(super) async fn states(
    client: &deadpool_postgres::Client,
    tenant_scope: Option<TenantScope<'_>>,
    catalog: &Catalog,
    ids: &[ResourceId],
    since: Version,
) -> Result<Vec<Vec<FeedRow>>, Failure> {
    let statement = Prepared::new(client, tenant_scope, &STATES).await?;
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let values: Vec<[&(dyn ToSql + Sync); 2]> = ids.iter().map(|id| [id as _, &since.0 as _]).collect();
    let answers = try_join_all(values.iter().map(|values| statement.query(client, values))).await?;
    let feed_rows = |rows: &Vec<Row>| rows.iter().map(|found| feed_row(catalog, found)).collect();
    answers.iter().map(feed_rows).collect()
}

fn feed_row(catalog: &Catalog, found: &Row) -> Result<FeedRow, Failure> {
    let current = match found.try_get::<_, Option<Uuid>>("id")? {
        Some(id) => readable(id, row::resource(catalog, found))?,
        None => None,
    };
    let change = match found.try_get::<_, Option<i64>>("change_version")? {
        Some(version) => Some(StoredChange::readable(
            version,
            found.try_get::<_, Uuid>("changed_resource")?.into(),
            found.try_get::<_, DateTime<Utc>>("changed_time")?.into(),
            found.try_get("body")?,
        )),
        None => None,
    };
    Ok(FeedRow { current, change })
}

/// The versions of the resources with these ids, and the newest version.
pub(super) fn snapshot_statement(ids: &str) -> String {
    format!(
        "select f.version as feed_version, s.version, chosen.id from feed f
         left join ({ids}) chosen on true
         left join resource_status s on s.resource_id = chosen.id"
    )
}

/// The versions and ids of the resources that match a filter, and the newest version.
pub(super) async fn snapshot(
    client: &deadpool_postgres::Client,
    tenant_scope: Option<TenantScope<'_>>,
    view: View<'_>,
    query: &ListQuery,
) -> Result<(Version, Vec<(Version, ResourceId)>), Failure> {
    let mut plan = Plan::of(query);
    let driver = match plan.needs_numbers() {
        false => plan.begin(),
        true => match begin(client, &mut plan).await? {
            Begin::With(driver) => driver,
            Begin::NothingAt(version) => return Ok((version, Vec::new())),
        },
    };
    let select = plan.select(query, view, Dialect::Postgres, driver);
    let text = snapshot_statement(&select.ids);
    let (mut newest, mut found) = (Version::default(), Vec::new());
    let take = |row: &Row| {
        newest = Version(row.try_get("feed_version")?);
        if let (Some(version), Some(id)) = (row.try_get("version")?, row.try_get::<_, Option<Uuid>>("id")?) {
            found.push((Version(version), id.into()));
        }
        Ok(true)
    };
    each_once(client, tenant_scope, &text, &select.values, take).await?;
    Ok((newest, found))
}
