//! The Sentinel as its users meet it: the real server, a Sentinel in a process of its own, and real brokers. An event
//! may come twice, and none may be missing.

mod clocks;
mod failures;
mod journey;
mod old_api;
mod replicas;

use std::collections::BTreeMap;

use hyperfleet_events::{Broker, BrokerConfig, Event, Metrics, Options, Subscription};
use hyperfleet_service::settings::Sources;
use hyperfleet_testkit::{Nats, RabbitMq};
use serde_json::Value;

use crate::operations::program::{Program, Running};
use crate::support::*;

/// The variables that name a broker.
pub(crate) type Variables = Vec<(&'static str, String)>;

pub(crate) fn nats(url: String) -> Variables {
    vec![("HYPERFLEET_BROKER_TYPE", "nats".to_owned()), ("HYPERFLEET_BROKER_NATS_URL", url)]
}

pub(crate) fn rabbitmq(url: String) -> Variables {
    vec![("HYPERFLEET_BROKER_TYPE", "rabbitmq".to_owned()), ("HYPERFLEET_BROKER_RABBITMQ_URL", url)]
}

fn googlepubsub(host: String) -> Variables {
    let made = || "true".to_owned();
    vec![
        ("HYPERFLEET_BROKER_TYPE", "googlepubsub".to_owned()),
        ("HYPERFLEET_BROKER_GOOGLEPUBSUB_PROJECT_ID", "test".to_owned()),
        ("HYPERFLEET_BROKER_GOOGLEPUBSUB_CREATE_TOPIC_IF_MISSING", made()),
        ("HYPERFLEET_BROKER_GOOGLEPUBSUB_CREATE_SUBSCRIPTION_IF_MISSING", made()),
        ("PUBSUB_EMULATOR_HOST", host),
    ]
}

/// Runs a test over both brokers with the store that `$store` starts.
macro_rules! over_brokers {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn nats_and_sqlite() {
                let app = crate::support::App::sqlite(crate::support::DEFAULT).await;
                let broker = crate::sentinel::nats(hyperfleet_testkit::Nats::shared().url());
                super::$name(&app, broker).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn nats_and_postgres() {
                let app = crate::support::App::postgres(crate::support::DEFAULT).await;
                let broker = crate::sentinel::nats(hyperfleet_testkit::Nats::shared().url());
                super::$name(&app, broker).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn rabbitmq_and_postgres() {
                let app = crate::support::App::postgres(crate::support::DEFAULT).await;
                let broker = crate::sentinel::rabbitmq(hyperfleet_testkit::RabbitMq::shared().url());
                super::$name(&app, broker).await;
            }
        }
    )+};
}
use over_brokers;

/// A subscriber of the events of one Sentinel.
struct EventListener {
    topic: String,
    subscription: Subscription,
    received: Vec<Event>,
}

impl EventListener {
    /// Subscribes to a topic of its own.
    async fn on(broker: &Variables) -> Self {
        let environment: BTreeMap<_, _> =
            broker.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let config = BrokerConfig::load(Sources { environment, ..Sources::default() }).unwrap();
        let broker = Broker::open(&config, Metrics::default()).await.unwrap();
        let topic = format!("{}-{}", unique("sentinel"), std::process::id());
        let mut subscription = broker.subscribe(&topic, "listener", Options::default());
        subscription.ready().await;
        Self { topic, subscription, received: Vec::new() }
    }

    /// The next event about a resource in a generation, or one received before.
    async fn event_about(&mut self, resource: &Value, generation: u64) -> Event {
        let fits =
            |event: &Event| event.data["id"] == resource["id"] && event.data["generation"] == generation;
        self.event_where(&format!("generation {generation} of {}", resource["id"]), fits).await
    }

    async fn event_where(&mut self, what: &str, fits: impl Fn(&Event) -> bool) -> Event {
        if let Some(event) = self.received.iter().find(|event| fits(event)) {
            return event.clone();
        }
        loop {
            let next = tokio::time::timeout(DEADLINE, self.subscription.next()).await;
            let delivery =
                next.unwrap_or_else(|_| panic!("no event: {what}; received {:?}", self.received)).unwrap();
            let event = delivery.event.clone();
            delivery.acknowledge().await.unwrap();
            self.received.push(event.clone());
            if fits(&event) {
                return event;
            }
        }
    }
}

/// A server that is where it was after a restart.
fn at_one_port(config: &str) -> hyperfleet_testkit::Launch {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    launch().config(config).env("HYPERFLEET_SERVER_PORT", &port.to_string())
}

/// A Sentinel of this server that publishes to this listener.
fn sentinel(app: &App, broker: &Variables, listener: &EventListener) -> Program {
    let program = Program::new()
        .env("HYPERFLEET_API_BASE_URL", &format!("http://{}", app.api().authority()))
        .env("HYPERFLEET_BROKER_TOPIC", &listener.topic)
        .env("HYPERFLEET_HEALTH_PORT", "0")
        .env("HYPERFLEET_METRICS_PORT", "0")
        .env("HYPERFLEET_LOG_LEVEL", "debug");
    broker.iter().fold(program, |program, (name, value)| program.env(name, value))
}

/// Starts it, and waits until it is ready.
async fn start(program: &Program) -> Running {
    let running = program.start(&["sentinel", "serve"]);
    let health = running.client("health").await;
    hyperfleet_testkit::eventually("a Sentinel that is ready", DEADLINE, async || {
        health.get("/readyz").send().await.ok().filter(|answer| answer.status == 200)
    })
    .await;
    running
}

/// The text of its metrics.
async fn metrics(running: &Running) -> String {
    let answer = running.client("metrics").await.get("/metrics").send().await.unwrap().expect_status(200);
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// The sum of all series of a metric.
async fn metric(running: &Running, name: &str) -> f64 {
    let text = metrics(running).await;
    let lines =
        text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}
