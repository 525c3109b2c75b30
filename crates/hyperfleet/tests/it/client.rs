//! The client that Sentinel, adapters and command line share, against the real server: every call, every refusal, and
//! a server that goes and comes back.

mod calls;
mod refusals;
mod relay;
mod restarts;
mod watches;

use std::time::Duration;

use hyperfleet_client::{Client, Collection, NewCondition, NewReport, Resource, Retry, Settings, Status};
use serde_json::json;

use crate::support::{App, DEADLINE};

fn settings(authority: &str) -> Settings {
    Settings::of(format!("http://{authority}"))
}

fn client(app: &App) -> Client {
    Client::new(settings(app.api().authority())).unwrap()
}

/// For a server that comes and goes: sooner back, and for longer.
fn patient(authority: &str) -> Client {
    let retry = Retry {
        attempts: 1000,
        longest_pause: Duration::from_millis(200),
        within: DEADLINE,
        ..Retry::default()
    };
    Client::new(Settings { retry, ..settings(authority) }).unwrap()
}

fn clusters() -> Collection {
    Collection::of("clusters")
}

async fn create_cluster(client: &Client, name: &str) -> Resource {
    let body = json!({"kind": "Cluster", "name": name, "spec": {}});
    client.create(&clusters(), &body, false).await.unwrap()
}

/// What an adapter says of a resource with which it is done.
fn done(adapter: &str, generation: i64) -> NewReport {
    let conditions = ["Available", "Applied", "Health"].map(|kind| NewCondition::new(kind, Status::True));
    NewReport {
        adapter: adapter.to_owned(),
        observed_generation: generation,
        observed_time: None,
        conditions: conditions.into(),
        data: Some(json!({"exact": 1.50})),
        metadata: None,
    }
}
