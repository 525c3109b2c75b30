//! A report that says what was said before writes one row, that of its resource's conditions, where its own time is noted.

use hyperfleet_core::rules::Reported;
use hyperfleet_core::{ConditionDescriptor, ExpressionDescriptor, OutputDescriptor, ResourceId};
use hyperfleet_store::{SslMode, Target};
use hyperfleet_testkit::{Database, Postgres};
use rusqlite::Connection;
use serde_json::json;

use crate::replica::{ADAPTERS, Replica, at};

/// Names of adapters that mean something else in a path of JSON or in SQL, or must be escaped in a text of it; and one
/// that another of them would be without its escape.
const NAMES: [&str; 15] = [
    "$", "$x", "$.dns", "$[0]", "[0]", "[edge]", "0", "a.b", "a\"b", "a'b", "dns\"", "a\\", "\\u0061", "a",
    "zähler",
];

#[tokio::test]
async fn a_report_that_only_moves_its_time_leaves_its_row_alone_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fleet.db");
    let target = Target::Sqlite { path: Some(file.clone()) };
    let replica = Replica::at(target.clone()).await;
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
    // Another process reads both times, and goes on from the later.
    let other = Replica::at(target).await;
    other.assert_last(id, "dns", 3).await;
    behind.execute_batch("drop trigger untouched").unwrap();
    other.report(id, "dns", 5, "second").await.unwrap();
    for replica in [&replica, &other] {
        replica.assert_last(id, "dns", 5).await;
    }
}

#[tokio::test]
async fn adapters_of_any_name_are_told_apart_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    any_name(&Target::Sqlite { path: Some(directory.path().join("fleet.db")) }).await;
}

#[tokio::test]
async fn adapters_of_any_name_are_told_apart_on_postgresql() {
    let database = Postgres::shared().database().await;
    any_name(&on(&database)).await;
}

fn on(database: &Database) -> Target {
    Target::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None }
}

/// All of them are required, or none but one; each has a time of its own.
async fn any_name(target: &Target) {
    for required in [&NAMES[..], &["dns"]] {
        let id = ResourceId::generate();
        let replica = Replica::requiring(required, target.clone()).await;
        replica.create(id, &id.to_string()).await.unwrap();
        let all = || NAMES.into_iter().chain(["dns"]).zip(10..);
        for first in [1, 0] {
            for (name, second) in all() {
                replica.report(id, name, second - first, "the same").await.unwrap();
            }
        }
        // Another process knows nothing but what is stored.
        let other = Replica::requiring(required, target.clone()).await;
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
            // Those before it in the list have set back nothing but their own.
            assert_eq!(other.stored(id, name).await.last_report_time, at(second + 200), "{name}");
            replica.report_on(2, id, name, second - 5, "another").await.unwrap();
        }
        for (name, second) in all() {
            assert_eq!(other.stored(id, name).await.last_report_time, at(second - 5), "{name}");
        }
    }
}

#[tokio::test]
async fn a_noted_time_is_that_of_the_report_for_whoever_explains_or_computes_conditions_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    for (name, rules) in [("plain.db", Vec::new()), ("mapped.db", vec![rule()])] {
        for_every_reader(&rules, &Target::Sqlite { path: Some(directory.path().join(name)) }).await;
    }
}

#[tokio::test]
async fn a_noted_time_is_that_of_the_report_for_whoever_explains_or_computes_conditions_on_postgresql() {
    for rules in [Vec::new(), vec![rule()]] {
        let database = Postgres::shared().database().await;
        for_every_reader(&rules, &on(&database)).await;
    }
}

/// Where there is a rule, all reports on a resource are read before its conditions are computed.
fn rule() -> ConditionDescriptor {
    let always = || ExpressionDescriptor { expression: "true".to_owned() };
    let output = OutputDescriptor { status: always(), ..OutputDescriptor::default() };
    ConditionDescriptor { kind: "Mapped".to_owned(), when: always(), output }
}

/// The lists of reports are above.
async fn for_every_reader(rules: &[ConditionDescriptor], target: &Target) {
    let replica = Replica::with_rules(&ADAPTERS, rules, target.clone()).await;
    let id = replica.clusters(1).await[0];
    let again = replica.report(id, "dns", 2, "first").await.unwrap();
    assert!(matches!(again, Reported::Unchanged(_)), "{again:?}");
    // Another process knows nothing but what is stored.
    let other = Replica::with_rules(&ADAPTERS, rules, target.clone()).await;
    assert_eq!(other.explained(id, "dns").await.last_report_time, at(2));
    // The report of one adapter has the conditions of all computed anew.
    other.report(id, "validator", 3, "second").await.unwrap();
    other.assert_last(id, "validator", 3).await;
    other.assert_last(id, "dns", 2).await;
}
