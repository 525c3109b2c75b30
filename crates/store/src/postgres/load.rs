//! The first flight: lock the feed, and load every row that a batch can touch, one query per
//! table. Each statement sees what was committed when the lock was granted.

use std::collections::{BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use futures_util::try_join;
use hyperfleet_core::rules::{Dossier, Needs, WorkingSet};
use hyperfleet_core::{Catalog, KEPT_FOR, Place, ResourceId, Tenant, Timestamp, Version};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::moved::Noted;
use super::statements::OURS;
use super::writer::{Session, prepare};
use super::{dictionaries, row};
use crate::failure::{Failure, FailureKind};
use crate::memory::{Mark, Recalled};
use crate::report_row::{REPORT_COLUMNS, STANDING_COLUMNS};
use crate::{BEHIND_COLUMNS, COLUMNS, STATUS_COLUMNS, retries};

pub(super) struct Statements {
    lock: Statement,
    position: Statement,
    resources: Statement,
    statuses: Statement,
    standings: Statement,
    reports: Statement,
    all_reports: Statement,
    moved: Statement,
    names: Statement,
    trees: Statement,
    child_counts: Statement,
    referrers: Statement,
    owners: Statement,
    owners_child_counts: Statement,
    retries: Statement,
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

/// The ids of resources and their owners up to the root.
const OWNERS: &str = "with recursive above as (
         select id, owner_id from resources where id = any($1)
         union
         select r.id, r.owner_id from resources r join above on r.id = above.owner_id
     )";

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Failure> {
        let resources_by = |columns: &str, scope: &str| {
            format!(
                "select {columns}, s.moved::text from resources r join resource_status s on s.resource_id = r.id
                 where r.id {scope}"
            )
        };
        let [
            lock,
            position,
            resources,
            statuses,
            standings,
            reports,
            all_reports,
            moved,
            names,
            trees,
            child_counts,
            referrers,
            owners,
            owners_child_counts,
            retries,
        ] = prepare(
            client,
            [
                "select version, commits from feed for update".to_owned(),
                format!("select version, commits, {OURS} from feed"),
                resources_by(COLUMNS, "= any($1)"),
                resources_by(&STATUS_COLUMNS, "= any($1)"),
                // By reports_pkey.
                format!(
                    "select {STANDING_COLUMNS} from reports
                     where resource_id = any($1) and adapter = any($2)"
                ),
                format!(
                    "select {REPORT_COLUMNS} from unnest($1::uuid[], $2::text[]) asked (id, name)
                     join reports on resource_id = id and adapter = name"
                ),
                format!("select {REPORT_COLUMNS} from reports where resource_id = any($1)"),
                "select resource_id, moved::text from resource_status where resource_id = any($1)".to_owned(),
                // By resources_active_name.
                "select kind, owner_id, name, id, tenancy from resources
                 where kind || '/' || coalesce(owner_id::text, tenancy, '') || '/' || name = any($1)
                     and deleted_time is null"
                    .to_owned(),
                // The trees, and whoever refers to something in them.
                format!(
                    "{SURROUNDINGS} {}",
                    resources_by(
                        COLUMNS,
                        "in (
                             select id from surroundings
                             union
                             select e.source_id from resource_references e join below on e.target_id = below.id
                         )"
                    )
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
                format!("{OWNERS} {}", resources_by(COLUMNS, "in (select id from above)")),
                format!(
                    "{OWNERS}
                     select r.owner_id, r.kind, count(*) from resources r
                     join above on r.owner_id = above.id
                     group by r.owner_id, r.kind"
                ),
                "select key, body, at, answer from retries where key = any($1) and at > $2".to_owned(),
            ],
        )
        .await?;
        Ok(Self {
            lock,
            position,
            resources,
            statuses,
            standings,
            reports,
            all_reports,
            moved,
            names,
            trees,
            child_counts,
            referrers,
            owners,
            owners_child_counts,
            retries,
        })
    }
}

/// Statements with an empty list are not worth a round trip.
async fn ask<const N: usize>(
    client: &Client,
    statement: &Statement,
    nothing: bool,
    values: [&(dyn ToSql + Sync); N],
) -> Result<Vec<Row>, Failure> {
    if nothing { Ok(Vec::new()) } else { Ok(client.query(statement, &values).await?) }
}

