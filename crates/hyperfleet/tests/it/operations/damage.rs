//! A database that is damaged: pages of a SQLite file stop the writes, a row that cannot be read fails nothing but itself,
//! and `hyperfleet verify` names what is damaged.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use hyperfleet_testkit::{Client, eventually};
use serde_json::{Value, json};

use super::installation::Installation;
use super::program::{Program, Running};
use super::{CLUSTERS, cluster, create_cluster, id};
use crate::support::*;

both_stores!(start = Installation::migrated; a_row_that_cannot_be_read_fails_only_itself);

const PAGE: u64 = 4096;

/// Overwrites the beginning of the page where a table or an index of a stopped SQLite file begins.
async fn break_root(installation: &Installation, name: &str) {
    installation.rows("pragma wal_checkpoint(truncate)").await;
    let root = installation.rows(&format!("select rootpage from sqlite_master where name = '{name}'")).await;
    let root: u64 = root[0][0].parse().unwrap();
    let url = installation.url();
    let file = Path::new(url.strip_prefix("sqlite:").unwrap());
    let mut file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start((root - 1) * PAGE)).unwrap();
    file.write_all(&[0xA5; 64]).unwrap();
}

/// A database with some clusters, whose server has stopped; their paths.
async fn filled(installation: &Installation) -> Vec<String> {
    let mut server = installation.serve().start().await.unwrap();
    let mut paths = Vec::new();
    for number in 0..5 {
        paths.push(format!(
            "{CLUSTERS}/{}",
            id(&create_cluster(&server.api(), &format!("cluster-{number}")).await)
        ));
    }
    server.terminate().await.unwrap();
    paths
}

fn program(installation: &Installation) -> Program {
    Program::new()
        .env("HYPERFLEET_DATABASE_URL", &installation.url())
        .env("HYPERFLEET_SERVER_JWT_ENABLED", "false")
        .env("HYPERFLEET_SERVER_PORT", "0")
        .env("HYPERFLEET_HEALTH_PORT", "0")
        .env("HYPERFLEET_METRICS_PORT", "0")
}

/// Waits until readiness says that the file is damaged.
async fn told_by_readiness(running: &Running) {
    let health = running.client("health").await;
    let answer = eventually("a server that is not ready", DEADLINE, async || {
        let answer = health.get("/readyz").send().await.ok()?;
        (answer.status == 503 && answer.json()["detail"].as_str()?.contains("damaged")).then_some(answer)
    });
    assert_eq!(answer.await.json()["checks"]["database"]["status"], "failing");
}

async fn expect_no_writes(api: &Client, paths: &[String]) {
    for answer in [
        api.post(CLUSTERS).json(&cluster("another")).await,
        api.patch(&paths[0]).json(&json!({"spec": {"n": 2}})).await,
        api.delete(&paths[1]).await,
    ] {
        let problem = answer.json();
        assert_eq!((answer.status, text(&problem["code"])), (503, "HYPERFLEET-SVC-002"), "{answer}");
        assert!(text(&problem["detail"]).contains("The database file is damaged"), "{answer}");
    }
}

