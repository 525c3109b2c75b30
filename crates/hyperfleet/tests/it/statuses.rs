//! Reports of adapters, the conditions that come of them, and the deletion that waits for them, as adapters and their
//! readers meet them over HTTP. The tables of the rules are tested where they are written; here it is shown that each
//! is reached through the door, stored, and read back the same on both stores.

mod changed_adapters;
mod conditions;
mod contracts;
mod decoding;
mod deletion;
mod dry_run;
mod faults;
mod legacy;
mod lists;
mod mapped;
mod metrics;
mod outcomes;
mod parallel;
mod records;
mod restart;
mod trees;

use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_testkit::eventually;
use serde_json::{Value, json};

use crate::support::{App, text};

/// Met only when something is broken.
const DEADLINE: Duration = Duration::from_secs(30);

/// A moment long past, as the API prints it. Reports may be as old as they like.
fn at(second: u32) -> String {
    format!("2026-01-01T10:{:02}:{:02}.000000Z", second / 60, second % 60)
}

/// The moment that many seconds from now, as the API prints it.
fn in_seconds(seconds: i64) -> String {
    Timestamp::from_micros(Timestamp::now().micros() + seconds * 1_000_000).to_string()
}

/// A report with nothing but what must be there; `available` is the status of `Available`.
fn report(adapter: &str, generation: u64, available: &str, observed_time: &str) -> Value {
    json!({
        "adapter": adapter,
        "observed_generation": generation,
        "observed_time": observed_time,
        "conditions": [
            {"type": "Available", "status": available},
            {"type": "Applied", "status": "True"},
            {"type": "Health", "status": "True"},
        ],
    })
}

/// The same with a reason and a message beside `Available`.
fn because(mut report: Value, reason: &str, message: &str) -> Value {
    report["conditions"][0]["reason"] = reason.into();
    report["conditions"][0]["message"] = message.into();
    report
}

/// The same with one condition more.
fn finding(mut report: Value, kind: &str, status: &str) -> Value {
    report["conditions"].as_array_mut().unwrap().push(json!({"type": kind, "status": status}));
    report
}

/// The report of an adapter that has finished with a finalizing resource.
fn finalized(adapter: &str, generation: u64, observed_time: &str) -> Value {
    finding(report(adapter, generation, "False", observed_time), "Finalized", "True")
}

/// The same with other members; `null` takes one out.
fn with(mut report: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        report[name] = value.clone();
        if value.is_null() {
            report.as_object_mut().unwrap().shift_remove(name);
        }
    }
    report
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
fn standing(resource: &Value) -> Vec<String> {
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
fn says(resource: &Value, kind: &str) -> (String, String, String, u64) {
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
fn times(resource: &Value, kind: &str) -> [String; 3] {
    let condition = condition(resource, kind);
    ["created_time", "last_updated_time", "last_transition_time"]
        .map(|name| text(&condition[name]).to_owned())
}
