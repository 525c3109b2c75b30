//! Invariants between the tables. The API shows no orphaned rows, so the tests look into the database.

use hyperfleet_testkit::Database;
use serde_json::Value;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::DEADLINE;
use crate::support::{App, text};

/// Each gives one line of text for each fault that it finds. A query sees one moment.
const FAULTS: [&str; 9] = [
    "select 'a report without its resource: ' || cast(resource_id as text) from reports
     where resource_id not in (select id from resources)",
    "select 'a status without its resource: ' || cast(resource_id as text) from resource_status
     where resource_id not in (select id from resources)",
    "select 'a resource without its status: ' || cast(id as text) from resources
     where id not in (select resource_id from resource_status)",
    "select 'a resource without its owner: ' || cast(id as text) from resources
     where owner_id is not null and owner_id not in (select id from resources)",
    "select 'a reference of or to what is finalizing or gone: ' || cast(f.source_id as text)
     from resource_references f
     left join resources s on s.id = f.source_id left join resources t on t.id = f.target_id
     where s.id is null or t.id is null or s.deleted_time is not null or t.deleted_time is not null",
    "select 'versions are missing below ' || version from feed
     where version <> (select count(*) from changes)
        or version <> (select coalesce(max(version), 0) from changes)
        or 1 > (select coalesce(min(version), 1) from changes)",
    "select 'a version that is not that of the last change: ' || cast(resource_id as text)
     from resource_status s
     where version <> (select max(version) from changes c where c.resource_id = s.resource_id)",
    "select 'gone without a word: ' || cast(resource_id as text) from changes c
     where resource_id not in (select id from resources)
       and version = (select max(version) from changes d where d.resource_id = c.resource_id)
       and touched_parts & 128 = 0",
    "with counted as (
         select r.kind as kind,
                sum(case when r.deleted_time is null then 1 else 0 end) as active,
                sum(case when r.deleted_time is null then 0 else 1 end) as finalizing,
                sum(case when r.deleted_time is null and s.pending_since is not null then 1 else 0 end)
                    as pending_active,
                sum(case when r.deleted_time is not null and s.pending_since is not null then 1 else 0 end)
                    as pending_finalizing
         from resources r join resource_status s on s.resource_id = r.id
         group by r.kind
     )
     select 'counted wrong: ' || coalesce(k.kind, n.kind)
     from kind_counts k full join counted n on n.kind = k.kind
     where coalesce(k.active, 0) <> coalesce(n.active, 0)
        or coalesce(k.finalizing, 0) <> coalesce(n.finalizing, 0)
        or coalesce(k.pending_active, 0) <> coalesce(n.pending_active, 0)
        or coalesce(k.pending_finalizing, 0) <> coalesce(n.pending_finalizing, 0)",
];

/// Whatever is wrong between the tables.
pub(super) async fn faults(app: &App) -> Vec<String> {
    let mut faults = Vec::new();
    for query in FAULTS {
        faults.extend(lines(app, query).await);
    }
    faults
}

/// Whether those that are known to wait are those whose `Reconciled` says so.
pub(super) async fn wrongly_pending(app: &App, documents: &[Value]) -> Vec<String> {
    let query = "select cast(resource_id as text) from resource_status where pending_since is not null";
    let pending = lines(app, query).await;
    let waits = |document: &Value| document["status"]["conditions"][0]["status"] == "False";
    let is_pending = |document: &Value| pending.iter().any(|id| id == text(&document["id"]));
    let wrong = documents.iter().filter(|document| waits(document) != is_pending(document));
    wrong.map(|document| format!("pending is {}: {document}", is_pending(document))).collect()
}

/// The rows of a query with one column of text.
async fn lines(app: &App, query: &str) -> Vec<String> {
    match &app.database {
        Some(database) => postgres_lines(database, query).await,
        None => {
            let connection =
                rusqlite::Connection::open(app.server.directory().join("hyperfleet.db")).unwrap();
            connection.busy_timeout(DEADLINE).unwrap();
            let mut statement = connection.prepare(query).unwrap();
            statement.query_map((), |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        }
    }
}

async fn postgres_lines(database: &Database, query: &str) -> Vec<String> {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let line = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(ToOwned::to_owned),
        _ => None,
    };
    client.simple_query(query).await.unwrap().iter().filter_map(line).collect()
}
