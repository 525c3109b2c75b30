//! History over HTTP: timelines, resources at a generation, and diffs between two generations, also of deleted
//! resources.

mod deleted;
mod diffs;
mod generations;
mod pages;
mod timelines;

use hyperfleet_testkit::Answer;
use serde_json::{Value, json};

use crate::support::{App, at, finalized, href, report, text};

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

#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.problem_code()), (status, format!("HYPERFLEET-{code}")), "{answer}");
}
