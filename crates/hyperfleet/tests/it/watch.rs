//! Watches: events, their order and format, resumption, and the end. Access is tested in `access`, many writers in
//! `histories`.
//!
//! No test waits to see that nothing comes: it causes an event that must come after it.

mod ends;
mod forms;
mod metrics;
mod parameters;
mod replicas;
mod results;
mod resumed;
mod slow_watchers;
mod trees;

use hyperfleet_testkit::{Event, Stream};
use serde_json::{Value, json};

use crate::support::*;

/// What all its events so far were, up to a new Cluster that comes last: type and name.
async fn event_names(app: &App, stream: &mut Stream) -> Vec<(String, String)> {
    let events = events(app, stream).await;
    events.iter().map(|event| (event.kind().to_owned(), text(&event.object()["name"]).to_owned())).collect()
}

/// All events up to a new Cluster that comes last, without bookmarks.
async fn events(app: &App, stream: &mut Stream) -> Vec<Event> {
    let last = app.create_cluster(&unique("last")).await;
    let mut events = Vec::new();
    loop {
        let event = stream.change().await;
        if event.object()["id"] == last["id"] {
            return events;
        }
        events.push(event);
    }
}

/// The next so many events, without bookmarks.
async fn events_of(stream: &mut Stream, count: usize) -> Vec<Event> {
    let mut events = Vec::with_capacity(count);
    while events.len() < count {
        events.push(stream.change().await);
    }
    events
}

/// The newest version that a list tells of.
async fn newest(app: &App) -> u64 {
    app.get("/resources?pageSize=1").await.expect_status(200).json()["version"].as_u64().unwrap()
}

/// The type of each event, and the name of its object.
fn named(events: &[Event]) -> Vec<(&str, &str)> {
    events.iter().map(|event| (event.kind(), text(&event.object()["name"]))).collect()
}

/// The versions of events.
fn versions(events: &[Event]) -> Vec<u64> {
    events.iter().map(Event::version).collect()
}

/// The version of a resource, as its `ETag` gives it.
async fn version(app: &App, resource: &Value) -> u64 {
    app.get(href(resource)).await.version().unwrap()
}
