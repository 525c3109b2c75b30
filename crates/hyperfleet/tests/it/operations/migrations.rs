//! The schema's life: made once however many start, refused when it is of a newer release, left alone when told so;
//! and history, which is kept for its time and no longer.

use std::sync::Arc;

use hyperfleet_testkit::{Launch, Server, eventually};
use serde_json::Value;
use tokio::task::JoinSet;

use super::installation::Installation;
use super::program::Program;
use super::{DEADLINE, create_cluster};
use crate::support::{Backend, both_stores};

const STEPS: &str = "select number, name from schema_migrations order by number";

/// What it says when all steps are done.
const APPLIED: [[&str; 2]; 1] = [["1", "0001_baseline"]];

/// The number of the schema then.
const NEWEST: usize = APPLIED.len();

/// All steps.
fn names() -> String {
    APPLIED.map(|[_, name]| name).join(", ")
}

#[tokio::test]
async fn ten_servers_on_one_empty_postgres_migrate_it_once() {
    migrate_once(Installation::empty(Backend::Postgres).await, 10).await;
}

#[tokio::test]
async fn five_servers_on_one_empty_sqlite_file_migrate_it_once() {
    migrate_once(Installation::sqlite(), 5).await;
}

async fn migrate_once(installation: Installation, servers: usize) {
    let installation = Arc::new(installation);
    let mut starting = JoinSet::new();
    for _ in 0..servers {
        starting.spawn(installation.serve().start());
    }
    let running: Vec<_> = starting
        .join_all()
        .await
        .into_iter()
        .map(|server| server.expect("every server becomes ready"))
        .collect();
    assert_eq!(installation.rows(STEPS).await, APPLIED);
    let applied = |line: &Value| line["message"] == "migrated the database";
    let times = running.iter().flat_map(Server::logs).filter(applied).count();
    assert_eq!(times, APPLIED.len(), "one of them did it, step by step");

    // All of them write at the same time, in one order, and see what the others did.
    let mut writes = JoinSet::new();
    for number in 0..servers * 4 {
        let api = running[number % servers].api();
        writes.spawn(async move {
            let made = create_cluster(&api, &format!("of-{number}")).await;
            made.version().unwrap()
        });
    }
    let mut versions = writes.join_all().await;
    versions.sort_unstable();
    assert_eq!(versions, (1..=servers as u64 * 4).collect::<Vec<_>>());
    for server in &running {
        let list = server.api().get("/api/hyperfleet/v1/clusters").await.json();
        assert_eq!((&list["total"], &list["version"]), (&(servers * 4).into(), &(servers * 4).into()));
    }
}

both_stores!(
    start = Installation::empty;
    operators_who_migrate_at_the_same_time_all_succeed,
    a_server_starts_on_the_schema_of_the_next_release,
    a_newer_schema_that_needs_a_newer_release_is_refused,
    a_database_whose_steps_have_other_names_is_refused,
    manual_migrations_are_left_to_the_operator,
    history_is_kept_for_its_retention_and_no_longer,
);

async fn operators_who_migrate_at_the_same_time_all_succeed(installation: &Installation) {
    let mut operators = JoinSet::new();
    for _ in 0..16 {
        let url = installation.url();
        operators.spawn(async move { Program::new().run(&["migrate", "--database-url", &url]).await });
    }
    let mut said: Vec<_> = operators.join_all().await.into_iter().map(|ended| ended.stdout).collect();
    said.sort();
    let first = said.remove(0);
    assert_eq!(first, format!("schema {NEWEST}: applied {}\n", names()));
    assert_eq!(said, vec![format!("schema {NEWEST}: nothing to do\n"); 15]);
}

/// Replicas of the release before go on, and restart, while and after the next one has migrated.
async fn a_server_starts_on_the_schema_of_the_next_release(installation: &Installation) {
    let mut server = installation.serve().start().await.unwrap();
    create_cluster(&server.api(), "before").await;
    let next = NEWEST + 1;
    let step = format!(
        "insert into schema_migrations (number, name, compatible_from) values ({next}, 'of_the_next', 1)"
    );
    installation.execute(&step).await;
    installation.execute("alter table resources add column of_the_next text").await;
    create_cluster(&server.api(), "meanwhile").await;
    assert_eq!(server.terminate().await.unwrap().code(), Some(0));

    for launch in [installation.serve(), installation.serve().env("HYPERFLEET_DATABASE_MIGRATE", "manual")] {
        let mut server = launch.start().await.unwrap();
        let list = server.api().get("/api/hyperfleet/v1/clusters?search=name%3D%27meanwhile%27").await.json();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(server.terminate().await.unwrap().code(), Some(0));
    }
    let mut server = installation.serve().start().await.unwrap();
    create_cluster(&server.api(), "after").await;
    assert_eq!(server.terminate().await.unwrap().code(), Some(0));
    let migrate = Program::new().run(&["migrate", "--database-url", &installation.url()]).await;
    assert_eq!(
        (migrate.code, migrate.stdout.as_str()),
        (Some(0), &*format!("schema {next}: nothing to do\n"))
    );
}

