//! Backups that are put in place of a database: what clients keep of the lost history is refused, although versions have
//! caught up with it.

use hyperfleet_testkit::{Answer, Client, Server, eventually};
use serde_json::{Value, json};

use super::installation::Installation;
use super::program::Program;
use super::{CLUSTERS, DEADLINE, create_cluster, id};
use crate::support::both_stores;

both_stores!(
    start = Installation::migrated;
    what_clients_keep_of_a_lost_history_is_refused_after_a_restore,
    a_counter_that_goes_backwards_below_running_replicas_begins_a_new_epoch,
    the_documented_statement_begins_a_new_epoch_below_a_running_server,
);

const LEASE: &str = "/api/hyperfleet/v1/leases/group/one";

async fn what_clients_keep_of_a_lost_history_is_refused_after_a_restore(installation: &Installation) {
    let mut server = installation.serve().start().await.unwrap();
    let api = server.api();
    let east = path_of(&create_cluster(&api, "east").await);
    create_cluster(&api, "west").await;
    let keyed = json!({"kind": "Cluster", "name": "keyed", "spec": {}});
    let keyed = async |api: &Client| api.post(CLUSTERS).header("idempotency-key", "k").json(&keyed).await;
    keyed(&api).await.expect_status(201);
    claim(&api, ("if-none-match", "*")).await.expect_status(200);
    let backup = installation.backup().await;

    // Lost: a third state of `east`, a page and a lease.
    let lost = etag(&patch(&api, &east, "*", 1).await.expect_status(200));
    let page = api.get(&format!("{CLUSTERS}?pageSize=1")).await.expect_status(200).json();
    let (position, token) = (text(&page["position"]), text(&page["next_page_token"]));
    let lease = etag(&claim(&api, ("if-match", "*")).await.expect_status(200));
    assert!(watch(&api, position).await.is_ok(), "the position is good in its own history");
    server.terminate().await.unwrap();

    installation.restore(&backup).await;
    let migrate =
        Program::new().run(&["migrate", "--new-epoch", "--database-url", &installation.url()]).await;
    assert_eq!(migrate.code, Some(0), "{migrate:?}");
    let lines: Vec<&str> = migrate.stdout.lines().collect();
    let ["schema 1: nothing to do", epoch] = lines[..] else { panic!("{migrate:?}") };
    let epoch = epoch.strip_prefix("epoch ").unwrap();
    server.restart().await.unwrap();

    // Versions have caught up with the lost ones.
    let api = server.api();
    let other = patch(&api, &east, "*", 100).await.expect_status(200);
    create_cluster(&api, "south").await;
    let (version, _) = lost.trim_matches('"').split_once('-').unwrap();
    assert_eq!(etag(&other), format!("\"{version}-{epoch}\""));

    for header in [false, true] {
        let answer = match header {
            false => api.get(&format!("{CLUSTERS}?watch=true&since={position}")).await,
            true => api.get(&format!("{CLUSTERS}?watch=true")).header("last-event-id", position).await,
        };
        let answer = answer.expect_status(410);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004");
        let field = if header { "Last-Event-ID" } else { "since" };
        assert_eq!(
            (&answer.json()["errors"][0]["field"], &answer.json()["errors"][0]["constraint"]),
            (&json!(field), &json!("epoch"))
        );
    }
    let stale = patch(&api, &east, &lost, 2).await.expect_status(409);
    assert_eq!(stale.problem_code(), "HYPERFLEET-CNF-002");
    let problem = stale.json();
    assert_eq!(problem["expected_version"], lost.trim_matches('"'));
    assert_eq!(problem["actual_version"].to_string(), version);
    assert!(text(&problem["detail"]).contains("before the database was restored"), "{stale}");
    api.delete(&east).header("if-match", &lost).await.expect_status(409);
    let read = api.get(&east).header("if-none-match", &lost).await.expect_status(200);
    assert_eq!((read.json()["spec"]["n"].as_i64(), etag(&read)), (Some(100), etag(&other)));
    let page = api.get(&format!("{CLUSTERS}?pageSize=1&pageToken={token}")).await.expect_status(400);
    assert_eq!(page.json()["errors"][0]["field"], "pageToken");
    claim(&api, ("if-match", &lease)).await.expect_status(409);

    // What the restored database gives out is good, also for what it kept.
    let replayed = keyed(&api).await.expect_status(201);
    assert_eq!(replayed.header("idempotency-replayed"), Some("true"));
    patch(&api, &path_of(&replayed), &etag(&replayed), 1).await.expect_status(200);
    patch(&api, &east, &etag(&other), 101).await.expect_status(200);
    let list = api.get(CLUSTERS).await.expect_status(200).json();
    assert!(watch(&api, text(&list["position"])).await.is_ok());
    assert!(watch(&api, &list["version"].to_string()).await.is_ok(), "a number is of the present history");
}

