//! The metrics of an adapter, with the names that dashboards and alerts of the Go adapter use. No ids in labels.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::engine::Finished;

const SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfStatus {
    pub(crate) status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfError {
    pub(crate) error_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfReason {
    pub(crate) why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfCondition {
    pub(crate) condition: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfResource {
    pub(crate) resource_type: String,
    pub(crate) status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Build {
    pub(crate) component: String,
    pub(crate) version: String,
}

/// Everything that is counted.
#[derive(Debug, Clone)]
pub struct Metrics {
    build: Family<Build, Gauge>,
    pub(crate) up: Gauge,
    pub(crate) processed: Family<OfStatus, Counter>,
    pub(crate) seconds: Histogram,
    pub(crate) errors: Family<OfError, Counter>,
    pub(crate) deleted: Family<OfResource, Counter>,
    pub(crate) nacks: Family<OfReason, Counter>,
    pub(crate) superseded: Counter,
    pub(crate) intake_paused: Gauge,
    pub(crate) reports: Family<OfStatus, Counter>,
    pub(crate) withheld: Family<OfReason, Counter>,
    pub(crate) corrections: Family<OfCondition, Counter>,
    pub(crate) last_event: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            build: Family::default(),
            up: Gauge::default(),
            processed: Family::default(),
            seconds: Histogram::new(SECONDS),
            errors: Family::default(),
            deleted: Family::default(),
            nacks: Family::default(),
            superseded: Counter::default(),
            intake_paused: Gauge::default(),
            reports: Family::default(),
            withheld: Family::default(),
            corrections: Family::default(),
            last_event: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Adds them to a registry, all under `hyperfleet_adapter_`.
    pub fn register(&self, registry: &mut Registry, adapter: &str, version: &str) {
        let build = Build { component: adapter.to_owned(), version: version.to_owned() };
        self.build.get_or_create(&build).set(1);
        for status in ["success", "failed", "skipped"] {
            let _ = self.processed.get_or_create(&OfStatus { status });
        }
        let r = registry.sub_registry_with_prefix("hyperfleet_adapter");
        r.register("build_info", "What this process was built from.", self.build.clone());
        r.register("up", "Whether the adapter takes events.", self.up.clone());
        r.register("events_processed", "Executions, by what they came to.", self.processed.clone());
        r.register("event_processing_duration_seconds", "Time of an execution.", self.seconds.clone());
        r.register("errors", "Failed phases of executions.", self.errors.clone());
        r.register("resources_deleted", "Objects whose deletion was asked for.", self.deleted.clone());
        r.register("nacks", "Events that come again.", self.nacks.clone());
        r.register("superseded", "Events that a later execution had answered.", self.superseded.clone());
        r.register("intake_paused", "Whether a dependency is away.", self.intake_paused.clone());
        r.register(
            "reports",
            "Reports that were sent, the author's or the framework's.",
            self.reports.clone(),
        );
        r.register(
            "finalized_withheld",
            "Reports that were kept from saying Finalized.",
            self.withheld.clone(),
        );
        r.register("corrections", "Conditions that were corrected.", self.corrections.clone());
        r.register("last_event_timestamp_seconds", "Time of the last event.", self.last_event.clone());
    }

    pub(crate) fn count(&self, finished: &Finished, seconds: f64) {
        use crate::engine::Outcome;
        let status = match finished.outcome {
            Outcome::Error => "failed",
            Outcome::Skipped => "skipped",
            _ => "success",
        };
        self.processed.get_or_create(&OfStatus { status }).inc();
        self.seconds.observe(seconds);
        let journal = &finished.journal;
        for (phase, _) in &journal.errors {
            self.errors.get_or_create(&OfError { error_type: phase }).inc();
        }
        for record in journal
            .resources
            .iter()
            .filter(|record| record.operation == "delete" && !record.object.is_empty())
        {
            let status = if record.error.is_some() { "error" } else { "success" };
            self.deleted.get_or_create(&OfResource { resource_type: record.kind.clone(), status }).inc();
        }
        if journal.report.is_some() {
            let status = if journal.fallback.is_some() { "fallback" } else { "author" };
            self.reports.get_or_create(&OfStatus { status }).inc();
        }
        if let Some((why, _)) = &journal.withheld {
            self.withheld.get_or_create(&OfReason { why }).inc();
        }
        for condition in &journal.corrected {
            self.corrections.get_or_create(&OfCondition { condition }).inc();
        }
    }
}
