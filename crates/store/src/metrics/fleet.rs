//! Metrics of the fleet: pending resources, reports and deletions. Only commits are counted.

use std::sync::Arc;

use hyperfleet_core::rules::{Outcome, Reported, WorkingSet};
use hyperfleet_core::{Action, Catalog, Error, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::maintenance::pending::Pending;

/// Which resources a number is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resources {
    resource_type: Arc<str>,
    is_delete: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reports {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Removals {
    resource_type: Arc<str>,
    forced: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Mappings {
    resource_type: Arc<str>,
    condition: String,
}

/// The fleet's metrics. Cheap to clone; all clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetMetrics {
    started: Family<Resources, Counter>,
    pending: Family<Resources, Gauge>,
    stuck: Family<Resources, Gauge>,
    stuck_duration: Family<Resources, Gauge>,
    reports: Family<Reports, Counter>,
    removals: Family<Removals, Counter>,
    mapping_failures: Family<Mappings, Counter>,
}

impl FleetMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        for outcome in ["stored", "unchanged", "stale", "future_generation", "unknown"] {
            drop(self.reports.get_or_create(&Reports { outcome }));
        }
        let api = registry.sub_registry_with_prefix("hyperfleet_api");
        api.register(
            "reconciliation_started",
            "Resources whose Reconciled changed to False",
            self.started.clone(),
        );
        api.register(
            "resource_pending_reconciliation",
            "Resources that wait for their adapters",
            self.pending.clone(),
        );
        api.register(
            "resource_pending_reconciliation_stuck",
            "Resources that have waited for longer than the threshold",
            self.stuck.clone(),
        );
        api.register(
            "resource_pending_reconciliation_stuck_duration_seconds",
            "How long the longest waiting of the stuck resources waits",
            self.stuck_duration.clone(),
        );
        api.register("reports", "Reports of adapters by what became of them", self.reports.clone());
        api.register("hard_deletes", "Resources that were removed", self.removals.clone());
        api.register(
            "condition_mapping_failures",
            "Mapped conditions that were left out because their rule failed",
            self.mapping_failures.clone(),
        );
    }

    /// Counts what a commit did.
    pub(crate) fn committed<'a>(
        &self,
        set: &WorkingSet,
        answers: impl Iterator<Item = &'a Result<Outcome, Error>>,
    ) {
        // Nearly all of a batch come to the same.
        let mut outcomes: Vec<(&'static str, u64)> = Vec::new();
        for answer in answers {
            if let Ok(Outcome::Report(_, reported)) = answer {
                let outcome = outcome(reported);
                match outcomes.iter_mut().find(|(known, _)| *known == outcome) {
                    Some((_, number)) => *number += 1,
                    None => outcomes.push((outcome, 1)),
                }
            }
        }
        for (outcome, number) in outcomes {
            self.reports.get_or_create(&Reports { outcome }).inc_by(number);
        }
        for (_, before, after) in set.before_and_after() {
            let Some(after) = after else { continue };
            if after.pending_since.is_some() && before.is_none_or(|b| b.pending_since.is_none()) {
                self.started.get_or_create(&resources(&after.kind, !after.is_active())).inc();
            }
        }
        for change in set.changes() {
            let forced = change.entries.iter().find_map(|entry| match entry.action {
                Action::Deleted => Some(false),
                Action::ForceDeleted => Some(true),
                _ => None,
            });
            if let Some(forced) = forced {
                let labels = Removals { resource_type: change.kind.clone(), forced: word(forced) };
                self.removals.get_or_create(&labels).inc();
            }
        }
        for skipped_conditions in set.skipped_conditions() {
            let labels = Mappings {
                resource_type: skipped_conditions.subject.kind.clone(),
                condition: skipped_conditions.failure.kind.clone(),
            };
            self.mapping_failures.get_or_create(&labels).inc();
        }
    }

    /// Sets the metrics of pending resources of every kind. Counters exist from the start, so that the first event is an
    /// increase.
    pub(crate) fn show(&self, catalog: &Catalog, pending: &Pending, now: Timestamp) {
        for entity in catalog.kinds() {
            for finalizing in [false, true] {
                let labels = resources(&entity.kind, finalizing);
                drop(self.started.get_or_create(&labels));
                let forced = word(finalizing);
                drop(self.removals.get_or_create(&Removals { resource_type: entity.kind.clone(), forced }));
                let waiting = pending.waiting.iter().find(|(kind, ..)| **kind == *entity.kind);
                let waiting = waiting.map_or(0, |(_, active, f)| if finalizing { *f } else { *active });
                let stuck =
                    pending.stuck.iter().find(|s| s.kind == *entity.kind && s.finalizing == finalizing);
                let seconds = stuck.map_or(0, |s| (now.micros() - s.since.micros()) / 1_000_000);
                self.pending.get_or_create(&labels).set(waiting as i64);
                self.stuck.get_or_create(&labels).set(stuck.map_or(0, |s| s.count as i64));
                self.stuck_duration.get_or_create(&labels).set(seconds);
            }
        }
    }
}

fn word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

fn resources(kind: &Arc<str>, finalizing: bool) -> Resources {
    Resources { resource_type: kind.clone(), is_delete: word(finalizing) }
}

fn outcome(reported: &Reported) -> &'static str {
    match reported {
        Reported::Stored(_) => "stored",
        Reported::Unchanged(_) => "unchanged",
        Reported::Stale => "stale",
        Reported::FutureGeneration => "future_generation",
        Reported::Unknown => "unknown",
    }
}
