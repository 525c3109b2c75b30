//! `hyperfleet verify` and its background: nothing is found in a sound database, however busy it is, and every kind of
//! damage is named by table and row.

use std::collections::BTreeSet;

use hyperfleet_testkit::{Database, Postgres, Server, eventually};
use serde_json::{Value, json};

use super::installation::Installation;
use super::program::{Ended, Program};
use crate::support::*;

both_stores!(
    start = Installation::migrated;
    a_busy_database_is_found_to_be_sound,
    every_kind_of_damage_is_named,
    damage_is_told_in_a_table_and_in_json,
    one_replica_verifies_in_the_background,
    conditions_by_other_settings_are_not_compared,
    the_database_must_be_there_and_have_the_schema,
);

/// [`CATALOG`] with a mapped condition that reads reports.
fn config() -> String {
    let zone = "
    conditions:
      - type: Served
        when: {expression: \"statuses.exists(s, s.adapter == 'dns')\"}
        output:
          status: {expression: \"statuses.filter(s, s.adapter == 'dns')[0].conditions[0].status\"}
";
    CATALOG.replacen(
        "  - {kind: Cluster, plural: clusters, required_adapters: [validator, dns], name_min_len: 3, name_max_len: 53}\n",
        &format!(
            "  - kind: Cluster\n    plural: clusters\n    required_adapters: [validator, dns]\n    name_min_len: 3\n    name_max_len: 53{zone}"
        ),
        1,
    )
}

/// Calls `verify` on a database by the configuration of the tests.
async fn verify(installation: &Installation, arguments: &[&str]) -> Ended {
    let program = Program::new().file("config.yaml", &config());
    let url = installation.url();
    let all = [&["verify", "--config", "config.yaml", "--database-url", &url], arguments].concat();
    program.run(&all).await
}

/// What a verification found, by check, table and row.
async fn findings(installation: &Installation) -> (Ended, BTreeSet<[String; 3]>) {
    let ended = verify(installation, &["-o", "json"]).await;
    let result: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let finding = |finding: &Value| ["check", "table", "id"].map(|name| text(&finding[name]).to_owned());
    let found = result["findings"].as_array().unwrap().iter().map(finding).collect();
    (ended, found)
}

#[track_caller]
fn expect_sound((ended, found): (Ended, BTreeSet<[String; 3]>)) -> Value {
    assert_eq!((ended.code, found), (Some(0), BTreeSet::new()), "{}", ended.stdout);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["skipped"], json!([]));
    result
}

/// Resources of several kinds, with reports, references, changes and deletions.
struct Fleet {
    cluster: Value,
    pool: Value,
    service: Value,
    finalizing: Value,
}

async fn fleet(app: &App) -> Fleet {
    let body = json!({"kind": "Cluster", "name": "first", "spec": {"n": 1}, "labels": {"team": "a"}});
    let cluster = app.create("/clusters", &body).await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.report(&cluster, &report("validator", 1, "True", &at(1))).await.expect_status(201);
    app.report(&cluster, &report("dns", 1, "False", &at(2))).await.expect_status(201);
    app.report(&cluster, &report("dns", 1, "False", &at(3))).await.expect_status(201);
    app.report(&cluster, &report("extra", 1, "True", &at(3))).await.expect_status(201);
    app.report(&pool, &report("validator", 1, "True", &at(4))).await.expect_status(201);
    app.merge(&cluster, &json!({"spec": {"n": 2}})).await;
    let network = app.create_named("/networks", "Network", "net").await;
    let references = json!({"networks": [{"kind": "Network", "id": network["id"]}]});
    let body = json!({"kind": "Service", "name": "web", "spec": {}, "references": references});
    let service = app.create("/services", &body).await;
    let finalizing = app.create_cluster("leaving").await;
    app.remove(&finalizing).await;
    let gone = app.create_named("/zones", "Zone", "gone").await;
    app.remove(&gone).await;
    Fleet { cluster, pool, service, finalizing }
}

async fn started(installation: &Installation) -> App {
    App::launched(installation.serve().config(config()), None).await
}

async fn a_busy_database_is_found_to_be_sound(installation: &Installation) {
    let app = started(installation).await;
    let result = {
        fleet(&app).await;
        expect_sound(findings(installation).await)
    };
    assert_eq!(
        (&result["rows"]["resources"], &result["rows"]["reports"]),
        (&json!(5), &json!(4)),
        "{result}"
    );

    // Writes go on for as long as it is verified, again and again.
    let busy = async {
        for turn in 0_u32.. {
            let cluster = app.create_cluster(&format!("busy-{turn}")).await;
            let pool = app.create_nodepool(&cluster, "pool").await;
            app.report(&cluster, &report("validator", 1, "True", &at(turn % 3_000))).await.expect_status(201);
            app.report(&cluster, &report("dns", 1, "True", &at(turn % 3_000))).await.expect_status(201);
            app.report(&cluster, &report("dns", 1, "True", &at(turn % 3_000 + 1))).await.expect_status(201);
            app.merge(&cluster, &json!({"labels": {"turn": turn.to_string()}})).await;
            app.remove(&cluster).await;
            app.report(&pool, &finalized("validator", 2, &at(turn % 3_000 + 2))).await.expect_status(201);
        }
    };
    let verified = async {
        for _ in 0..8 {
            expect_sound(findings(installation).await);
        }
    };
    tokio::select! {
        () = busy => unreachable!("it goes on for ever"),
        () = verified => {}
    }
}

/// A copy of a database, to be damaged.
async fn copy(installation: &Installation) -> Installation {
    match installation {
        Installation::Sqlite(_) => {
            let copy = Installation::sqlite();
            let (from, to) = (installation.url(), copy.url());
            let path = |url: &str| url.strip_prefix("sqlite:").unwrap().to_owned();
            std::fs::copy(path(&from), path(&to)).unwrap();
            copy
        }
        Installation::Postgres(database) => {
            let copy: Database = Postgres::shared().database_from(database.name()).await;
            Installation::Postgres(copy)
        }
    }
}

const GHOST: &str = "01900000-0000-7000-8000-000000000000";

async fn every_kind_of_damage_is_named(installation: &Installation) {
    let app = started(installation).await;
    let fleet = fleet(&app).await;
    let id = |resource: &Value| text(&resource["id"]).to_owned();
    let (cluster, pool, service, finalizing) =
        (id(&fleet.cluster), id(&fleet.pool), id(&fleet.service), id(&fleet.finalizing));
    let mut server = app.server;
    server.terminate().await.unwrap();
    if matches!(installation, Installation::Sqlite(_)) {
        installation.rows("pragma wal_checkpoint(truncate)").await;
    }
    let is_sqlite = matches!(installation, Installation::Sqlite(_));
    // Statements that damage what constraints guard.
    let unguarded =
        if is_sqlite { "pragma foreign_keys = off" } else { "set session_replication_role = replica" };
    let future = if is_sqlite { "4102444800000000" } else { "'2100-01-01'" };
    let a_while = if is_sqlite { "60000000" } else { "interval '1 minute'" };
    let facet = if is_sqlite { "zeroblob(16)" } else { "'00000000-0000-0000-0000-000000000000'" };
    let truth = if is_sqlite { "1" } else { "true" };
    let extra = format!("{cluster} extra");

    let damages: Vec<(String, [&str; 3])> = vec![
        ("delete from changes where version = 3".into(), ["versions", "changes", "4"]),
        ("update feed set version = version + 5".into(), ["versions", "feed", "version"]),
        ("update feed set version = version - 1".into(), ["versions", "feed", "version"]),
        ("delete from feed".into(), ["versions", "feed", ""]),
        ("update history set pruned_version = 2".into(), ["versions", "changes", "1"]),
        (
            format!("update resource_status set version = 1 where resource_id = '{pool}'"),
            ["versions", "resource_status", &pool],
        ),
        ("update changes set body = 'broken' where version = 2".into(), ["rows", "changes", "2"]),
        ("update changes set entry_count = 9 where version = 2".into(), ["rows", "changes", "2"]),
        (
            format!("update changes set changed_time = {future} where version = 2"),
            ["times", "changes", "2"],
        ),
        (
            format!("update resources set spec = '{{broken' where id = '{cluster}'"),
            ["rows", "resources", &cluster],
        ),
        (
            format!("update resources set ancestors = 'nobody' where id = '{pool}'"),
            ["rows", "resources", &pool],
        ),
        (
            "update reports set body = 'broken' where adapter = 'extra'".to_owned(),
            ["rows", "reports", &extra],
        ),
        (
            "update reports set reason = 'Another' where adapter = 'extra'".into(),
            ["rows", "reports", &extra],
        ),
        ("update reports set bytes = 7 where adapter = 'extra'".into(), ["rows", "reports", &extra]),
        (
            format!("update reports set last_report_time = {future} where adapter = 'extra'"),
            ["times", "reports", &extra],
        ),
        (
            format!("update resources set updated_time = {future} where id = '{service}'"),
            ["times", "resources", &service],
        ),
        (
            "update kind_counts set active = active + 1 where kind = 'Cluster'".into(),
            ["counts", "kind_counts", "Cluster"],
        ),
        ("delete from kind_counts where kind = 'Service'".into(), ["counts", "kind_counts", "Service"]),
        (
            format!("delete from resource_facets where resource_id = '{cluster}'"),
            ["facets", "resource_facets", &cluster],
        ),
        (
            format!(
                "insert into resource_facets (facet, created_time, resource_id)
                 select {facet}, created_time, id from resources where id = '{cluster}'"
            ),
            ["facets", "resource_facets", &cluster],
        ),
        (
            format!(
                "insert into resource_facets (facet, created_time, resource_id)
                 select facet, created_time, '{GHOST}' from resource_facets limit 1"
            ),
            ["references", "resource_facets", GHOST],
        ),
        (
            format!("update reports set resource_id = '{GHOST}' where adapter = 'extra'"),
            ["references", "reports", GHOST],
        ),
        (
            format!("update resource_status set resource_id = '{GHOST}' where resource_id = '{pool}'"),
            ["references", "resource_status", &pool],
        ),
        (
            format!("update resources set owner_id = '{GHOST}' where id = '{pool}'"),
            ["references", "resources", GHOST],
        ),
        (format!("update resources set owner_id = null where id = '{pool}'"), ["references", "resources", &pool]),
        (
            format!("delete from resource_references where source_id = '{service}'"),
            ["references", "resource_references", &service],
        ),
        (
            format!("update resource_references set target_id = '{GHOST}' where source_id = '{service}'"),
            ["references", "resource_references", GHOST],
        ),
        (
            format!("update resources set deleted_time = updated_time, deleted_by = 'me' where id = '{cluster}'"),
            ["references", "resources", &pool],
        ),
        (
            format!(
                "update resource_status set conditions = replace(conditions, 'ReconciledMissingAdapters', 'Other')
                 where resource_id = '{cluster}'"
            ),
            ["conditions", "resource_status", "RECONCILED"],
        ),
        (
            format!("update reports set available = 'True' where adapter = 'dns' and resource_id = '{cluster}'"),
            ["conditions", "resource_status", "DNS"],
        ),
        (
            format!("update resource_status set pending_since = null where resource_id = '{finalizing}'"),
            ["conditions", "resource_status", "PENDING"],
        ),
        (
            format!(
                "update resource_status set updated_after = updated_after - {a_while} where resource_id = '{pool}'"
            ),
            ["conditions", "resource_status", &pool],
        ),
        (
            format!(
                "update reports set finalized = {truth}, observed_generation = 2 where resource_id = '{pool}';
                 update resources set deleted_time = updated_time, deleted_by = 'me', generation = 2
                 where id = '{pool}'"
            ),
            ["conditions", "resource_status", "DELETION"],
        ),
    ];
    let special = [
        ("RECONCILED", format!("{cluster} Reconciled")),
        ("DNS", format!("{cluster} DnsSuccessful")),
        ("PENDING", format!("{finalizing} pending_since")),
        ("DELETION", format!("{pool} deletion")),
    ];
    expect_sound(findings(installation).await);
    for (damage, expected) in damages {
        let [check, table, row] = expected;
        let row = special.iter().find(|(name, _)| *name == row).map_or(row, |(_, row)| row);
        let damaged = copy(installation).await;
        damaged.execute(&format!("{unguarded}; {damage}")).await;
        let (ended, found) = findings(&damaged).await;
        let expected = [check, table, row].map(str::to_owned);
        assert!(found.contains(&expected), "{damage}\n{expected:?} is not among {found:#?}");
        assert_eq!(ended.code, Some(9), "{damage}");
    }
}

async fn damage_is_told_in_a_table_and_in_json(installation: &Installation) {
    let app = started(installation).await;
    fleet(&app).await;
    drop(app);
    let sound = verify(installation, &[]).await;
    assert_eq!((sound.code, sound.stdout.as_str()), (Some(0), ""), "{sound:?}");
    assert!(sound.stderr.contains("nothing is damaged"), "{sound:?}");

    installation.execute("update kind_counts set active = 7 where kind = 'Service'").await;
    let damaged = verify(installation, &[]).await;
    assert_eq!(damaged.code, Some(9));
    insta::assert_snapshot!(damaged.stdout, @"
    CHECK   TABLE        ID       EXPECTED                                                        FOUND
    counts  kind_counts  Service  active 1, finalizing 0, pending_active 0, pending_finalizing 0  active 7, finalizing 0, pending_active 0, pending_finalizing 0
    ");
    assert!(damaged.stderr.contains("findings: 1 of counts"), "{damaged:?}");
    let json: Value = serde_json::from_str(&verify(installation, &["-o", "json"]).await.stdout).unwrap();
    assert_eq!(json["checks"]["counts"], 1);
    assert_eq!(
        json["findings"][0],
        json!({
            "check": "counts",
            "table": "kind_counts",
            "id": "Service",
            "expected": "active 1, finalizing 0, pending_active 0, pending_finalizing 0",
            "found": "active 7, finalizing 0, pending_active 0, pending_finalizing 0",
        })
    );
}

/// The value of a metric of one server.
async fn metric(server: &Server, series: &str) -> Option<f64> {
    let answer = server.metrics().get("/metrics").await.expect_status(200);
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

async fn one_replica_verifies_in_the_background(installation: &Installation) {
    let app = started(installation).await;
    fleet(&app).await;
    drop(app);
    installation.execute("update kind_counts set active = 7 where kind = 'Service'").await;
    let launch = || installation.serve().config(config() + "\nverify: {interval: 1h}\n");
    let first = launch().start().await.unwrap();
    let counts = r#"hyperfleet_verify_findings{check="counts"}"#;
    eventually("a verification", DEADLINE, async || metric(&first, counts).await).await;
    assert_eq!(metric(&first, counts).await, Some(1.0));
    assert_eq!(metric(&first, r#"hyperfleet_verify_findings{check="times"}"#).await, Some(0.0));
    assert!(metric(&first, "hyperfleet_verify_last_run_timestamp_seconds").await.unwrap() > 1e9);
    let told = |line: &Value| line["message"] == "the database is damaged" && line["id"] == "Service";
    eventually("a line of the log", DEADLINE, async || first.logs().iter().any(told).then_some(())).await;

    let second = launch().env("HYPERFLEET_LOGGING_LEVEL", "debug").start().await.unwrap();
    eventually("a replica that leaves it to the other", DEADLINE, async || {
        let told = |line: &Value| line["message"] == "another replica verifies the database";
        second.logs().iter().any(told).then_some(())
    })
    .await;
    assert_eq!(metric(&second, counts).await, None);
}

async fn conditions_by_other_settings_are_not_compared(installation: &Installation) {
    let app = started(installation).await;
    fleet(&app).await;
    drop(app);
    let other = config().replace("required_adapters: [validator, dns]", "required_adapters: [other]");
    let program = Program::new().file("config.yaml", &other);
    let url = installation.url();
    let ended = program.run(&["verify", "--config", "config.yaml", "--database-url", &url]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("not verified: conditions of Cluster"), "{ended:?}");
}

async fn the_database_must_be_there_and_have_the_schema(installation: &Installation) {
    let absent = match installation {
        Installation::Sqlite(_) => verify(installation, &[]).await,
        Installation::Postgres(_) => {
            let empty = Installation::empty(Backend::Postgres).await;
            verify(&empty, &[]).await
        }
    };
    assert_eq!((absent.code, absent.stdout.as_str()), (Some(2), ""), "{absent:?}");
    match installation {
        Installation::Sqlite(directory) => {
            assert!(absent.stderr.contains("there is no SQLite database"), "{absent:?}");
            assert!(!directory.path().join("hyperfleet.db").exists(), "it must not be made");
        }
        Installation::Postgres(_) => {
            assert!(absent.stderr.contains("run `hyperfleet migrate`"), "{absent:?}");
        }
    }
}

/// PostgreSQL's own check of indexes is used where an administrator has installed it.
#[tokio::test]
async fn indexes_are_checked_by_amcheck() {
    let installation = Installation::migrated(Backend::Postgres).await;
    let app = started(&installation).await;
    fleet(&app).await;
    installation.execute("create extension amcheck").await;
    expect_sound(findings(&installation).await);
}
