//! Reads of history. A page of a timeline is one statement. A past generation is read in batches of changes, which equal
//! one snapshot because changes are immutable.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use deadpool_postgres::Client;
use hyperfleet_core::{AccessScope, Catalog, Reservation, Resource, ResourceId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::read::bound;
use super::row;
use super::row_security::{Prepared, TenantScope};
use crate::codec::columns::READ_RESOURCE;
use crate::failure::Failure;
use crate::history::{Bounds, TimelineRow, UNDO_BATCH, last, slice_statement, step_back};
use crate::{PastGenerations, TimelinePage, TimelineQuery};

/// The changes of a resource up to a version, and their order, by changes_by_resource. With `resource_id = $1` PostgreSQL
/// could walk the primary key instead, through the changes of all resources.
const UP_TO: (&str, &str) = (
    "(resource_id, version) <= ($1, $2) and (resource_id, version) >= ($1, 0)",
    "resource_id desc, version desc",
);

/// The last change of a deleted resource.
static LAST: LazyLock<String> = LazyLock::new(|| {
    let (up_to, newest_first) = UP_TO;
    let all = up_to.replace("$2", &i64::MAX.to_string());
    format!(
        "case when r.id is null then (select body from changes where {all} order by {newest_first} limit 1) end
         as last_body"
    )
});

static NEWEST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {READ_RESOURCE}, {} from feed
         left join resources r on r.id = $1
         left join resource_status s on s.resource_id = r.id",
        *LAST
    )
});

/// Only the first row has the resource, because it may be large. Changes beyond the limit come without their bodies.
pub(super) fn timeline_statement(count: bool, page_limit: usize) -> String {
    let total = match count {
        true => "(select cast(coalesce(sum(entry_count), 0) as bigint) from changes where resource_id = $1)",
        false => "cast(null as bigint)",
    };
    let body = format!(
        "case when sum(octet_length(body)) over (order by version desc) - octet_length(body) <= {} then body end",
        bound(page_limit)
    );
    format!(
        "select {READ_RESOURCE}, {last}, feed.version as feed_version, {total} as total, page.version as change_version,
                page.changed_time, page.actor, page.request_id, page.body, page.visible, page.upto
         from feed
         left join (
             select *, row_number() over (order by version desc) as position from ({}) slice
         ) page on true
         left join resources r on r.id = $1 and (position is null or position = 1)
         left join resource_status s on s.resource_id = r.id
         order by position",
        slice_statement('$', UP_TO, Some(&body)),
        last = LAST.replace("case when", "case when (position is null or position = 1) and"),
    )
}

/// The newest or last state of a resource, and a slice of its timeline.
pub(super) async fn timeline(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    catalog: &Catalog,
    id: ResourceId,
    query: &TimelineQuery,
    reservation: &Reservation,
) -> Result<Option<(Resource, TimelinePage)>, Failure> {
    let text = timeline_statement(query.count, reservation.page_limit());
    let statement = Prepared::new(client, tenant_scope, &text).await?;
    let bounds = Bounds::of(query);
    let Bounds { version, index, changes, first, behind } = &bounds;
    let (mut bytes, mut timeline) = (reservation.page(), None);
    let take = |found: &Row| {
        if timeline.is_none() {
            let Some(resource) = newest(catalog, found)? else { return Ok(false) };
            let page = TimelinePage::new(found.try_get("feed_version")?, found.try_get("total")?);
            timeline = Some((resource, page));
        }
        let Some((_, page)) = &mut timeline else { return Ok(false) };
        let Some(version) = found.try_get("change_version")? else { return Ok(false) };
        let Some(body) = found.try_get("body")? else {
            page.more = true;
            bytes.cut();
            return Ok(false);
        };
        let change = TimelineRow {
            version,
            at: found.try_get::<_, DateTime<Utc>>("changed_time")?.into(),
            actor: found.try_get("actor")?,
            request_id: found.try_get("request_id")?,
            body,
            visible: found.try_get("visible")?,
            upto: found.try_get("upto")?,
        };
        page.take(&bounds, &mut bytes, &change)
    };
    statement.each(client, &[&id.uuid(), version, index, changes, first, behind], take).await?;
    Ok(timeline)
}

/// The resource at the ends of generations, newest first; `None` unless it is visible. Visibility is checked first,
/// because the time to undo changes would reveal how many there are.
pub(super) async fn past_generations(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    catalog: &Catalog,
    scope: &AccessScope,
    id: ResourceId,
    generations: &[i64],
) -> Result<Option<PastGenerations>, Failure> {
    let rows = Prepared::new(client, tenant_scope, &NEWEST).await?.query(client, &[&id.uuid()]).await?;
    let Some(found) = rows.first() else { return Ok(None) };
    let Some(newest) = newest(catalog, found)? else { return Ok(None) };
    if !scope.sees(&newest)? {
        return Ok(None);
    }
    let mut state = newest.clone();
    let mut states = PastGenerations::new(newest);
    for generation in generations {
        rewind(client, tenant_scope, &mut state, *generation).await?;
        states.reached(&state, *generation);
    }
    Ok(Some(states))
}

/// Undoes changes until the resource is at a generation, or history ends.
async fn rewind(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    state: &mut Resource,
    generation: i64,
) -> Result<(), Failure> {
    let (up_to, newest_first) = UP_TO;
    let undos = format!("select version, body from changes where {up_to} order by {newest_first} limit $3");
    let statement = Prepared::new(client, tenant_scope, &undos).await?;
    let mut goes_on = true;
    while goes_on && state.generation > generation {
        let (id, version) = (state.id.uuid(), state.version.0);
        goes_on = false;
        let undo = |found: &Row| {
            goes_on = state.generation > generation
                && step_back(state, found.try_get("version")?, found.try_get("body")?)?;
            Ok(goes_on)
        };
        statement.each(client, &[&id, &version, &UNDO_BATCH], undo).await?;
    }
    Ok(())
}

/// The newest state of a resource, or its last one.
fn newest(catalog: &Catalog, found: &Row) -> Result<Option<Resource>, Failure> {
    if found.try_get::<_, Option<Uuid>>("id")?.is_some() {
        return row::resource(catalog, found);
    }
    found.try_get::<_, Option<&[u8]>>("last_body")?.map_or(Ok(None), |body| last(catalog, body))
}
