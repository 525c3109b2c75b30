//! The schema's life: made once however many start, refused when it is of a newer release, left alone when told so;
//! and history, which is kept for its time and no longer.

use std::sync::Arc;

use hyperfleet_testkit::{Launch, Server, eventually};
use serde_json::Value;
use tokio::task::JoinSet;

use super::home::Home;
use super::program::Program;
use super::{DEADLINE, create_cluster};

const STEPS: &str = "select number, name from schema_migrations order by number";

/// What it says when all steps are done.
const APPLIED: [[&str; 2]; 12] = [
    ["1", "0001_resources"],
    ["2", "0002_reports"],
    ["3", "0003_search"],
    ["4", "0004_tenants"],
    ["5", "0005_row_security"],
    ["6", "0006_history"],
    ["7", "0007_leases"],
    ["8", "0008_packed"],
    ["9", "0009_status_tenancy"],
    ["10", "0010_moved_reports"],
    ["11", "0011_dictionaries"],
    ["12", "0012_noted_times"],
];

#[tokio::test]
async fn ten_servers_on_one_empty_postgres_migrate_it_once() {
    migrate_once(Home::postgres().await, 10).await;
}

#[tokio::test]
async fn five_servers_on_one_empty_sqlite_file_migrate_it_once() {
    migrate_once(Home::sqlite(), 5).await;
}

async fn migrate_once(home: Home, servers: usize) {
    let home = Arc::new(home);
    let mut starting = JoinSet::new();
    for _ in 0..servers {
        starting.spawn(home.serve().start());
    }
    let running: Vec<_> = starting
        .join_all()
        .await
        .into_iter()
        .map(|server| server.expect("every server becomes ready"))
        .collect();
    assert_eq!(home.rows(STEPS).await, APPLIED);
    let applied = |line: &Value| line["message"] == "migrated the database";
    let times = running.iter().flat_map(Server::logs).filter(applied).count();
    assert_eq!(times, APPLIED.len(), "one of them did it, step by step");

    // All of them write at the same time, in one order, and see what the others did.
    let mut writes = JoinSet::new();
    for number in 0..servers * 4 {
        let api = running[number % servers].api();
        writes.spawn(async move {
            let made = create_cluster(&api, &format!("of-{number}")).await;
            made.header("etag").unwrap().trim_matches('"').parse::<usize>().unwrap()
        });
    }
    let mut versions = writes.join_all().await;
    versions.sort_unstable();
    assert_eq!(versions, (1..=servers * 4).collect::<Vec<_>>());
    for server in &running {
        let list = server.api().get("/api/hyperfleet/v1/clusters").await.json();
        assert_eq!((&list["total"], &list["version"]), (&(servers * 4).into(), &(servers * 4).into()));
    }
}

on_both_stores!(
    operators_who_migrate_at_the_same_moment_all_succeed,
    a_database_of_a_newer_release_is_refused,
    manual_migrations_are_left_to_the_operator,
    history_is_kept_for_its_retention_and_no_longer,
);

async fn operators_who_migrate_at_the_same_moment_all_succeed(home: &Home) {
    let mut operators = JoinSet::new();
    for _ in 0..16 {
        let url = home.url();
        operators.spawn(async move { Program::new().run(&["migrate", "--database-url", &url]).await });
    }
    let mut said: Vec<_> = operators.join_all().await.into_iter().map(|ended| ended.stdout).collect();
    said.sort();
    let first = said.remove(0);
    assert_eq!(
        first,
        "schema 12: applied 0001_resources, 0002_reports, 0003_search, 0004_tenants, 0005_row_security, 0006_history, 0007_leases, 0008_packed, 0009_status_tenancy, 0010_moved_reports, 0011_dictionaries, 0012_noted_times\n"
    );
    assert_eq!(said, ["schema 12: nothing to do\n"; 15]);
}

async fn a_database_of_a_newer_release_is_refused(home: &Home) {
    let mut server = home.serve().start().await.unwrap();
    assert_eq!(server.terminate().await.unwrap().code(), Some(0));
    home.execute("insert into schema_migrations (number, name) values (999, '0999_from_the_future')").await;

    const REFUSAL: &str = "error: the database's schema is number 999, but this release knows only up to 12: \
         it was written by a newer hyperfleet. Run that release, or restore a backup made before the upgrade";
    for launch in [home.serve(), home.serve().env("HYPERFLEET_DATABASE_MIGRATE", "manual")] {
        let refused = refusal(launch).await;
        assert!(refused.contains("exit status: 1") && refused.contains(REFUSAL), "{refused}");
    }
    let migrate = Program::new().run(&["migrate", "--database-url", &home.url()]).await;
    assert_eq!((migrate.code, migrate.stdout.as_str()), (Some(1), ""));
    assert_eq!(migrate.stderr, format!("{REFUSAL}\n"));
}

async fn manual_migrations_are_left_to_the_operator(home: &Home) {
    let serve = || home.serve().env("HYPERFLEET_DATABASE_MIGRATE", "manual");
    let refused = refusal(serve()).await;
    assert!(
        refused.contains("exit status: 1")
            && refused.contains(
                "error: the database's schema is number 0 and lacks 12 of this release's steps (0001_resources, 0002_reports, 0003_search, 0004_tenants, 0005_row_security, 0006_history, 0007_leases, 0008_packed, 0009_status_tenancy, 0010_moved_reports, 0011_dictionaries, 0012_noted_times): \
                 run `hyperfleet migrate`, or set database.migrate: auto"
            ),
        "{refused}"
    );

    let operator = Program::new().env("HYPERFLEET_DATABASE_URL", &home.url());
    for said in [
        "schema 12: applied 0001_resources, 0002_reports, 0003_search, 0004_tenants, 0005_row_security, 0006_history, 0007_leases, 0008_packed, 0009_status_tenancy, 0010_moved_reports, 0011_dictionaries, 0012_noted_times\n",
        "schema 12: nothing to do\n",
    ] {
        let migrate = operator.run(&["migrate"]).await;
        assert_eq!((migrate.code, migrate.stdout.as_str()), (Some(0), said), "{}", migrate.stderr);
    }
    let server = serve().start().await.unwrap();
    create_cluster(&server.api(), "first").await;
    assert_eq!(home.rows(STEPS).await, APPLIED);
}

async fn history_is_kept_for_its_retention_and_no_longer(home: &Home) {
    let mut server = home.serve().env("HYPERFLEET_HISTORY_RETENTION", "1h").start().await.unwrap();
    for name in ["old", "young"] {
        create_cluster(&server.api(), name).await;
    }
    server.terminate().await.unwrap();
    home.execute(match home {
        Home::Sqlite(_) => "update changes set at = at - 7200000000 where version = 1",
        Home::Postgres(_) => "update changes set at = at - interval '2 hours' where version = 1",
    })
    .await;

    server.restart().await.unwrap();
    eventually("the old change is pruned", DEADLINE, async || {
        (home.rows("select version from changes").await == [["2"]]).then_some(())
    })
    .await;
    // The resource itself stays, and so does its version.
    let list = server.api().get("/api/hyperfleet/v1/clusters?fields=name&orderBy=name").await.json();
    assert_eq!((&list["total"], &list["version"]), (&2.into(), &2.into()));
    assert_eq!(list["items"][0]["name"], "old");
}

/// What a server that must not start says.
async fn refusal(launch: Launch) -> String {
    launch.start().await.expect_err("the server must refuse").to_string()
}
