//! The metrics of the Sentinel, with the names that dashboards and alerts of the Go Sentinel use.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

const SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfType {
    pub(crate) resource_type: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfReason {
    pub(crate) resource_type: String,
    pub(crate) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfError {
    pub(crate) error_type: &'static str,
}

/// Everything that is counted.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) pending: Family<OfType, Gauge>,
    pub(crate) published: Family<OfReason, Counter>,
    pub(crate) skipped: Family<OfReason, Counter>,
    pub(crate) forgotten: Family<OfType, Counter>,
    pub(crate) poll_seconds: Family<OfType, Histogram>,
    pub(crate) last_poll: Family<OfType, Gauge>,
    pub(crate) change_to_publish: Family<OfType, Histogram>,
    pub(crate) api_errors: Family<OfError, Counter>,
    pub(crate) broker_errors: Family<OfError, Counter>,
    pub(crate) ranges_owned: Gauge,
    pub(crate) uncovered: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        Self {
            pending: Family::default(),
            published: Family::default(),
            skipped: Family::default(),
            forgotten: Family::default(),
            poll_seconds: Family::new_with_constructor(histogram),
            last_poll: Family::default(),
            change_to_publish: Family::new_with_constructor(histogram),
            api_errors: Family::default(),
            broker_errors: Family::default(),
            ranges_owned: Gauge::default(),
            uncovered: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Adds them to a registry, all under `hyperfleet_sentinel_`.
    pub fn register(&self, registry: &mut Registry) {
        let r = registry.sub_registry_with_prefix("hyperfleet_sentinel");
        r.register(
            "pending_resources",
            "Resources that are not reconciled or have an event coming.",
            self.pending.clone(),
        );
        r.register("events_published", "Events that the broker confirmed.", self.published.clone());
        r.register("resources_skipped", "Decisions not to publish.", self.skipped.clone());
        r.register(
            "changes_forgotten",
            "Changes to resources of other replicas that were dropped because memory is full.",
            self.forgotten.clone(),
        );
        r.register("poll_duration_seconds", "Time of a search for what is due.", self.poll_seconds.clone());
        r.register(
            "last_successful_poll_timestamp_seconds",
            "Time of the last successful search.",
            self.last_poll.clone(),
        );
        r.register(
            "change_to_publish_seconds",
            "From a change to the broker's confirmation of its event.",
            self.change_to_publish.clone(),
        );
        r.register("api_errors", "Requests to the API that failed.", self.api_errors.clone());
        r.register("broker_errors", "Events that the broker refused.", self.broker_errors.clone());
        r.register("ranges_owned", "Ranges of ids that this replica owns.", self.ranges_owned.clone());
        r.register("uncovered_ranges", "Ranges of ids that no replica owns.", self.uncovered.clone());
    }
}
