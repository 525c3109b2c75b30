//! The binary as its operators meet it: the command line, crashes, outages, upgrades, signals, certificates, metrics
//! and configuration. Here the process is the subject, so these tests start, stop, break and inspect it themselves;
//! they look into the database only for what no door of the product shows.

/// Makes a test per store out of each `async fn name(home: &Home)`.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn sqlite() {
                crate::support::run(async {
                    super::$name(&crate::operations::home::Home::sqlite()).await;
                });
            }

            #[test]
            fn postgres() {
                crate::support::run(async {
                    super::$name(&crate::operations::home::Home::postgres().await).await;
                });
            }
        }
    )+};
}

mod cli;
mod configuration;
mod crash;
mod demo;
mod history;
mod home;
mod kept_answers;
mod kinds;
mod metrics;
mod migrations;
mod older_rows;
mod outage;
mod overload;
pub(crate) mod program;
mod shutdown;
mod tls;
mod unseen;

use std::time::Duration;

use hyperfleet_testkit::{Answer, Client};
use serde_json::{Value, json};

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_hyperfleet");

/// Met only when something is broken.
const DEADLINE: Duration = Duration::from_secs(30);

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
