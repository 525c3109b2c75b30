//! Reports of adapters, the conditions and deletions that follow, over HTTP on both stores. The tables of the rules are
//! tested in core; here each row is shown to be reached, stored, and read back.

mod changed_adapters;
mod concurrency;
mod conditions;
mod contracts;
mod decoding;
mod deletion;
mod dry_run;
mod faults;
mod legacy;
mod limits;
mod lists;
mod mapped;
mod metrics;
mod outcomes;
mod records;
mod restart;
mod trees;

use hyperfleet_core::Timestamp;
use hyperfleet_testkit::eventually;
use serde_json::Value;

use crate::support::{App, DEADLINE, text};

/// The moment that many seconds from now, as the API prints it.
fn in_seconds(seconds: i64) -> String {
    Timestamp::from_micros(Timestamp::now().micros() + seconds * 1_000_000).to_string()
}

/// The report with other members; `null` takes one out.
fn with_members(mut report: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        report[name] = value.clone();
        if value.is_null() {
            report.as_object_mut().unwrap().shift_remove(name);
        }
    }
    report
}

/// Sends a report that must be stored; the resource after it.
async fn report_and_read(app: &App, resource: &Value, report: &Value) -> Value {
    app.report(resource, report).await.expect_status(201);
    app.read(resource).await
}

/// Waits until the server has told, after that many of its lines, that it computed the conditions of a kind anew.
async fn recomputed(app: &App, kind: &str, lines: usize) {
    eventually("the line that tells of new conditions", DEADLINE, async || {
        let told = |line: &Value| {
            line["message"] == "recomputed conditions by changed settings" && line["resource_type"] == kind
        };
        app.server.logs()[lines..].iter().any(told).then_some(())
    })
    .await;
}

/// The types of a resource's conditions with their status, in order: `Reconciled=True`.
fn condition_states(resource: &Value) -> Vec<String> {
    let conditions = resource["status"]["conditions"].as_array().unwrap();
    conditions.iter().map(|c| format!("{}={}", text(&c["type"]), text(&c["status"]))).collect()
}

/// One condition of a resource.
#[track_caller]
fn condition<'a>(resource: &'a Value, kind: &str) -> &'a Value {
    let conditions = resource["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    assert!(found.is_some(), "{kind} is missing in {resource}");
    found.unwrap()
}

/// Status, reason, message and generation of a condition.
#[track_caller]
fn condition_summary(resource: &Value, kind: &str) -> (String, String, String, u64) {
    let condition = condition(resource, kind);
    let member = |name: &str| text(&condition[name]).to_owned();
    (
        member("status"),
        member("reason"),
        member("message"),
        condition["observed_generation"].as_u64().unwrap(),
    )
}

/// When a condition was made, last confirmed, and last flipped.
#[track_caller]
fn condition_times(resource: &Value, kind: &str) -> [String; 3] {
    let condition = condition(resource, kind);
    ["created_time", "last_updated_time", "last_transition_time"]
        .map(|name| text(&condition[name]).to_owned())
}