async fn a_newer_schema_that_needs_a_newer_release_is_refused(installation: &Installation) {
    let mut server = installation.serve().start().await.unwrap();
    assert_eq!(server.terminate().await.unwrap().code(), Some(0));
    installation.execute(
        "insert into schema_migrations (number, name, compatible_from) values (999, '0999_from_the_future', 998)",
    )
    .await;

    let refusal_text = format!(
        "error: the database's schema is number 999, but this release knows only up to {NEWEST}, and \
         step 0999_from_the_future works only with releases that know 998: it was written by a newer hyperfleet. \
         Run that release, or restore a backup made before the upgrade"
    );
    for launch in [installation.serve(), installation.serve().env("HYPERFLEET_DATABASE_MIGRATE", "manual")] {
        let refused = refusal(launch).await;
        assert!(refused.contains("exit status: 1") && refused.contains(&refusal_text), "{refused}");
    }
    let migrate = Program::new().run(&["migrate", "--database-url", &installation.url()]).await;
    assert_eq!((migrate.code, migrate.stdout.as_str()), (Some(1), ""));
    assert_eq!(migrate.stderr, format!("{refusal_text}\n"));
}

async fn a_database_whose_steps_have_other_names_is_refused(installation: &Installation) {
    let mut server = installation.serve().start().await.unwrap();
    assert_eq!(server.terminate().await.unwrap().code(), Some(0));
    installation.execute("update schema_migrations set name = '0001_resources'").await;

    const REFUSAL: &str = "error: step 1 of the database's schema is 0001_resources, but that of this release is \
         0001_baseline: the database was not made by a release of hyperfleet. Use an empty database";
    let migrate = Program::new().run(&["migrate", "--database-url", &installation.url()]).await;
    assert_eq!((migrate.code, migrate.stderr), (Some(1), format!("{REFUSAL}\n")));
    assert!(refusal(installation.serve()).await.contains(REFUSAL));
}

async fn manual_migrations_are_left_to_the_operator(installation: &Installation) {
    let serve = || installation.serve().env("HYPERFLEET_DATABASE_MIGRATE", "manual");
    let refused = refusal(serve()).await;
    assert!(
        refused.contains("exit status: 1")
            && refused.contains(&format!(
                "error: the database's schema is number 0 and lacks {NEWEST} of this release's steps ({}): \
                 run `hyperfleet migrate`, or set database.migrate: auto",
                names()
            )),
        "{refused}"
    );

    let operator = Program::new().env("HYPERFLEET_DATABASE_URL", &installation.url());
    for said in [format!("applied {}", names()), "nothing to do".to_owned()] {
        let migrate = operator.run(&["migrate"]).await;
        assert_eq!(
            (migrate.code, migrate.stdout),
            (Some(0), format!("schema {NEWEST}: {said}\n")),
            "{}",
            migrate.stderr
        );
    }
    let server = serve().start().await.unwrap();
    create_cluster(&server.api(), "first").await;
    assert_eq!(installation.rows(STEPS).await, APPLIED);
}

async fn history_is_kept_for_its_retention_and_no_longer(installation: &Installation) {
    let mut server = installation.serve().env("HYPERFLEET_HISTORY_RETENTION", "1h").start().await.unwrap();
    for name in ["old", "young"] {
        create_cluster(&server.api(), name).await;
    }
    server.terminate().await.unwrap();
    installation
        .execute(match installation {
            Installation::Sqlite(_) => {
                "update changes set changed_time = changed_time - 7200000000 where version = 1"
            }
            Installation::Postgres(_) => {
                "update changes set changed_time = changed_time - interval '2 hours' where version = 1"
            }
        })
        .await;

    server.restart().await.unwrap();
    eventually("the old change is pruned", DEADLINE, async || {
        (installation.rows("select version from changes").await == [["2"]]).then_some(())
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
