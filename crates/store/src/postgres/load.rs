//! The first flight: lock the feed, and load every row that a batch can touch, one query per
//! table. Each statement sees what was committed when the lock was granted.

use futures_util::try_join;
use hyperfleet_core::rules::{Needs, WorkingSet};
use hyperfleet_core::{Catalog, Version};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::row;
use super::writer::{Session, prepare};
use crate::COLUMNS;
use crate::failure::Failure;

pub(super) struct Statements {
    lock: Statement,
    resources: Statement,
    names: Statement,
    trees: Statement,
    child_counts: Statement,
    referrers: Statement,
}

/// The ids of the trees: everything below, and the owners above.
const SURROUNDINGS: &str = "with recursive below as (
         select id from resources where id = any($1)
         union
         select r.id from resources r join below on r.owner_id = below.id
     ), above as (
         select id, owner_id from resources where id = any($1)
         union
         select r.id, r.owner_id from resources r join above on r.id = above.owner_id
     ), surroundings as (
         select id from below union select id from above
     )";

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Failure> {
        let [lock, resources, names, trees, child_counts, referrers] = prepare(
            client,
            [
                "select version from feed for update".to_owned(),
                format!(
                    "select {COLUMNS} from resources r join resource_status s on s.resource_id = r.id
                     where r.id = any($1)"
                ),
                // By resources_active_name.
                "select kind, owner_id, name, id from resources
                 where kind || '/' || coalesce(owner_id::text, '') || '/' || name = any($1)
                     and deleted_time is null"
                    .to_owned(),
                // The trees, and whoever refers to something in them.
                format!(
                    "{SURROUNDINGS}
                     select {COLUMNS} from resources r join resource_status s on s.resource_id = r.id
                     where r.id in (
                         select id from surroundings
                         union
                         select e.source_id from resource_references e join below on e.target_id = below.id
                     )"
                ),
                format!(
                    "{SURROUNDINGS}
                     select r.owner_id, r.kind, count(*) from resources r
                     join surroundings on r.owner_id = surroundings.id
                     group by r.owner_id, r.kind"
                ),
                format!(
                    "{SURROUNDINGS}
                     select e.target_id, e.source_id from resource_references e
                     join below on e.target_id = below.id"
                ),
            ],
        )
        .await?;
        Ok(Self { lock, resources, names, trees, child_counts, referrers })
    }
}

pub(super) async fn load(session: &Session, catalog: &Catalog, needs: &Needs) -> Result<WorkingSet, Failure> {
    let Session { client, load: statements, .. } = session;
    let ids: Vec<Uuid> = needs.ids.iter().map(|id| id.uuid()).collect();
    let trees: Vec<Uuid> = needs.trees.iter().map(|id| id.uuid()).collect();
    let names: Vec<String> = needs
        .names
        .iter()
        .map(|(kind, owner, name)| {
            format!("{kind}/{}/{name}", owner.map(|id| id.to_string()).unwrap_or_default())
        })
        .collect();

    let nothing = || Ok(Vec::<Row>::new());
    let ((), lock, resources, names) = try_join!(
        client.batch_execute("begin isolation level read committed"),
        client.query_one(&statements.lock, &[]),
        async { if ids.is_empty() { nothing() } else { client.query(&statements.resources, &[&ids]).await } },
        async { if names.is_empty() { nothing() } else { client.query(&statements.names, &[&names]).await } },
    )?;
    let mut set = WorkingSet::new(Version(lock.try_get(0)?));
    for found in &resources {
        row::resource(catalog, found)?.into_iter().for_each(|resource| set.load(resource));
    }
    for found in &names {
        if let Some(entity) = catalog.get(found.try_get(0)?) {
            let owner: Option<Uuid> = found.try_get(1)?;
            let holder: Uuid = found.try_get(3)?;
            set.load_name(entity.kind.clone(), owner.map(Into::into), found.try_get(2)?, holder.into());
        }
    }
    if !trees.is_empty() {
        load_trees(session, catalog, &trees, &mut set).await?;
    }
    Ok(set)
}

/// Deletions are rare, so their loads are a flight of their own.
async fn load_trees(
    session: &Session,
    catalog: &Catalog,
    trees: &[Uuid],
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let Session { client, load: statements, .. } = session;
    let roots: [&(dyn ToSql + Sync); 1] = [&trees];
    let (resources, counts, referrers) = try_join!(
        client.query(&statements.trees, &roots),
        client.query(&statements.child_counts, &roots),
        client.query(&statements.referrers, &roots),
    )?;
    for found in &resources {
        row::resource(catalog, found)?.into_iter().for_each(|resource| set.load(resource));
    }
    for found in &counts {
        let owner: Uuid = found.try_get(0)?;
        let kind: &str = found.try_get(1)?;
        set.load_child_count(owner.into(), kind.into(), found.try_get::<_, i64>(2)? as usize);
    }
    for found in &referrers {
        let (target, source): (Uuid, Uuid) = (found.try_get(0)?, found.try_get(1)?);
        set.load_referrer(target.into(), source.into());
    }
    Ok(())
}