pub(super) async fn load(
    session: &Session,
    catalog: &Catalog,
    needs: &Needs,
    recalled: Option<Recalled>,
) -> Result<(Mark, WorkingSet), Failure> {
    let Session { client, load: statements, .. } = session;
    // Mapped conditions may look at the whole resource.
    let whole = catalog.has_mappings();
    let (mut ids, mut light) = (Vec::new(), Vec::new());
    ids.extend(needs.ids.iter().map(|id| id.uuid()));
    for id in needs.statuses.difference(&needs.ids) {
        if whole { &mut ids } else { &mut light }.push(id.uuid());
    }
    let statuses = uuids(&needs.statuses);
    let adapters: Vec<&str> = catalog.required_adapters().collect();
    let reported: Vec<Uuid> = needs.reports.iter().map(|(id, _)| id.uuid()).collect();
    // A resource may be remembered without this report.
    let is_read = |id: &ResourceId| needs.statuses.contains(id) || needs.ids.contains(id);
    let recalled_alone: Vec<Uuid> =
        needs.reports.iter().filter(|(id, _)| !is_read(id)).map(|(id, _)| id.uuid()).collect();
    let reporters: Vec<&str> = needs.reports.iter().map(|(_, adapter)| &**adapter).collect();
    let names: Vec<String> =
        needs.names.iter().map(|(kind, place, name)| format!("{kind}/{place}/{name}")).collect();

    let retries: Vec<&[u8]> = needs.retries.iter().map(<[u8; 32]>::as_slice).collect();
    let kept_since = Timestamp::from_micros(Timestamp::now().micros() - KEPT_FOR).utc();

    let begin = async { Ok(client.batch_execute("begin isolation level read committed").await?) };
    let lock = async { Ok(client.query_one(&statements.lock, &[]).await?) };
    let ((), lock, resources, statuses, standings, reports, moved, names, answers) = try_join!(
        begin,
        lock,
        ask(client, &statements.resources, ids.is_empty(), [&ids]),
        ask(client, &statements.statuses, light.is_empty(), [&light]),
        ask(client, &statements.standings, statuses.is_empty(), [&statuses, &adapters]),
        ask(client, &statements.reports, reported.is_empty(), [&reported, &reporters]),
        ask(client, &statements.moved, recalled_alone.is_empty(), [&recalled_alone]),
        ask(client, &statements.names, names.is_empty(), [&names]),
        ask(client, &statements.retries, retries.is_empty(), [&retries, &kept_since]),
    )?;
    let mark = Mark { version: Version(lock.try_get(0)?), commits: lock.try_get(1)? };
    let mut set = WorkingSet::new(mark.version);
    let mut remembered = HashSet::new();
    if let Some(recalled) = recalled {
        if recalled.mark != mark {
            client.batch_execute("rollback").await?;
            return Err(outdated());
        }
        remembered.extend(recalled.dossiers.iter().map(Dossier::id));
        recalled.dossiers.into_iter().for_each(|dossier| set.load_dossier(dossier));
    }
    let mut noted = Noted::default();
    take_resources(catalog, &resources, &mut set, &mut noted)?;
    for found in &statuses {
        if let Some(resource) = row::resource(catalog, found)? {
            noted.read(resource.id, found, BEHIND_COLUMNS)?;
            set.load_light(resource);
        }
    }
    for found in &moved {
        noted.read(found.try_get::<_, Uuid>(0)?.into(), found, 1)?;
    }
    take_standings(&standings, &mut set, &noted)?;
    take_reports(session, &reports, &mut set, &noted).await?;
    for found in &names {
        if let Some(entity) = catalog.get(found.try_get(0)?) {
            let owner: Option<Uuid> = found.try_get(1)?;
            let tenant = found.try_get::<_, Option<&str>>(4)?.map(Tenant::from_stored);
            let place = owner.map_or(Place::Root(tenant), |owner| Place::Below(owner.into()));
            let holder: Uuid = found.try_get(3)?;
            set.load_name(entity.kind.clone(), place, found.try_get(2)?, holder.into());
        }
    }

    for found in &answers {
        let at: DateTime<Utc> = found.try_get(2)?;
        let (key, answer) =
            retries::read(found.try_get(0)?, found.try_get(1)?, at.into(), found.try_get(3)?)?;
        set.load_answer(key, answer);
    }

    // What may disappear drags its surroundings in. That is rare, so it has flights of its own.
    let roots = needs.roots(&set);
    let trees = uuids(&roots);
    if !trees.is_empty() {
        load_trees(session, catalog, &trees, &mut set, &mut noted).await?;
    }
    let finalizing: Vec<Uuid> = set
        .loaded()
        .filter(|r| !r.is_active() && needs.statuses.contains(&r.id) && !roots.contains(&r.id))
        .map(|r| r.id.uuid())
        .collect();
    if !finalizing.is_empty() {
        load_owners(session, catalog, &finalizing, &mut set, &mut noted).await?;
    }
    if !trees.is_empty() || !finalizing.is_empty() {
        // Of what is remembered they are known, and later than their rows may say.
        let all = set.loaded().map(|r| r.id).filter(|id| !remembered.contains(id));
        let all: Vec<Uuid> = all.map(ResourceId::uuid).collect();
        let standings = client.query(&statements.standings, &[&all, &adapters]).await?;
        take_standings(&standings, &mut set, &noted)?;
    }
    if whole {
        let mapped = |kind: &str| catalog.get(kind).is_some_and(|entity| !entity.mappings.is_empty());
        let all: Vec<Uuid> = set.loaded().filter(|r| mapped(&r.kind)).map(|r| r.id.uuid()).collect();
        let reports = ask(client, &statements.all_reports, all.is_empty(), [&all]).await?;
        take_reports(session, &reports, &mut set, &noted).await?;
    }
    Ok((mark, set))
}

