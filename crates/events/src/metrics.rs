//! What is counted of events, by broker and topic. The registry belongs to the caller.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    broker: &'static str,
    topic: String,
}

/// Counters of everything that passes a broker.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    published: Family<Labels, Counter>,
    received: Family<Labels, Counter>,
    acknowledged: Family<Labels, Counter>,
    rejected: Family<Labels, Counter>,
    redelivered: Family<Labels, Counter>,
    dead_lettered: Family<Labels, Counter>,
    connected: Family<Labels, Gauge>,
}

impl Metrics {
    /// Adds them to a registry, all under `hyperfleet_broker_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("hyperfleet_broker");
        for (name, help, family) in [
            ("published", "Events that a broker confirmed.", &self.published),
            ("received", "Messages that came from a broker.", &self.received),
            ("acknowledged", "Events whose work was done.", &self.acknowledged),
            ("rejected", "Deliveries whose work failed.", &self.rejected),
            ("redelivered", "Messages that came again.", &self.redelivered),
            ("dead_lettered", "Messages that were given up.", &self.dead_lettered),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "connected",
            "Whether the topic's last use of the broker succeeded.",
            self.connected.clone(),
        );
    }
}

/// The counters of one topic on one broker.
#[derive(Debug, Clone)]
pub(crate) struct TopicMetrics {
    metrics: Metrics,
    labels: Labels,
}

impl TopicMetrics {
    pub(crate) fn new(metrics: &Metrics, broker: &'static str, topic: &str) -> Self {
        Self { metrics: metrics.clone(), labels: Labels { broker, topic: topic.to_owned() } }
    }

    pub(crate) fn published(&self) {
        self.metrics.published.get_or_create(&self.labels).inc();
    }

    pub(crate) fn received(&self, attempt: u32) {
        self.metrics.received.get_or_create(&self.labels).inc();
        if attempt > 1 {
            self.metrics.redelivered.get_or_create(&self.labels).inc();
        }
    }

    pub(crate) fn acknowledged(&self) {
        self.metrics.acknowledged.get_or_create(&self.labels).inc();
    }

    pub(crate) fn rejected(&self) {
        self.metrics.rejected.get_or_create(&self.labels).inc();
    }

    pub(crate) fn dead_lettered(&self) {
        self.metrics.dead_lettered.get_or_create(&self.labels).inc();
    }

    pub(crate) fn connected(&self, connected: bool) {
        self.metrics.connected.get_or_create(&self.labels).set(i64::from(connected));
    }
}
