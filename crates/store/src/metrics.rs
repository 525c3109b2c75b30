//! Metrics of the store. Every database call is counted and timed by the name of its operation.

mod feed;
mod fleet;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use feed::FeedMetrics;
use fleet::FleetMetrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    operation: &'static str,
    error_type: &'static str,
}

/// The store's metrics. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    query_duration: Family<OperationLabels, Histogram>,
    errors: Family<ErrorLabels, Counter>,
    /// Database connections that are open.
    pub(crate) connections_open: Gauge,
    /// Database connections that are at work.
    pub(crate) connections_in_use: Gauge,
    /// By how many seconds the wall clock of this process is ahead of the store's time.
    pub(crate) clock_skew: Gauge<f64, AtomicU64>,
    /// Commands that one commit carried.
    pub(crate) batch_size: Histogram,
    /// Commands that wait for a commit.
    pub(crate) queue_length: Gauge,
    /// From taking a batch to its commit.
    pub(crate) commit_duration: Histogram,
    /// The metrics of the fleet.
    pub(crate) fleet: FleetMetrics,
    /// The metrics of the feed.
    pub(crate) feed: FeedMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            query_duration: Family::new_with_constructor(durations),
            errors: Family::default(),
            connections_open: Gauge::default(),
            connections_in_use: Gauge::default(),
            clock_skew: Gauge::default(),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            queue_length: Gauge::default(),
            commit_duration: durations(),
            fleet: FleetMetrics::default(),
            feed: FeedMetrics::default(),
        }
    }
}

fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.5, 14))
}

impl Metrics {
    /// Makes the metrics visible under their public names.
    pub fn register(&self, registry: &mut Registry) {
        // These series exist from the start, so that the first outage is an increase.
        for operation in ["commit", "get", "list", "ping"] {
            drop(self.errors.get_or_create(&ErrorLabels { operation, error_type: "unavailable" }));
        }
        self.fleet.register(registry);
        self.feed.register(registry);
        let db = registry.sub_registry_with_prefix("hyperfleet_db");
        db.register_with_unit(
            "query_duration",
            "Time of a store operation",
            Unit::Seconds,
            self.query_duration.clone(),
        );
        db.register("errors", "Store operations that failed", self.errors.clone());
        db.register("connections_open", "Open database connections", self.connections_open.clone());
        db.register("connections_in_use", "Database connections at work", self.connections_in_use.clone());
        db.register_with_unit(
            "clock_skew",
            "How far the clock of this process is ahead of the database's",
            Unit::Seconds,
            self.clock_skew.clone(),
        );
        db.register("commit_batch_size", "Commands carried by one commit", self.batch_size.clone());
        db.register("commit_queue_length", "Commands waiting for a commit", self.queue_length.clone());
        db.register_with_unit(
            "commit_duration",
            "Time from taking a batch of commands to its commit",
            Unit::Seconds,
            self.commit_duration.clone(),
        );
    }

    pub(crate) fn succeeded(&self, operation: &'static str, took: Duration) {
        self.query_duration.get_or_create(&OperationLabels { operation }).observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self, operation: &'static str, error_type: &'static str, took: Duration) {
        self.succeeded(operation, took);
        self.errors.get_or_create(&ErrorLabels { operation, error_type }).inc();
    }
}