async fn a_counter_that_goes_backwards_below_running_replicas_begins_a_new_epoch(
    installation: &Installation,
) {
    let mut servers = vec![installation.serve().start().await.unwrap()];
    if matches!(installation, Installation::Postgres(_)) {
        servers.push(installation.serve().start().await.unwrap());
    }
    let east = path_of(&create_cluster(&servers[0].api(), "east").await);
    installation.execute(&copied("kept_", "")).await;
    let mut streams = Vec::new();
    for server in &servers {
        let path = format!("{CLUSTERS}?watch=true&since=0");
        streams.push(server.api().get(&path).open().await.unwrap());
    }
    let mut lost = Vec::new();
    for n in 1..4 {
        lost.push(etag(&patch(&servers[0].api(), &east, "*", n).await.expect_status(200)));
    }
    for stream in &mut streams {
        while stream.change().await.version() < 4 {}
    }

    installation.execute(&copied("", "kept_")).await;
    // Whichever replica takes a write first, nothing is written in the old epoch.
    let first = written(async || patch(&servers[0].api(), &east, "*", 100).await).await;
    assert_eq!((first.status, first.version()), (200, Some(2)));
    assert_ne!(etag(&first), lost[0]);
    for (server, stream) in servers.iter().zip(&mut streams) {
        let end = stream.rest().await.pop().unwrap();
        assert_eq!(end.kind(), "ERROR", "{end:?}");
        let api = server.api();
        assert_eq!(watch(&api, text(&end.json["position"])).await.unwrap_err().status, 410);
        for (number, tag) in lost.iter().enumerate() {
            let stale = written(async || patch(&api, &east, tag, 7).await).await;
            assert_eq!((stale.status, number), (409, number), "{stale}");
        }
        assert_eq!(api.get(&east).await.json()["spec"]["n"], 100);
        let list = eventually("the replica knows the epoch", DEADLINE, async || {
            let list = api.get(CLUSTERS).await.expect_status(200).json();
            text(&list["position"]).ends_with(epoch_of(&etag(&first))).then_some(list)
        })
        .await;
        assert!(watch(&api, text(&list["position"])).await.is_ok());
    }
    // They have changed it once, together.
    for server in &servers {
        assert_eq!(new_epochs(server).await, 1);
    }
}

async fn the_documented_statement_begins_a_new_epoch_below_a_running_server(installation: &Installation) {
    const GUIDE: &str = include_str!("../../../../../docs/how-to/backup.md");
    let statement = match installation {
        Installation::Sqlite(_) => "update feed set epoch = abs(random()) % 4294967296",
        Installation::Postgres(_) => "update feed set epoch = default",
    };
    assert!(GUIDE.contains(&format!("`{statement}`")));
    let server = installation.serve().start().await.unwrap();
    let api = server.api();
    let east = create_cluster(&api, "east").await;
    let old = api.get(CLUSTERS).await.expect_status(200).json();
    installation.execute(statement).await;
    assert_eq!(watch(&api, text(&old["position"])).await.unwrap_err().status, 410);
    let stale = written(async || patch(&api, &path_of(&east), &etag(&east), 1).await).await;
    assert_eq!(stale.status, 409);
    eventually("the server gives out the new epoch", DEADLINE, async || {
        let tag = etag(&api.get(&path_of(&east)).await);
        (patch(&api, &path_of(&east), &tag, 1).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(new_epochs(&server).await, 1);
}

/// Statements that make the tables with one prefix equal to those with another.
pub(crate) fn copied(to: &str, from: &str) -> String {
    let tables =
        ["feed", "resources", "resource_status", "changes", "kind_counts", "resource_facets", "facet_counts"];
    let copy = |table: &&str| match to {
        "" => format!("delete from {table}; insert into {table} select * from {from}{table};"),
        _ => format!("create table {to}{table} as select * from {from}{table};"),
    };
    format!("begin; {} commit", tables.iter().map(copy).collect::<String>())
}

/// The answer to a write, which is 503 until the server knows the epoch.
async fn written(write: impl AsyncFn() -> Answer) -> Answer {
    eventually("the server knows the epoch", DEADLINE, async || {
        let answer = write().await;
        (answer.status != 503).then_some(answer)
    })
    .await
}

/// How often the log tells of a new epoch, once it does.
async fn new_epochs(server: &Server) -> usize {
    let is_new = |line: &&Value| text(&line["message"]).starts_with("the database has a new epoch");
    eventually("the log tells of the epoch", DEADLINE, async || {
        let count = server.logs().iter().filter(is_new).count();
        (count > 0).then_some(count)
    })
    .await
}

/// Opens a watch and closes it.
async fn watch(api: &Client, since: &str) -> Result<(), Answer> {
    let path = format!("{CLUSTERS}?watch=true&since={since}");
    match api.get(&path).open().await.unwrap().status {
        200 => Ok(()),
        _ => Err(api.get(&path).await),
    }
}

async fn patch(api: &Client, path: &str, if_match: &str, n: i64) -> Answer {
    api.patch(path).header("if-match", if_match).json(&json!({"spec": {"n": n}})).await
}

async fn claim(api: &Client, (name, value): (&str, &str)) -> Answer {
    api.put(LEASE).header(name, value).json(&json!({"holder": "me", "ttl": "1h"})).await
}

fn path_of(answer: &Answer) -> String {
    format!("{CLUSTERS}/{}", id(answer))
}

fn etag(answer: &Answer) -> String {
    answer.header("etag").unwrap().to_owned()
}

fn epoch_of(tag: &str) -> &str {
    tag.trim_matches('"').split_once('-').unwrap().1
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
