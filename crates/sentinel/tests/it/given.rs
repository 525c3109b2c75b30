//! Resources as the API would show them.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::backoff::later;
use hyperfleet_sentinel::decide::{Decision, Published, Reason, decide};
use hyperfleet_sentinel::seen::{Learned, Seen};
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
}

/// A cluster whose kind requires two adapters, or none.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) updated: Timestamp,
    pub(crate) reports: Vec<Option<Report>>,
}

impl Cluster {
    pub(crate) fn new(id: impl Into<String>, now: Timestamp) -> Self {
        Self { id: id.into(), generation: 1, updated: now, reports: vec![None, None] }
    }

    pub(crate) fn without_adapters(id: &str, now: Timestamp) -> Self {
        Self { reports: Vec::new(), ..Self::new(id, now) }
    }

    pub(crate) fn report(&mut self, adapter: usize, available: bool, time: Timestamp) {
        self.reports[adapter] = Some(Report { generation: self.generation, available, time });
    }

    pub(crate) fn all_report(mut self, available: bool, time: Timestamp) -> Self {
        (0..self.reports.len()).for_each(|adapter| self.report(adapter, available, time));
        self
    }

    pub(crate) fn patched(mut self, now: Timestamp) -> Self {
        self.generation += 1;
        self.updated = now;
        self
    }

    pub(crate) fn is_reconciled(&self) -> bool {
        self.reports.iter().all(|report| {
            report.as_ref().is_some_and(|report| report.available && report.generation == self.generation)
        })
    }

    pub(crate) fn confirmed(&self) -> Timestamp {
        let current = self.reports.iter().flatten().filter(|report| report.generation == self.generation);
        current.map(|report| report.time).min().unwrap_or(self.updated)
    }

    pub(crate) fn json(&self) -> Value {
        let condition = |kind: &str, holds: bool, generation: u64, time: Timestamp| {
            json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": "", "message": "",
                   "observed_generation": generation, "last_updated_time": time})
        };
        let mut conditions =
            vec![condition("Reconciled", self.is_reconciled(), self.generation, self.confirmed())];
        for (report, name) in self.reports.iter().zip(["DnsSuccessful", "ValidatorSuccessful"]) {
            let report = report.as_ref();
            conditions.extend(report.map(|it| condition(name, it.available, it.generation, it.time)));
        }
        json!({"id": self.id, "kind": "Cluster", "href": format!("/api/hyperfleet/v1/clusters/{}", self.id),
               "generation": self.generation, "updated_time": self.updated, "status": {"conditions": conditions}})
    }

    pub(crate) fn seen(&self, learned: Learned, now: Timestamp) -> Seen {
        Seen::read(Arc::new(self.json()), learned, now).unwrap()
    }

    /// As a look shows it.
    pub(crate) fn state(&self, now: Timestamp) -> Seen {
        self.seen(Learned::State(None), now)
    }

    /// The record of an event about it as it is.
    pub(crate) fn published(&self, reason: Reason, time: Timestamp) -> Published {
        Published::of(&self.state(time), None, reason, time)
    }

    pub(crate) fn decide(&self, published: Option<&Published>, now: Timestamp) -> Decision {
        decide(&self.state(now), published, now)
    }
}
