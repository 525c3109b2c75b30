//! The input of aggregation, and the times of every condition. The same facts always give the same conditions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::by_adapter::ByAdapter;
use crate::{Condition, Entity, ReportSummary, ReportedStatus, Resource, Status, Submission, Timestamp};

/// The latest summaries of a resource's adapters, by name.
pub(super) type ReportSummaries = ByAdapter<ReportSummary>;

/// Stored summaries, and the one that a report has just brought.
#[derive(Clone, Copy)]
pub(super) struct Latest<'a> {
    pub(super) stored: &'a ReportSummaries,
    pub(super) newest: Option<&'a ReportSummary>,
}

impl<'a> Latest<'a> {
    fn get(&self, adapter: &str) -> Option<&'a ReportSummary> {
        self.newest.filter(|summary| *summary.adapter == *adapter).or_else(|| self.stored.get(adapter))
    }
}

/// The input of aggregation for one resource.
pub(super) struct Facts<'a> {
    /// The resource's kind.
    pub(super) kind: &'a str,
    /// The resource's generation.
    pub(super) generation: i64,
    /// Whether its deletion was requested.
    pub(super) finalizing: bool,
    /// When the resource was last changed: the time of every change that no report caused.
    pub(super) changed: Timestamp,
    /// The required adapters in configured order.
    pub(super) adapters: Vec<Adapter<'a>>,
    /// The children that are left, by kind.
    pub(super) children: &'a BTreeMap<Arc<str>, usize>,
    /// The report that made this computation necessary.
    pub(super) cause: Option<&'a Submission>,
    /// The time of the computation.
    pub(super) now: Timestamp,
}

/// A required adapter and the summary of its report, if it has reported.
pub(super) struct Adapter<'a> {
    pub(super) name: &'a str,
    /// The type of its condition.
    pub(super) condition: &'a str,
    pub(super) summary: Option<&'a ReportSummary>,
}

/// A condition without its times of creation and transition.
pub(super) struct ConditionContent<'a> {
    pub(super) status: Status,
    pub(super) reason: Cow<'a, str>,
    pub(super) message: Cow<'a, str>,
    pub(super) observed_generation: i64,
    pub(super) last_updated_time: Timestamp,
}

impl<'a> Facts<'a> {
    /// The facts of `resource` with the summaries of its adapters.
    pub(super) fn of(
        entity: &'a Entity,
        resource: &'a Resource,
        summaries: Latest<'a>,
        children: &'a BTreeMap<Arc<str>, usize>,
        cause: Option<&'a Submission>,
        now: Timestamp,
    ) -> Self {
        let finalizing = !resource.is_active();
        let counts = |summary: &&ReportSummary| {
            summary.generation <= resource.generation
                && (summary.available != ReportedStatus::Unknown || (finalizing && summary.finalized))
        };
        let summary = |name: &str| summaries.get(name).filter(counts);
        Self {
            kind: &entity.kind,
            generation: resource.generation,
            finalizing,
            changed: resource.updated.at,
            adapters: entity
                .required_adapters
                .iter()
                .zip(&entity.adapter_conditions)
                .map(|(name, condition)| Adapter { name, condition, summary: summary(name) })
                .collect(),
            children,
            cause,
            now,
        }
    }

    /// The summaries of the adapters that have reported.
    pub(super) fn summaries(&self) -> impl Iterator<Item = &'a ReportSummary> {
        self.adapters.iter().filter_map(|adapter| adapter.summary)
    }

    /// Whether every required adapter has finished with the present generation of a finalizing resource.
    pub(super) fn all_finalized(&self) -> bool {
        self.adapters.iter().all(|adapter| adapter.has_finalized(self.generation))
    }

    /// Whether a finalizing resource has nothing left to wait for.
    pub(super) fn is_removable(&self) -> bool {
        self.finalizing && self.all_finalized() && self.children.is_empty()
    }

    /// The oldest report among those of `generation`.
    pub(super) fn oldest_at(&self, generation: i64) -> Option<Timestamp> {
        self.summaries().filter(|s| s.generation == generation).map(|s| s.time).min()
    }

    /// Completes a condition, after `previous`.
    pub(super) fn condition(
        &self,
        kind: &str,
        previous: Option<&Condition>,
        content: ConditionContent<'_>,
    ) -> Condition {
        let transition_time = self.cause.map_or(self.changed, |report| report.time(self.now));
        let last_transition_time = match previous {
            None => self.changed,
            Some(p) if p.status == content.status => p.last_transition_time,
            Some(_) => transition_time,
        };
        self.condition_since(kind, previous, content, last_transition_time)
    }

    /// Completes a condition whose status holds since `last_transition_time`.
    pub(super) fn condition_since(
        &self,
        kind: &str,
        previous: Option<&Condition>,
        content: ConditionContent<'_>,
        last_transition_time: Timestamp,
    ) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: content.status,
            reason: content.reason.into_owned(),
            message: content.message.into_owned(),
            observed_generation: content.observed_generation,
            created_time: previous.map_or(self.changed, |p| p.created_time),
            last_updated_time: content.last_updated_time,
            last_transition_time,
        }
    }
}

impl Adapter<'_> {
    /// Whether it has reported on `generation`.
    pub(super) fn is_at(&self, generation: i64) -> bool {
        self.summary.is_some_and(|s| s.generation == generation)
    }

    /// Whether it has finished with `generation`.
    pub(super) fn has_finalized(&self, generation: i64) -> bool {
        self.summary.is_some_and(|s| s.generation == generation && s.finalized)
    }

    /// Its name with the reason it gives, if it gives one.
    pub(super) fn with_reason(&self) -> String {
        match self.summary.map(|s| &*s.reason) {
            None | Some("") => self.name.to_owned(),
            Some(reason) => format!("{} ({reason})", self.name),
        }
    }
}

impl ReportSummary {
    /// Whether the adapter says `Available=True`.
    pub(super) fn is_available(&self) -> bool {
        self.available == ReportedStatus::True
    }
}

/// Names in a message.
pub(super) fn join(names: impl IntoIterator<Item = impl Into<String>>) -> String {
    names.into_iter().map(Into::into).collect::<Vec<String>>().join(", ")
}
