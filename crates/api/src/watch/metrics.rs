//! Metrics of watches.

use hyperfleet_core::{Error, ErrorKind, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::quota::{Holder, Quota, Share};
use crate::gate::AdmittedCaller;

/// Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub(crate) struct WatchMetrics {
    quota: Quota,
    watchers: Gauge,
    events: Counter,
    cut_off: Counter,
    delivery: Histogram,
}

/// How many requests may watch or wait at one time.
const MAX_WATCHERS: usize = 20_000;

/// A request that watches or waits, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Watching(WatchMetrics, #[expect(dead_code, reason = "held while it is watched")] Share);

impl WatchMetrics {
    /// Registers the metrics under their public names.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            quota: Quota::new(MAX_WATCHERS),
            watchers: Gauge::default(),
            events: Counter::default(),
            cut_off: Counter::default(),
            delivery: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
        };
        let watch = registry.sub_registry_with_prefix("hyperfleet_watch");
        watch.register("watchers", "Watches and waits that are open", metrics.watchers.clone());
        watch.register("events", "Events sent to watchers", metrics.events.clone());
        watch.register("cut_off", "Watchers that read too slowly and were cut off", metrics.cut_off.clone());
        watch.register_with_unit(
            "delivery",
            "Time from a change to its event on the way to a watcher, of the oldest of those that are sent together",
            Unit::Seconds,
            metrics.delivery.clone(),
        );
        metrics
    }

    /// Counts a watch, or refuses it.
    pub(crate) fn watching(&self, caller: &AdmittedCaller) -> Result<Watching, Error> {
        let Some(share) = self.quota.take(Holder::of(caller)) else {
            let detail = "Too many watch or wait already. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail));
        };
        self.watchers.inc();
        Ok(Watching(self.clone(), share))
    }
}

impl Watching {
    /// Counts events that are sent together, and measures the delay of the oldest; events of the present state have no
    /// time.
    pub(super) fn sent(&self, events: usize, changed: Option<Timestamp>, now: Timestamp) {
        self.0.events.inc_by(events as u64);
        if let Some(changed) = changed {
            let micros = now.micros() - changed.micros();
            self.0.delivery.observe(micros.max(0) as f64 / 1e6);
        }
    }

    pub(super) fn cut_off(&self) {
        self.0.cut_off.inc();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watchers.dec();
    }
}
