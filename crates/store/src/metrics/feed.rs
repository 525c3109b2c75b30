//! Metrics of the feed and of history.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Cheap to clone; all clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeedMetrics {
    /// Versions that are not read yet.
    pub(crate) lag_versions: Gauge,
    /// How old the newest change was when it was read.
    pub(crate) lag_seconds: Gauge<f64, AtomicU64>,
    /// Whether commits of other replicas arrive as notifications.
    pub(crate) listening: Gauge,
    /// Rows of history that are kept.
    pub(crate) rows: Gauge,
    /// Rows of history that were removed because of their age.
    pub(crate) pruned: Counter,
}

impl FeedMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let feed = registry.sub_registry_with_prefix("hyperfleet_feed");
        feed.register(
            "lag_versions",
            "Versions that the feed's reader has yet to read",
            self.lag_versions.clone(),
        );
        feed.register(
            "lag_seconds",
            "How old the newest change was when the feed's reader came to it",
            self.lag_seconds.clone(),
        );
        feed.register(
            "listening",
            "Whether commits of other replicas arrive as notifications (PostgreSQL)",
            self.listening.clone(),
        );
        let history = registry.sub_registry_with_prefix("hyperfleet_history");
        history.register("rows", "Rows of history that are kept", self.rows.clone());
        history.register("pruned_rows", "Rows of history removed because of their age", self.pruned.clone());
    }
}
