//! Metrics of issuers' keys: whether they can be fetched, and how old they are. An unreachable issuer causes no
//! failures until it rotates its keys; these metrics show it before that.

use std::sync::atomic::AtomicU64;

use hyperfleet_core::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The metrics of all issuers. Cheap to clone; all clones count together.
#[derive(Debug, Clone, Default)]
pub struct KeyMetrics {
    refreshes: Family<RefreshLabels, Counter>,
    keys: Family<From, Gauge>,
    refreshed: Family<From, Gauge<f64, AtomicU64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct From {
    issuer: String,
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefreshLabels {
    issuer: String,
    source: &'static str,
    outcome: &'static str,
}

impl KeyMetrics {
    /// Makes the metrics visible under their public names.
    pub fn register(&self, registry: &mut Registry) {
        let auth = registry.sub_registry_with_prefix("hyperfleet_auth");
        auth.register("key_refreshes", "Attempts to read the keys of an issuer", self.refreshes.clone());
        auth.register("keys", "Usable keys of an issuer", self.keys.clone());
        auth.register_with_unit(
            "keys_refreshed_timestamp",
            "When the keys of an issuer were last read, since the Unix epoch",
            Unit::Seconds,
            self.refreshed.clone(),
        );
    }

    /// There from the start, so that the first failure is an increase and not a new series.
    pub(crate) fn expect(&self, issuer: &str, source: &'static str) {
        for outcome in ["succeeded", "failed"] {
            drop(self.refreshes.get_or_create(&RefreshLabels { issuer: issuer.to_owned(), source, outcome }));
        }
    }

    pub(crate) fn succeeded(&self, issuer: &str, source: &'static str, keys: usize) {
        let from = From { issuer: issuer.to_owned(), source };
        self.refreshed.get_or_create(&from).set(Timestamp::now().micros() as f64 / 1e6);
        self.keys.get_or_create(&from).set(i64::try_from(keys).unwrap_or(i64::MAX));
        let From { issuer, source } = from;
        self.refreshes.get_or_create(&RefreshLabels { issuer, source, outcome: "succeeded" }).inc();
    }

    pub(crate) fn failed(&self, issuer: &str, source: &'static str) {
        let labels = RefreshLabels { issuer: issuer.to_owned(), source, outcome: "failed" };
        self.refreshes.get_or_create(&labels).inc();
    }
}
