//! A report that only confirms writes one row: its time is kept beside the conditions of its resource.

use hyperfleet_core::rules::Reported;
use hyperfleet_core::{ConditionDescriptor, ExpressionDescriptor, OutputDescriptor, ResourceId};
use hyperfleet_store::{Backend, SslMode};
use hyperfleet_testkit::{Database, Postgres};
use rusqlite::Connection;
use serde_json::json;

use crate::replica::{ADAPTERS, Replica, at};

/// Adapter names that have a meaning in a JSON path or in SQL, or must be escaped there; and one that equals another
/// without its escape.
const NAMES: [&str; 15] = [
    "$", "$x", "$.dns", "$[0]", "[0]", "[edge]", "0", "a.b", "a\"b", "a'b", "dns\"", "a\\", "\\u0061", "a",
    "zähler",
];

#[tokio::test]
async fn a_report_that_only_confirms_does_not_write_its_row_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fleet.db");
    let backend = Backend::Sqlite { path: Some(file.clone()) };
    let replica = Replica::at(backend.clone()).await;
    let id = replica.clusters(1).await[0];
    let behind = Connection::open(&file).unwrap();
    behind
        .execute_batch(
            "create trigger untouched before update on reports
             begin select raise(abort, 'a row of reports is written'); end",
        )
        .unwrap();
    for second in [2, 3] {
        replica.report(id, "dns", second, "first").await.unwrap();
        replica.assert_last(id, "dns", second).await;
        replica.assert_last(id, "validator", 1).await;
    }
    replica.report(id, "dns", 4, "second").await.unwrap_err();
    // Another process takes the later of both times.
    let other = Replica::at(backend).await;
    other.assert_last(id, "dns", 3).await;
    behind.execute_batch("drop trigger untouched").unwrap();
    other.report(id, "dns", 5, "second").await.unwrap();
    for replica in [&replica, &other] {
        replica.assert_last(id, "dns", 5).await;
    }
}

#[tokio::test]
async fn report_times_of_adapters_with_any_name_are_kept_apart_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    any_name(&Backend::Sqlite { path: Some(directory.path().join("fleet.db")) }).await;
}

#[tokio::test]
async fn report_times_of_adapters_with_any_name_are_kept_apart_on_postgresql() {
    let database = Postgres::shared().database().await;
    any_name(&on(&database)).await;
}

fn on(database: &Database) -> Backend {
    Backend::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None }
}

/// All adapters are required, or one of them; each has a time of its own.
async fn any_name(backend: &Backend) {
    for required in [&NAMES[..], &["dns"]] {
        let id = ResourceId::generate();
        let replica = Replica::requiring(required, backend.clone()).await;
        replica.create(id, &id.to_string()).await.unwrap();
        let all = || NAMES.into_iter().chain(["dns"]).zip(10..);
        for first in [1, 0] {
            for (name, second) in all() {
                replica.report(id, name, second - first, "the same").await.unwrap();
            }
        }
        // Another process reads the stored times.
        let other = Replica::requiring(required, backend.clone()).await;
        for (name, second) in all() {
            assert_eq!(other.stored(id, name).await.last_report_time, at(second), "{name}");
            let late = other.report(id, name, second - 1, "another").await.unwrap();
            assert!(matches!(late, Reported::Stale), "{name}: {late:?}");
            other.report(id, name, second + 100, "another").await.unwrap();
        }
        for (name, second) in all() {
            assert_eq!(replica.stored(id, name).await.last_report_time, at(second + 100), "{name}");
            replica.report(id, name, second + 200, "another").await.unwrap();
        }
        // A report on a newer generation may have been made before the last one on the older.
        replica.patch(id, json!({"spec": {"newer": true}})).await.unwrap();
        for (name, second) in all() {
            // The adapters before it in the list have set back their own times only.
            assert_eq!(other.stored(id, name).await.last_report_time, at(second + 200), "{name}");
            replica.report_on(2, id, name, second - 5, "another").await.unwrap();
        }
        for (name, second) in all() {
            assert_eq!(other.stored(id, name).await.last_report_time, at(second - 5), "{name}");
        }
    }
}

#[tokio::test]
async fn explanations_and_computed_conditions_use_the_confirmed_time_of_a_report_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    for (name, rules) in [("plain.db", Vec::new()), ("mapped.db", vec![rule()])] {
        for_every_reader(&rules, &Backend::Sqlite { path: Some(directory.path().join(name)) }).await;
    }
}

#[tokio::test]
async fn explanations_and_computed_conditions_use_the_confirmed_time_of_a_report_on_postgresql() {
    for rules in [Vec::new(), vec![rule()]] {
        let database = Postgres::shared().database().await;
        for_every_reader(&rules, &on(&database)).await;
    }
}

/// With a mapped condition, all reports on a resource are loaded before its conditions are computed.
fn rule() -> ConditionDescriptor {
    let always = || ExpressionDescriptor { expression: "true".to_owned() };
    let output = OutputDescriptor { status: always(), ..OutputDescriptor::default() };
    ConditionDescriptor { kind: "Mapped".to_owned(), when: always(), output }
}

async fn for_every_reader(rules: &[ConditionDescriptor], backend: &Backend) {
    let replica = Replica::with_rules(&ADAPTERS, rules, backend.clone()).await;
    let id = replica.clusters(1).await[0];
    let again = replica.report(id, "dns", 2, "first").await.unwrap();
    assert!(matches!(again, Reported::Unchanged(_)), "{again:?}");
    // Another process reads the stored times.
    let other = Replica::with_rules(&ADAPTERS, rules, backend.clone()).await;
    assert_eq!(other.explained(id, "dns").await.last_report_time, at(2));
    // The report of one adapter has the conditions of all computed anew.
    other.report(id, "validator", 3, "second").await.unwrap();
    other.assert_last(id, "validator", 3).await;
    other.assert_last(id, "dns", 2).await;
}
