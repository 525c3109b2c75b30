//! The related resources of a resource, in one snapshot. Only a finalizing one waits for more than its adapters.

use std::sync::LazyLock;

use hyperfleet_core::rules::explain::RelatedResources;
use hyperfleet_core::{Catalog, Resource, ResourceId};
use rusqlite::Connection;

use super::{read, row};
use crate::codec::columns::{READ_REPORT, READ_STATUS};
use crate::failure::Failure;
use crate::read::MAX_RELATED;

static REPORT: LazyLock<String> = LazyLock::new(|| {
    format!("select {READ_REPORT} from latest_reports where resource_id = ?1 and adapter = ?2")
});

/// The nearest first, by resources_by_owner.
static BELOW: LazyLock<String> = LazyLock::new(|| {
    format!(
        "with recursive below (id, depth) as (
             select id, 1 from resources where owner_id = ?1
             union all
             select r.id, below.depth + 1 from below join resources r on r.owner_id = below.id
             order by 2
             limit ?2
         )
         select {} from below join resources r on r.id = below.id
         join resource_status s on s.resource_id = r.id",
        *READ_STATUS
    )
});

/// By resource_references_by_target.
static REFERRERS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {} from (select distinct source_id from resource_references where target_id = ?1 limit ?2) e
         join resources r on r.id = e.source_id join resource_status s on s.resource_id = r.id",
        *READ_STATUS
    )
});

pub(super) fn related_resources(
    connection: &Connection,
    catalog: &Catalog,
    id: ResourceId,
) -> Result<Option<RelatedResources>, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let Some(resource) = read::status(&snapshot, catalog, id)? else { return Ok(None) };
    let mut related = RelatedResources::of(resource);
    let adapters = catalog.get(&related.resource.kind).map_or(&[][..], |entity| &entity.required_adapters);
    let mut report = snapshot.prepare_cached(&REPORT)?;
    for adapter in adapters {
        let mut rows = report.query((id.to_string(), adapter))?;
        if let Some(found) = rows.next()? {
            related.reports.push(row::report(found)?);
        }
    }
    if related.resource.is_active() {
        return Ok(Some(related));
    }
    let mut children = snapshot
        .prepare_cached("select kind, count(*) as count from resources where owner_id = ?1 group by kind")?;
    let mut rows = children.query([id.to_string()])?;
    while let Some(found) = rows.next()? {
        related.children.insert(row::text(found, "kind")?.into(), found.get::<_, i64>("count")? as usize);
    }
    (related.below, related.more_below) = some(&snapshot, catalog, &BELOW, id)?;
    (related.referrers, _) = some(&snapshot, catalog, &REFERRERS, id)?;
    let mut references = snapshot
        .prepare_cached("select count(distinct source_id) from resource_references where target_id = ?1")?;
    related.references = references.query_row([id.to_string()], |row| row.get::<_, i64>(0))? as usize;
    Ok(Some(related))
}

/// The resources that a statement finds, and whether there are more than these.
fn some(
    connection: &Connection,
    catalog: &Catalog,
    statement: &str,
    id: ResourceId,
) -> Result<(Vec<Resource>, bool), Failure> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query((id.to_string(), MAX_RELATED as i64 + 1))?;
    let (mut found, mut count) = (Vec::new(), 0);
    while let Some(next) = rows.next()? {
        count += 1;
        if count <= MAX_RELATED {
            found.extend(row::resource(catalog, next)?);
        }
    }
    Ok((found, count > MAX_RELATED))
}
