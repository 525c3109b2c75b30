//! What every test of the suite works with: a broker of some type, a topic that no other test uses, and the
//! broker's counters.

use std::time::Duration;

use hyperfleet_events::{Broker, BrokerConfig, Delivery, Event, Metrics, Options, Subscription};
use hyperfleet_service::settings::Sources;
use prometheus_client::registry::Registry;
use serde_json::json;
use uuid::Uuid;

/// Reached only when something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    config: BrokerConfig,
    pub(crate) broker: Broker,
    pub(crate) topic: String,
    registry: Registry,
}

impl World {
    pub(crate) fn config(settings: &[(&str, &str)], emulator: Option<String>) -> BrokerConfig {
        let flags = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut sources = Sources { flags, ..Sources::default() };
        sources.environment.extend(emulator.map(|host| ("PUBSUB_EMULATOR_HOST".to_owned(), host)));
        BrokerConfig::load(sources).unwrap()
    }

    pub(crate) async fn of(settings: &[(&str, &str)], emulator: Option<String>) -> Self {
        let config = Self::config(settings, emulator);
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let broker = Broker::open(&config, metrics).await.unwrap();
        Self { config, broker, topic: format!("t-{}", Uuid::new_v4().simple()), registry }
    }

    /// The broker of another process; in memory it is the same one.
    pub(crate) async fn another(&self) -> Broker {
        match self.broker.kind() {
            "memory" => self.broker.clone(),
            _ => Broker::open(&self.config, Metrics::default()).await.unwrap(),
        }
    }

    /// The broker of another process, on its own runtime.
    pub(crate) async fn another_on(&self, runtime: &tokio::runtime::Runtime) -> Broker {
        let (config, here) = (self.config.clone(), self.broker.clone());
        let opened = runtime.spawn(async move {
            match here.kind() {
                "memory" => here,
                _ => Broker::open(&config, Metrics::default()).await.unwrap(),
            }
        });
        opened.await.unwrap()
    }

    pub(crate) async fn subscribe(&self, subscription: &str, options: &Options) -> Subscription {
        ready(&self.broker, &self.topic, &self.named(subscription), options).await
    }

    /// Subscriptions of Pub/Sub have no topic in their name.
    pub(crate) fn named(&self, subscription: &str) -> String {
        format!("{}-{subscription}", self.topic)
    }

    pub(crate) async fn publish(&self, resource: &str) -> Event {
        let event = event(resource);
        self.broker.publish(&self.topic, &event).await.unwrap();
        event
    }

    /// The value of a counter or gauge of this topic.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let start = format!(
            "hyperfleet_broker_{name}{{broker=\"{}\",topic=\"{}\"}} ",
            self.broker.kind(),
            self.topic
        );
        text.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |value| value.parse().unwrap())
    }
}

pub(crate) async fn ready(broker: &Broker, topic: &str, name: &str, options: &Options) -> Subscription {
    let mut subscription = broker.subscribe(topic, name, options.clone());
    tokio::time::timeout(DEADLINE, subscription.ready()).await.expect("the subscription must be made");
    subscription
}

pub(crate) fn event(resource: &str) -> Event {
    Event::reconcile("test", "Cluster", json!({"id": resource, "kind": "Cluster", "generation": 1}), None)
}

/// Quick enough for tests.
pub(crate) fn options() -> Options {
    Options {
        parallelism: 4,
        max_deliveries: 3,
        backoff_initial: Duration::from_millis(20),
        backoff_max: Duration::from_millis(40),
        prefetch: Some(10),
    }
}

pub(crate) async fn next(subscription: &mut Subscription) -> Delivery {
    let delivery = tokio::time::timeout(DEADLINE, subscription.next()).await;
    delivery.expect("a delivery must come").expect("the subscription runs")
}

pub(crate) fn resource(event: &Event) -> String {
    event.resource().unwrap().id
}
