//! Reads: a point read and a list, one statement each.

use std::sync::LazyLock;

use hyperfleet_core::{Catalog, Resource, ResourceId, Timestamp, Version};
use rusqlite::{Connection, ToSql};

use super::row;
use crate::COLUMNS;
use crate::failure::Failure;
use crate::{ListQuery, Page};

static GET: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {COLUMNS} from resources r join resource_status s on s.resource_id = r.id where r.id = ?1"
    )
});

pub(super) fn get(
    connection: &Connection,
    catalog: &Catalog,
    id: ResourceId,
) -> Result<Option<Resource>, Failure> {
    let mut statement = connection.prepare_cached(&GET)?;
    let mut rows = statement.query([id.to_string()])?;
    match rows.next()? {
        Some(found) => row::resource(catalog, found),
        None => Ok(None),
    }
}

/// Chooses the ids first and joins after, so that only the rows of the page are read whole.
pub(super) fn list(connection: &Connection, catalog: &Catalog, query: &ListQuery) -> Result<Page, Failure> {
    let mut values: Vec<Box<dyn ToSql>> = vec![
        Box::new(i64::try_from(query.limit).unwrap_or(i64::MAX)),
        Box::new(i64::try_from(query.offset).unwrap_or(i64::MAX)),
    ];
    let mut bind = |value: Box<dyn ToSql>| {
        values.push(value);
        format!("?{}", values.len())
    };
    let kinds: Vec<String> = query.kinds.iter().map(|kind| bind(Box::new(kind.to_string()))).collect();
    let of_kind = match kinds.as_slice() {
        [kind] => format!("r.kind = {kind}"),
        kinds => format!("r.kind in ({})", kinds.join(", ")),
    };
    let mut scope = vec![of_kind.clone()];
    if let Some(owner) = query.owner {
        scope.push(format!("r.owner_id = {}", bind(Box::new(owner.to_string()))));
    }
    if !query.show_deleted {
        scope.push("r.deleted_time is null".to_owned());
    }
    if let Some((ref_type, target)) = &query.referring_to {
        scope.push(format!(
            "r.id in (select source_id from resource_references where target_id = {} and ref_type = {})",
            bind(Box::new(target.to_string())),
            bind(Box::new(ref_type.clone()))
        ));
    }
    let scope = scope.join(" and ");
    let order = query.order_by(catalog);
    let total = query.total(&scope, &of_kind);
    let mut statement = connection.prepare_cached(&format!(
        "select {COLUMNS}, f.version, {total}
         from feed f
         left join (select r.id from resources r where {scope} order by {order} limit ?1 offset ?2) page
         left join resources r on r.id = page.id
         left join resource_status s on s.resource_id = r.id
         order by {order}"
    ))?;

    let mut rows = statement.query(rusqlite::params_from_iter(values.iter()))?;
    let mut page = Page { version: Version::default(), total: None, items: Vec::new() };
    while let Some(found) = rows.next()? {
        page.version = Version(found.get(16)?);
        page.total = found.get::<_, Option<i64>>(17)?.map(|n| n as u64);
        if found.get_ref(0)?.as_str_or_null().ok().flatten().is_some() {
            page.items.extend(row::resource(catalog, found)?);
        }
    }
    Ok(page)
}

/// One step: the oldest thousand changes, as far as they are old enough.
pub(super) fn prune_history(connection: &Connection, before: Timestamp) -> Result<u64, Failure> {
    let removed = connection.execute(
        "delete from changes where version in (
             select version from (select version, at from changes order by version limit 1000)
             where at < ?1
         )",
        [before.micros()],
    )?;
    Ok(removed as u64)
}