#[tokio::test]
async fn damaged_pages_show_in_readiness_and_stop_the_writes() {
    let installation = Installation::sqlite();
    let paths = filled(&installation).await;
    break_root(&installation, "resources_by_kind").await;
    let before = std::fs::read(installation.url().strip_prefix("sqlite:").unwrap()).unwrap();

    let running = program(&installation).start(&["serve"]);
    // Before any request comes upon the page.
    told_by_readiness(&running).await;
    let api = running.client("api").await;
    expect_no_writes(&api, &paths).await;
    // What is on other pages is still read.
    for path in &paths {
        api.get(path).await.expect_status(200);
    }
    running.signal("TERM").await;
    drop(running);
    let after = std::fs::read(installation.url().strip_prefix("sqlite:").unwrap()).unwrap();
    assert_eq!(before.len(), after.len(), "the file did not grow");

    let ended = program(&installation).run(&["verify", "-o", "json"]).await;
    assert_eq!(ended.code, Some(9), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let named = |finding: &Value| {
        finding["check"] == "storage"
            && finding["table"] == "resources"
            && finding["id"] == "index resources_by_kind"
    };
    assert!(result["findings"].as_array().unwrap().iter().any(named), "{result}");
}

#[tokio::test]
async fn a_request_that_comes_upon_a_damaged_page_stops_the_writes() {
    let installation = Installation::sqlite();
    let running = program(&installation).start(&["serve"]);
    let api = running.client("api").await;
    let mut paths = Vec::new();
    for number in 0..5 {
        paths.push(format!("{CLUSTERS}/{}", id(&create_cluster(&api, &format!("cluster-{number}")).await)));
    }
    // Behind the back of the server, whose pages are in the log until then.
    break_root(&installation, "kind_counts").await;
    eventually("a write that is refused", DEADLINE, async || {
        let answer = api.post(CLUSTERS).json(&cluster(&unique("more"))).await;
        (answer.status == 503).then_some(())
    })
    .await;
    told_by_readiness(&running).await;
    expect_no_writes(&api, &paths).await;
    api.get(&paths[0]).await.expect_status(200);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let installation = Installation::sqlite();
    std::fs::write(installation.url().strip_prefix("sqlite:").unwrap(), "x".repeat(10_000)).unwrap();
    let ended = program(&installation).run(&["verify"]).await;
    assert_eq!(ended.code, Some(9), "{ended:?}");
    assert!(ended.stdout.contains("file is not a database"), "{ended:?}");
    let ended = program(&installation).run(&["serve"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

async fn a_row_that_cannot_be_read_fails_only_itself(installation: &Installation) {
    let paths = filled(installation).await;
    let broken = paths[2].rsplit_once('/').unwrap().1;
    // SQLite would pass on what it holds, for it keeps no checksums.
    let damage = match installation {
        Installation::Sqlite(_) => {
            format!("update resources set spec = cast(x'7b220001fffe22' as text) where id = '{broken}'")
        }
        Installation::Postgres(_) => {
            format!("update resources set ancestors = 'broken' where id = '{broken}'")
        }
    };
    installation.execute(&damage).await;
    let server = installation.serve().start().await.unwrap();
    let api = server.api();
    for (number, path) in paths.iter().enumerate() {
        assert_eq!(api.get(path).await.status, if number == 2 { 500 } else { 200 }, "{path}");
    }
    let list = api.get(CLUSTERS).await.expect_status(200).json();
    let names: Vec<&str> = list["items"].as_array().unwrap().iter().map(|item| text(&item["name"])).collect();
    assert_eq!(names, ["cluster-4", "cluster-3", "cluster-1", "cluster-0"]);
    let told = |line: &Value| {
        line["message"].as_str().is_some_and(|text| text.contains("cannot be read and is left out"))
            && line["resource_id"] == broken
    };
    eventually("a line of the log", DEADLINE, async || server.logs().iter().any(told).then_some(())).await;

    // A watch begins, and goes on beyond a change of the row.
    let mut watch = api.get(&format!("{CLUSTERS}?watch=true")).open().await.unwrap();
    for _ in 0..4 {
        watch.change().await;
    }
    watch.until_bookmark().await;
    installation
        .execute(&format!(
            "insert into changes (version, resource_id, changed_time, entry_count, touched_parts, kind, actor, request_id, body)
             select 6, resource_id, changed_time, 1, touched_parts, kind, actor, request_id, 'broken'
             from changes where resource_id = '{broken}';
             update feed set version = 6"
        ))
        .await;
    api.patch(&paths[0]).json(&json!({"spec": {"n": 5}})).await.expect_status(200);
    eventually("the next change", DEADLINE, async || {
        let change = watch.change().await;
        (change.object()["name"] == "cluster-0").then_some(())
    })
    .await;
    assert_eq!(server.health().get("/readyz").await.status, 200);

    let ended = program(installation).run(&["verify", "-o", "json"]).await;
    assert_eq!(ended.code, Some(9), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let found = |table: &str, id: &str| {
        let named =
            |finding: &Value| finding["table"] == table && finding["id"] == id && finding["check"] == "rows";
        result["findings"].as_array().unwrap().iter().any(named)
    };
    assert!(found("resources", broken) && found("changes", "6"), "{result}");
}
