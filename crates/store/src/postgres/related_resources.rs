//! The related resources of a resource, in one snapshot. Only a finalizing one waits for more than its adapters.

use std::sync::LazyLock;

use deadpool_postgres::Client;
use futures_util::try_join;
use hyperfleet_core::rules::explain::RelatedResources;
use hyperfleet_core::{Catalog, Resource, ResourceId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::row;
use super::row::StoredReportTimes;
use super::row_security::{TenantScope, spelled};
use crate::codec::columns::{READ_REPORT, READ_STATUS};
use crate::failure::Failure;
use crate::read::MAX_RELATED;

static RESOURCE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {}, s.report_times::text as report_times from resources r join resource_status s on s.resource_id = r.id where r.id = $1",
        *READ_STATUS
    )
});

/// By reports_pkey.
static REPORTS: LazyLock<String> = LazyLock::new(|| {
    format!("select {READ_REPORT} from reports where resource_id = $1 and adapter = any($2)")
});

/// By resources_by_owner.
const CHILDREN: &str = "select kind, count(*) from resources where owner_id = $1 group by kind";

/// Level by level, no further than the bound, by resources_by_owner.
pub(super) static BELOW: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with recursive below (id) as (
             select id from resources where owner_id = $1
             union all
             select r.id from below join resources r on r.owner_id = below.id
         )
         select {} from (select id from below limit {}) nearest
         join resources r on r.id = nearest.id join resource_status s on s.resource_id = r.id",
        *READ_STATUS,
        MAX_RELATED + 1
    )
});

/// By resource_references_by_target.
static REFERRERS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {} from (select distinct source_id from resource_references where target_id = $1 limit {MAX_RELATED}) e
         join resources r on r.id = e.source_id join resource_status s on s.resource_id = r.id",
        *READ_STATUS
    )
});
const REFERENCES: &str = "select count(distinct source_id) from resource_references where target_id = $1";

pub(super) async fn related_resources(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    catalog: &Catalog,
    id: ResourceId,
) -> Result<Option<RelatedResources>, Failure> {
    client.batch_execute("begin isolation level repeatable read read only").await?;
    let found = look(client, tenant_scope, catalog, id.uuid()).await;
    // The connection goes back to the pool, so its transaction ends whatever became of it.
    let ended = client.batch_execute("commit").await;
    let found = found?;
    ended?;
    Ok(found)
}

async fn look(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    catalog: &Catalog,
    id: Uuid,
) -> Result<Option<RelatedResources>, Failure> {
    if let Some(tenant_scope) = tenant_scope {
        tenant_scope.confine(client).await?;
    }
    let ask = |statement: &'static str| ask(client, tenant_scope, statement, id);
    let rows = ask(&RESOURCE).await?;
    let Some(found) = rows.first() else { return Ok(None) };
    let Some(resource) = row::resource(catalog, found)? else { return Ok(None) };
    let mut report_times = StoredReportTimes::default();
    report_times.read(resource.id, found)?;
    let mut related = RelatedResources::of(resource);
    let adapters = catalog.get(&related.resource.kind).map_or(&[][..], |entity| &entity.required_adapters);
    let statement = client.prepare_cached(&spelled(&REPORTS, tenant_scope)).await?;
    for found in client.query(&statement, &[&id, &adapters]).await? {
        related.reports.push(report_times.applied(id.into(), row::report(&found)?.1));
    }
    if related.resource.is_active() {
        return Ok(Some(related));
    }
    let (children, below, referrers, references) =
        try_join!(ask(CHILDREN), ask(&BELOW), ask(&REFERRERS), ask(REFERENCES),)?;
    for found in &children {
        related
            .children
            .insert(found.try_get::<_, &str>("kind")?.into(), found.try_get::<_, i64>("count")? as usize);
    }
    related.more_below = below.len() > MAX_RELATED;
    related.below = resources(catalog, &below)?;
    related.referrers = resources(catalog, &referrers)?;
    for found in &references {
        related.references = found.try_get::<_, i64>("count")? as usize;
    }
    Ok(Some(related))
}

async fn ask(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    statement: &str,
    id: Uuid,
) -> Result<Vec<Row>, Failure> {
    let statement = client.prepare_cached(&spelled(statement, tenant_scope)).await?;
    Ok(client.query(&statement, &[&id]).await?)
}

fn resources(catalog: &Catalog, rows: &[Row]) -> Result<Vec<Resource>, Failure> {
    rows.iter().take(MAX_RELATED).filter_map(|found| row::resource(catalog, found).transpose()).collect()
}
