//! Resources as the API would show them.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::backoff::later;
use hyperfleet_sentinel::decide::{Decision, Published, Reason, decide};
use hyperfleet_sentinel::observed::{Observed, Origin};
use serde_json::{Value, json};

/// That many seconds after the beginning of all tests.
pub(crate) fn at(seconds: f64) -> Timestamp {
    later(Timestamp::from_micros(1_790_000_000_000_000), Duration::from_secs_f64(seconds))
}

/// A report of a required adapter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    pub(crate) generation: u64,
    pub(crate) available: bool,
    pub(crate) time: Timestamp,
    /// Since when it says so.
    since: Timestamp,
}

/// A cluster whose kind requires two adapters, or none.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) updated: Timestamp,
    pub(crate) reports: Vec<Option<Report>>,
    /// When it last became reconciled or ceased to be.
    flipped: Timestamp,
}

impl Cluster {
    pub(crate) fn new(id: impl Into<String>, now: Timestamp) -> Self {
        Self { id: id.into(), generation: 1, updated: now, reports: vec![None, None], flipped: now }
    }

    pub(crate) fn without_adapters(id: &str, now: Timestamp) -> Self {
        Self { reports: Vec::new(), ..Self::new(id, now) }
    }

    pub(crate) fn report(&mut self, adapter: usize, available: bool, time: Timestamp) {
        let before = self.is_reconciled();
        let same = self.reports[adapter].as_ref().filter(|report| report.available == available);
        let since = same.map_or(time, |report| report.since);
        self.reports[adapter] = Some(Report { generation: self.generation, available, time, since });
        if self.is_reconciled() != before {
            self.flipped = time;
        }
    }

    pub(crate) fn all_report(mut self, available: bool, time: Timestamp) -> Self {
        (0..self.reports.len()).for_each(|adapter| self.report(adapter, available, time));
        self
    }

    pub(crate) fn patched(mut self, now: Timestamp) -> Self {
        if self.is_reconciled() {
            self.flipped = now;
        }
        self.generation += 1;
        self.updated = now;
        self
    }

    pub(crate) fn is_reconciled(&self) -> bool {
        self.reports.iter().all(|report| {
            report.as_ref().is_some_and(|report| report.available && report.generation == self.generation)
        })
    }

    /// Whether all adapters have reported on this generation.
    fn has_all_reports(&self) -> bool {
        self.reports.iter().all(|it| it.as_ref().is_some_and(|it| it.generation == self.generation))
    }

    pub(crate) fn confirmed(&self) -> Timestamp {
        let current = self.reports.iter().flatten().filter(|report| report.generation == self.generation);
        current.map(|report| report.time).min().unwrap_or(self.updated)
    }

    pub(crate) fn json(&self) -> Value {
        let condition = |kind: &str,
                         holds: bool,
                         reason: &str,
                         generation: u64,
                         time: Timestamp,
                         since: Timestamp| {
            json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": reason, "message": "",
                   "observed_generation": generation, "last_updated_time": time, "last_transition_time": since})
        };
        let reason = if self.is_reconciled() {
            "ReconciledAll"
        } else if self.has_all_reports() {
            "ReconciledNotAvailable"
        } else {
            "ReconciledMissingAdapters"
        };
        let (generation, holds) = (self.generation, self.is_reconciled());
        let mut conditions =
            vec![condition("Reconciled", holds, reason, generation, self.confirmed(), self.flipped)];
        for (report, name) in self.reports.iter().zip(["DnsSuccessful", "ValidatorSuccessful"]) {
            let report = report.as_ref();
            conditions
                .extend(report.map(|it| condition(name, it.available, "", it.generation, it.time, it.since)));
        }
        json!({"id": self.id, "kind": "Cluster", "href": format!("/api/hyperfleet/v1/clusters/{}", self.id),
               "generation": self.generation, "updated_time": self.updated, "status": {"conditions": conditions}})
    }

    pub(crate) fn observed(&self, origin: Origin, now: Timestamp) -> Observed {
        Observed::read(Arc::new(self.json()), origin, now).unwrap()
    }

    /// As a list shows it.
    pub(crate) fn state(&self, now: Timestamp) -> Observed {
        self.observed(Origin::List(None), now)
    }

    /// The record of an event about it as it is.
    pub(crate) fn published(&self, reason: Reason, time: Timestamp) -> Published {
        Published::of(&self.state(time), None, reason, time)
    }

    pub(crate) fn decide(&self, published: Option<&Published>, now: Timestamp) -> Decision {
        decide(&self.state(now), published, now)
    }
}
