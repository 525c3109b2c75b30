//! The binary as operators meet it: the command line, crashes, outages, signals, certificates, metrics and
//! configuration. These tests start, stop, break and inspect the process themselves; they look into the database only
//! for what the API does not show.

mod cli;
mod configuration;
mod crash;
mod damage;
mod demo;
mod history;
mod idempotency;
mod idle_in_transaction;
pub(crate) mod installation;
mod kinds;
mod metrics;
mod migrations;
mod outage;
mod overload;
pub(crate) mod program;
pub(crate) mod restore;
mod secrets;
mod shutdown;
mod tls;
mod unreadable;
mod verify;

use hyperfleet_testkit::{Answer, Client};
use serde_json::{Value, json};

use crate::support::DEADLINE;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_hyperfleet");

const CLUSTERS: &str = "/api/hyperfleet/v1/clusters";

fn cluster(name: &str) -> Value {
    json!({"kind": "Cluster", "name": name, "spec": {"n": 0}})
}

async fn create_cluster(api: &Client, name: &str) -> Answer {
    api.post(CLUSTERS).json(&cluster(name)).await.expect_status(201)
}

fn id(answer: &Answer) -> String {
    answer.json()["id"].as_str().unwrap().to_owned()
}
