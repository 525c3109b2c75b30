//! Simulated adapters against the real server: in this process over the broker in memory, and as processes of their own
//! over NATS and RabbitMQ.

mod objects;
mod process;
mod task;

use std::time::Duration;

use hyperfleet_adapter::{Parts, Rate, Simulation};
use hyperfleet_client::{Client, Settings};
use hyperfleet_events::{Broker, BrokerConfig, Event, Metrics};
use hyperfleet_testkit::eventually;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{App, DEADLINE, both_stores, href, id, text};

const CONFIG: &str = r"
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [dns]}
  - {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade, required_adapters: [dns]}
";

both_stores!(
    config = CONFIG;
    the_simulator_reconciles_created_resources_and_finalizes_deleted_ones,
    a_failure_is_reported_with_its_reason_and_repaired_by_a_later_attempt,
    events_about_deleted_resources_are_acknowledged,
    running_work_is_finished_at_shutdown,
    work_longer_than_the_shutdown_timeout_is_nacked_and_is_no_failure,
);

/// An adapter `dns` in this process, with its broker.
struct Running {
    broker: Broker,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts it, and waits until it listens.
    async fn start(app: &App, simulation: Simulation) -> Self {
        Self::start_on(broker().await, app, simulation, DEADLINE).await
    }