/// Makes sure that the feed is where it is expected, and, if that was predicted, that it is there by this session.
pub(super) async fn check(session: &Session, expected: Mark, predicted: bool) -> Result<(), Failure> {
    let row = session.client.query_one(&session.load.position, &[]).await?;
    let found = Mark { version: Version(row.try_get(0)?), commits: row.try_get(1)? };
    let ours: bool = row.try_get(2)?;
    if found == expected && (ours || !predicted) { Ok(()) } else { Err(outdated()) }
}

pub(super) fn outdated() -> Failure {
    Failure::new(FailureKind::Outdated, "another replica has written")
}

fn uuids(ids: &BTreeSet<ResourceId>) -> Vec<Uuid> {
    ids.iter().map(|id| id.uuid()).collect()
}

fn take_resources(
    catalog: &Catalog,
    rows: &[Row],
    set: &mut WorkingSet,
    noted: &mut Noted,
) -> Result<(), Failure> {
    for found in rows {
        if let Some(resource) = row::resource(catalog, found)? {
            noted.read(resource.id, found, BEHIND_COLUMNS)?;
            set.load(resource);
        }
    }
    Ok(())
}

fn take_standings(rows: &[Row], set: &mut WorkingSet, noted: &Noted) -> Result<(), Failure> {
    for found in rows {
        let (id, mut standing) = row::standing(found)?;
        standing.time = noted.latest(id, &standing.adapter, standing.time);
        set.load_standing(id, standing);
    }
    Ok(())
}

async fn take_reports(
    session: &Session,
    rows: &[Row],
    set: &mut WorkingSet,
    noted: &Noted,
) -> Result<(), Failure> {
    let Session { client, dictionaries, .. } = session;
    for found in rows {
        let (id, report) = match row::report(dictionaries, found) {
            Err(failure) if failure.kind == FailureKind::UnknownDictionary => {
                dictionaries.add(dictionaries::read(client).await?)?;
                row::report(dictionaries, found)?
            }
            read => read?,
        };
        set.load_report(id, noted.applied(id, report));
    }
    Ok(())
}

fn take_child_counts(rows: &[Row], set: &mut WorkingSet) -> Result<(), Failure> {
    for found in rows {
        let owner: Uuid = found.try_get(0)?;
        let kind: &str = found.try_get(1)?;
        set.load_child_count(owner.into(), kind.into(), found.try_get::<_, i64>(2)? as usize);
    }
    Ok(())
}

async fn load_trees(
    session: &Session,
    catalog: &Catalog,
    trees: &[Uuid],
    set: &mut WorkingSet,
    noted: &mut Noted,
) -> Result<(), Failure> {
    let Session { client, load: statements, .. } = session;
    let roots: [&(dyn ToSql + Sync); 1] = [&trees];
    let (resources, counts, referrers) = try_join!(
        client.query(&statements.trees, &roots),
        client.query(&statements.child_counts, &roots),
        client.query(&statements.referrers, &roots),
    )?;
    take_resources(catalog, &resources, set, noted)?;
    take_child_counts(&counts, set)?;
    for found in &referrers {
        let (target, source): (Uuid, Uuid) = (found.try_get(0)?, found.try_get(1)?);
        set.load_referrer(target.into(), source.into());
    }
    Ok(())
}

async fn load_owners(
    session: &Session,
    catalog: &Catalog,
    of: &[Uuid],
    set: &mut WorkingSet,
    noted: &mut Noted,
) -> Result<(), Failure> {
    let Session { client, load: statements, .. } = session;
    let roots: [&(dyn ToSql + Sync); 1] = [&of];
    let (owners, counts) = try_join!(
        client.query(&statements.owners, &roots),
        client.query(&statements.owners_child_counts, &roots),
    )?;
    take_resources(catalog, &owners, set, noted)?;
    take_child_counts(&counts, set)
}
