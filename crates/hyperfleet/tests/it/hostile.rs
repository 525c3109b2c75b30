//! Malicious callers and broken clients. Each gets a documented answer without internals, and the next caller is
//! served.

mod bodies;
mod readers;
mod schemas;
mod texts;
mod wire;

use hyperfleet_testkit::Answer;
use serde_json::json;

use crate::support::*;

/// Words that only the inside of the server knows.
const INTERNALS: [&str; 13] = [
    "sqlite",
    "postgres",
    "select ",
    "insert ",
    "panicked",
    "src/",
    ".rs:",
    "rusqlite",
    "tokio",
    "serde",
    "hyper::",
    "stack backtrace",
    "/root/",
];

/// Fails the test unless the answer is one that a hostile request may get. Words of `sent` may come back in it.
#[track_caller]
fn harmless(answer: &Answer, sent: &str) {
    assert!(answer.status < 500 || [503, 504].contains(&answer.status), "{sent}: {answer}");
    reveals_nothing(&answer.to_string(), sent);
}

#[track_caller]
fn reveals_nothing(shown: &str, sent: &str) {
    let (shown, sent) = (shown.to_lowercase(), sent.to_lowercase());
    for word in INTERNALS.iter().filter(|word| !sent.contains(**word)) {
        assert!(!shown.contains(word), "{sent}: '{word}' in {shown}");
    }
}

/// The server does its work: it writes, reads and lists.
async fn still_serves(app: &App) {
    let name = unique("well");
    let made =
        app.create("/clusters", &json!({"kind": "Cluster", "name": name, "spec": {"fine": true}})).await;
    assert_eq!(app.read(&made).await, made);
    assert!(app.names("/clusters").await.contains(&name));
    app.server.health().get("/readyz").await.expect_status(200);
    for line in app.server.logs() {
        assert!(!line.to_string().contains("panicked"), "{line}");
    }
}