    async fn start_on(broker: Broker, app: &App, simulation: Simulation, grace: Duration) -> Self {
        let client = Client::new(Settings::of(format!("http://{}", app.api().authority()))).unwrap();
        let parts =
            Parts { simulation, client, broker: broker.clone(), kinds: Vec::new(), topic: None, grace };
        let stop = CancellationToken::new();
        let (listens, heard) = tokio::sync::oneshot::channel();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let ready = || listens.send(()).unwrap();
            hyperfleet_adapter::run(parts, stopped, ready).await.unwrap();
        });
        heard.await.unwrap();
        Self { broker, stop, task }
    }

    /// Tells it to look at a resource.
    async fn tell(&self, resource: &Value) {
        let data = json!({"id": resource["id"], "kind": resource["kind"], "href": resource["href"],
                          "generation": resource["generation"]});
        let topic = format!("hyperfleet-{}s", text(&resource["kind"]).to_lowercase());
        let event = Event::reconcile("test", text(&resource["kind"]), data, None);
        self.broker.publish(&topic, &event).await.unwrap();
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Whatever is rejected becomes a dead letter at once.
async fn broker() -> Broker {
    let mut config = BrokerConfig::memory();
    config.subscriber.max_deliveries = 1;
    config.subscriber.parallelism = 1;
    Broker::open(&config, Metrics::default()).await.unwrap()
}

fn simulation(failing: u8, delay: Duration) -> Simulation {
    Simulation {
        name: "dns".to_owned(),
        delay,
        failing: Rate::percent(failing),
        outage: Duration::ZERO,
        seed: 7,
    }
}

/// The `Reconciled` condition, once it has this reason.
async fn reconciled(app: &App, resource: &Value, reason: &str) -> Value {
    eventually(reason, DEADLINE, async || {
        let condition = app.read(resource).await["status"]["conditions"][0].take();
        (condition["reason"] == reason).then_some(condition)
    })
    .await
}

async fn the_simulator_reconciles_created_resources_and_finalizes_deleted_ones(app: &App) {
    let adapter = Running::start(app, simulation(0, Duration::from_millis(10))).await;
    let cluster = app.create_cluster("prod-1").await;
    let pool = app.create_nodepool(&cluster, "workers").await;
    for resource in [&cluster, &pool] {
        adapter.tell(resource).await;
        reconciled(app, resource, "ReconciledAll").await;
    }
    let report = app.reports(&cluster).await[0].take();
    assert_eq!((&report["adapter"], &report["observed_generation"]), (&json!("dns"), &json!(1)));
    let types: Vec<&str> =
        report["conditions"].as_array().unwrap().iter().map(|one| text(&one["type"])).collect();
    assert_eq!(types, ["Applied", "Available", "Health"]);

    let (cluster, pool) = (app.remove(&cluster).await, app.read(&pool).await);
    for resource in [&cluster, &pool] {
        adapter.tell(resource).await;
    }
    eventually("both gone", DEADLINE, async || {
        let gone = [&cluster, &pool].map(href).map(|path| app.get(path));
        let [cluster, pool] = gone;
        (cluster.await.status == 404 && pool.await.status == 404).then_some(())
    })
    .await;
    adapter.stop().await;
}

async fn a_failure_is_reported_with_its_reason_and_repaired_by_a_later_attempt(app: &App) {
    let cluster = app.create_cluster("prod-1").await;
    let adapter = Running::start(app, simulation(100, Duration::ZERO)).await;
    adapter.tell(&cluster).await;
    let condition = reconciled(app, &cluster, "ReconciledNotAvailable").await;
    let message = text(&condition["message"]);
    assert!(message.starts_with("Adapters reporting Available=False: dns ("), "{message}");
    adapter.stop().await;

    let adapter = Running::start(app, simulation(0, Duration::ZERO)).await;
    adapter.tell(&cluster).await;
    reconciled(app, &cluster, "ReconciledAll").await;
    adapter.stop().await;
}

async fn events_about_deleted_resources_are_acknowledged(app: &App) {
    let adapter = Running::start(app, simulation(0, Duration::ZERO)).await;
    let mut gone = app.create_cluster("gone").await;
    let there = app.create_cluster("there").await;
    gone["id"] = json!("00000000-0000-7000-8000-000000000000");
    gone["href"] = json!("/api/hyperfleet/v1/clusters/00000000-0000-7000-8000-000000000000");
    // One at a time, in order: when the second is done, so is the first.
    adapter.tell(&gone).await;
    adapter.tell(&there).await;
    reconciled(app, &there, "ReconciledAll").await;
    let letters = adapter.broker.dead_letters("hyperfleet-clusters", "dns");
    assert_eq!(letters.list(10).await.unwrap().len(), 0);

    let nothing = Event::reconcile("test", "Cluster", json!({"name": "x"}), None);
    adapter.broker.publish("hyperfleet-clusters", &nothing).await.unwrap();
    eventually("a dead letter", DEADLINE, async || {
        let found = letters.list(10).await.unwrap();
        found.iter().any(|letter| letter.reason == "the event names no resource").then_some(())
    })
    .await;
    adapter.stop().await;
}

/// Once it has read the resource, an adapter works.
async fn is_worked_on(app: &App, resource: &Value) {
    eventually("the adapter reads it", DEADLINE, async || {
        let logs = app.server.logs();
        let read = |line: &Value| line["path"].as_str().is_some_and(|path| path.ends_with(id(resource)));
        logs.iter().any(read).then_some(())
    })
    .await;
}

async fn running_work_is_finished_at_shutdown(app: &App) {
    let adapter = Running::start(app, simulation(0, Duration::from_millis(400))).await;
    let cluster = app.create_cluster("prod-1").await;
    adapter.tell(&cluster).await;
    is_worked_on(app, &cluster).await;
    adapter.stop().await;
    assert_eq!(app.read(&cluster).await["status"]["conditions"][0]["reason"], "ReconciledAll");
}

async fn work_longer_than_the_shutdown_timeout_is_nacked_and_is_no_failure(app: &App) {
    let (broker, forever) = (broker().await, Duration::from_secs(3_600));
    let slow = Running::start_on(broker.clone(), app, simulation(0, forever), Duration::ZERO).await;
    let cluster = app.create_cluster("prod-1").await;
    slow.tell(&cluster).await;
    is_worked_on(app, &cluster).await;
    slow.stop().await;
    let letters = broker.dead_letters("hyperfleet-clusters", "dns");
    assert_eq!(letters.list(10).await.unwrap().len(), 0);

    let quick = Running::start_on(broker, app, simulation(0, Duration::ZERO), DEADLINE).await;
    reconciled(app, &cluster, "ReconciledAll").await;
    quick.stop().await;
}
