//! Reads of the past: timelines, and the states that a resource had before. A page of a timeline is one statement. The
//! way back to an earlier state is read in steps, which lead where one snapshot would: changes never change, and each
//! step begins at the version at which the one before ended.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use deadpool_postgres::Client;
use hyperfleet_core::{Catalog, Resource, ResourceId, Sight};
use tokio_postgres::Row;
use uuid::Uuid;

use super::row;
use super::wall::{Prepared, Within};
use crate::failure::Failure;
use crate::packed::Dictionaries;
use crate::past::{Bounds, STRIDE, TimelineRow, last, slice_statement, step_back};
use crate::{COLUMNS, Past, TimelinePage, TimelineQuery};

/// The changes of a resource up to a version, and their order. By changes_by_resource: were the resource given as equal,
/// the order would be that of versions alone, and PostgreSQL could take their index, which for a resource with many
/// changes, all of them old, is the way through everyone's.
const UP_TO: (&str, &str) = (
    "(resource_id, version) <= ($1, $2) and (resource_id, version) >= ($1, 0)",
    "resource_id desc, version desc",
);

/// What was left of a resource that is not there any more.
static LAST: LazyLock<String> = LazyLock::new(|| {
    let (up_to, newest_first) = UP_TO;
    let all = up_to.replace("$2", &i64::MAX.to_string());
    let of = |column| {
        format!(
            "case when r.id is null then (select {column} from changes where {all} order by {newest_first} limit 1) end"
        )
    };
    format!("{}, {}", of("packed"), of("last"))
});

static NEWEST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {COLUMNS}, {} from feed
         left join resources r on r.id = $1
         left join resource_status s on s.resource_id = r.id",
        *LAST
    )
});

/// The resource comes with the first change alone: it may be large.
pub(super) fn timeline_statement(count: bool) -> String {
    let total = match count {
        true => "(select cast(coalesce(sum(size), 0) as bigint) from changes where resource_id = $1)",
        false => "cast(null as bigint)",
    };
    format!(
        "select {COLUMNS}, {last}, feed.version, {total}, page.version, page.at, page.actor, page.request_id,
                page.packed, page.entries, page.visible, page.upto
         from feed
         left join (
             select *, row_number() over (order by version desc) as position from ({}) slice
         ) page on true
         left join resources r on r.id = $1 and (position is null or position = 1)
         left join resource_status s on s.resource_id = r.id
         order by position",
        slice_statement('$', UP_TO),
        last = LAST.replace("case when", "case when (position is null or position = 1) and"),
    )
}

/// What the resource is or was when it went, and a slice of its timeline.
pub(super) async fn timeline(
    client: &Client,
    within: Option<Within<'_>>,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    id: ResourceId,
    query: &TimelineQuery,
) -> Result<Option<(Resource, TimelinePage)>, Failure> {
    let statement = Prepared::new(client, within, &timeline_statement(query.count), true).await?;
    let bounds = Bounds::of(query);
    let Bounds { version, index, changes, first, behind } = &bounds;
    let rows = statement.query(client, &[&id.uuid(), version, index, changes, first, behind]).await?;
    let Some(found) = rows.first() else { return Ok(None) };
    let Some(resource) = newest(catalog, dictionaries, found)? else { return Ok(None) };
    let mut page = TimelinePage::new(found.try_get(21)?, found.try_get(22)?);
    for found in &rows {
        let Some(version) = found.try_get(23)? else { continue };
        let change = TimelineRow {
            version,
            at: found.try_get::<_, DateTime<Utc>>(24)?.into(),
            actor: found.try_get(25)?,
            request_id: found.try_get(26)?,
            packed: found.try_get(27)?,
            entries: found.try_get(28)?,
            visible: found.try_get(29)?,
            upto: found.try_get(30)?,
        };
        page.take(dictionaries, &bounds, &change)?;
    }
    Ok(Some((resource, page)))
}

/// What the resource was at the ends of generations, which must be named newest first; `None` unless it is in sight. The
/// way back may be long, and how long must be told to nobody who does not see the resource.
pub(super) async fn past(
    client: &Client,
    within: Option<Within<'_>>,
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    sight: &Sight,
    id: ResourceId,
    generations: &[i64],
) -> Result<Option<Past>, Failure> {
    let rows = Prepared::new(client, within, &NEWEST, true).await?.query(client, &[&id.uuid()]).await?;
    let Some(found) = rows.first() else { return Ok(None) };
    let Some(newest) = newest(catalog, dictionaries, found)? else { return Ok(None) };
    if !sight.sees(&newest)? {
        return Ok(None);
    }
    let mut state = newest.clone();
    let mut past = Past::new(newest);
    for generation in generations {
        rewind(client, within, dictionaries, &mut state, *generation).await?;
        past.reached(&state, *generation);
    }
    Ok(Some(past))
}

/// Undoes changes until the resource is at a generation, or no more are kept.
async fn rewind(
    client: &Client,
    within: Option<Within<'_>>,
    dictionaries: &Dictionaries,
    state: &mut Resource,
    generation: i64,
) -> Result<(), Failure> {
    let (up_to, newest_first) = UP_TO;
    let undos =
        format!("select version, packed, undo from changes where {up_to} order by {newest_first} limit $3");
    let statement = Prepared::new(client, within, &undos, true).await?;
    while state.generation > generation {
        let rows = statement.query(client, &[&state.id.uuid(), &state.version.0, &STRIDE]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for found in rows {
            let (packed, undo) = (found.try_get(1)?, found.try_get(2)?);
            if state.generation == generation
                || !step_back(dictionaries, state, found.try_get(0)?, packed, undo)?
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The resource as it is, or as its last change left it.
fn newest(catalog: &Catalog, dictionaries: &Dictionaries, found: &Row) -> Result<Option<Resource>, Failure> {
    if found.try_get::<_, Option<Uuid>>(0)?.is_some() {
        return row::resource(catalog, found);
    }
    last(catalog, dictionaries, found.try_get(19)?, found.try_get(20)?)
}
