//! The reads of the feed. Each is one statement, so it sees one moment.

use chrono::{DateTime, Utc};
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use hyperfleet_core::{Catalog, ResourceId, Version, View};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::read::{Begin, begin};
use super::row;
use super::wall::{Prepared, Within};
use crate::ListQuery;
use crate::failure::Failure;
use crate::feed::{KeptChange, PAGE, STATES, Trail, TrailRow};
use crate::packed::Dictionaries;
use crate::search::{Dialect, Plan};

/// Up to where the past is forgotten, and the newest version.
pub(super) async fn bounds(client: &deadpool_postgres::Client) -> Result<(Version, Version), Failure> {
    let statement = client.prepare_cached("select forgotten, version from history, feed").await?;
    let row = client.query_one(&statement, &[]).await?;
    Ok((Version(row.try_get(0)?), Version(row.try_get(1)?)))
}

/// What comes after `position`, unless that is too much.
pub(super) async fn trail(
    client: &deadpool_postgres::Client,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    position: Version,
    limit: i64,
) -> Result<Option<Trail>, Failure> {
    let statement = client.prepare_cached(&PAGE).await?;
    let rows = client.query_raw(&statement, [position.0, limit]).await?;
    futures_util::pin_mut!(rows);
    let mut trail = Trail::behind(position);
    while let Some(found) = rows.try_next().await? {
        trail.newest = Version(found.try_get(25)?);
        trail.forgotten = Version(found.try_get(26)?);
        trail.through = Version(found.try_get(27)?);
        if !trail.take(trail_row(catalog, dictionaries, &found)?) {
            return Ok(None);
        }
    }
    Ok(Some(trail))
}

/// The newest states of resources, with all their changes after `since`, resource by resource.
pub(super) async fn states(
    client: &deadpool_postgres::Client,
    within: Option<Within<'_>>,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    ids: &[ResourceId],
    since: Version,
) -> Result<Vec<Vec<TrailRow>>, Failure> {
    let statement = Prepared::new(client, within, &STATES, true).await?;
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let values: Vec<[&(dyn ToSql + Sync); 2]> = ids.iter().map(|id| [id as _, &since.0 as _]).collect();
    let answers = try_join_all(values.iter().map(|values| statement.query(client, values))).await?;
    let trail = |rows: &Vec<Row>| rows.iter().map(|found| trail_row(catalog, dictionaries, found)).collect();
    answers.iter().map(trail).collect()
}

fn trail_row(catalog: &Catalog, dictionaries: &Dictionaries, found: &Row) -> Result<TrailRow, Failure> {
    let current = match found.try_get::<_, Option<Uuid>>(0)? {
        Some(_) => row::resource(catalog, found)?,
        None => None,
    };
    let change = match found.try_get::<_, Option<i64>>(19)? {
        Some(version) => Some(KeptChange::new(
            dictionaries,
            version,
            found.try_get::<_, Uuid>(20)?.into(),
            found.try_get::<_, DateTime<Utc>>(21)?.into(),
            found.try_get(22)?,
            [found.try_get(23)?, found.try_get(24)?],
        )?),
        None => None,
    };
    Ok(TrailRow { current, change })
}

/// The versions and ids of all that a filter means, and the newest version.
pub(super) async fn present(
    client: &deadpool_postgres::Client,
    within: Option<Within<'_>>,
    view: View<'_>,
    query: &ListQuery,
) -> Result<(Version, Vec<(Version, ResourceId)>), Failure> {
    let mut plan = Plan::of(query);
    let driver = match plan.needs_numbers() {
        false => plan.begin(),
        true => match begin(client, &mut plan).await? {
            Begin::With(driver) => driver,
            Begin::NothingAt(mark) => return Ok((mark.version, Vec::new())),
        },
    };
    let select = plan.select(query, view, Dialect::Postgres, driver);
    let text = format!(
        "select f.version, s.version, chosen.id from feed f
         left join ({}) chosen on true
         left join resource_status s on s.resource_id = chosen.id",
        select.ids
    );
    let statement = Prepared::new(client, within, &text, false).await?;
    let values: Vec<&(dyn ToSql + Sync)> = select.values.iter().map(|value| value as _).collect();
    let (mut newest, mut found) = (Version::default(), Vec::new());
    let mut take = |row: &Row| -> Result<(), Failure> {
        newest = Version(row.try_get(0)?);
        if let (Some(version), Some(id)) = (row.try_get(1)?, row.try_get::<_, Option<Uuid>>(2)?) {
            found.push((Version(version), id.into()));
        }
        Ok(())
    };
    match within {
        // The end of the transaction is sent with its beginning, and is heard of only after all rows.
        Some(_) => statement.query(client, &values).await?.iter().try_for_each(take)?,
        None => {
            let rows = client.query_raw(&statement.statement, values).await?;
            futures_util::pin_mut!(rows);
            while let Some(row) = rows.try_next().await? {
                take(&row)?;
            }
        }
    }
    Ok((newest, found))
}
