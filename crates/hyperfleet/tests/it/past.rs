//! The past as its readers meet it: timelines, resources as they were, and what differs between two generations; also of
//! what is gone.

mod diffs;
mod generations;
mod gone;
mod pages;
mod timelines;

use hyperfleet_testkit::Answer;
use serde_json::{Value, json};

use crate::support::{App, href, text};

/// The whole timeline at `path`, newest first.
async fn timeline(app: &App, path: &str) -> Vec<Value> {
    let list = app.get(&format!("{path}/timeline?pageSize=500")).await.expect_status(200).json();
    let items = list["items"].as_array().unwrap().clone();
    assert_eq!((&list["kind"], &list["page"]), (&json!("TimelineList"), &json!(1)));
    assert_eq!((&list["size"], &list["total"]), (&json!(items.len()), &json!(items.len())));
    items
}

/// What happened, newest first.
fn actions(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| text(&item["action"])).collect()
}

/// The report of an adapter that found all well, or is done with a finalizing resource.
fn report(adapter: &str, generation: u64, second: u32, finalized: bool) -> Value {
    let condition =
        |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
    let mut conditions =
        vec![condition("Available", !finalized), condition("Applied", true), condition("Health", true)];
    conditions.extend(finalized.then(|| condition("Finalized", true)));
    json!({
        "adapter": adapter,
        "observed_generation": generation,
        "observed_time": format!("2026-01-01T10:00:{second:02}.000000Z"),
        "conditions": conditions,
    })
}

#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.problem_code()), (status, format!("HYPERFLEET-{code}")), "{answer}");
}
