//! What aggregation looks at, and how every condition gets its times. One value of this type is all that a
//! table of the contract needs: the same facts always give the same conditions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::by_adapter::ByAdapter;
use crate::{Condition, Entity, ReportedStatus, Resource, Standing, Status, Submission, Timestamp};

/// Where the adapters of a resource stand, by name.
pub(super) type Standings = ByAdapter<Standing>;

/// Stored standings, and the one that a report has just brought.
#[derive(Clone, Copy)]
pub(super) struct Latest<'a> {
    pub(super) stored: &'a Standings,
    pub(super) newest: Option<&'a Standing>,
}

impl<'a> Latest<'a> {
    fn get(&self, adapter: &str) -> Option<&'a Standing> {
        self.newest.filter(|standing| *standing.adapter == *adapter).or_else(|| self.stored.get(adapter))
    }
}

/// What is known about a resource at one moment.
pub(super) struct Facts<'a> {
    /// The resource's kind.
    pub(super) kind: &'a str,
    /// The resource's generation.
    pub(super) generation: i64,
    /// Whether its deletion was requested.
    pub(super) finalizing: bool,
    /// When the resource was last changed: the moment of everything that no report caused.
    pub(super) changed: Timestamp,
    /// The required adapters in configured order.
    pub(super) adapters: Vec<Adapter<'a>>,
    /// The children that are left, by kind.
    pub(super) children: &'a BTreeMap<Arc<str>, usize>,
    /// The report that made this computation necessary.
    pub(super) cause: Option<&'a Submission>,
    /// The present.
    pub(super) now: Timestamp,
}

/// A required adapter and what it has to say, if anything.
pub(super) struct Adapter<'a> {
    pub(super) name: &'a str,
    /// The type of its condition.
    pub(super) condition: &'a str,
    pub(super) snapshot: Option<&'a Standing>,
}

/// What a condition says, apart from when it was made and flipped.
pub(super) struct Claim<'a> {
    pub(super) status: Status,
    pub(super) reason: Cow<'a, str>,
    pub(super) message: Cow<'a, str>,
    pub(super) observed_generation: i64,
    pub(super) last_updated_time: Timestamp,
}

impl<'a> Facts<'a> {
    /// The facts of `resource`, whose adapters stand as `standings` say.
    pub(super) fn of(
        entity: &'a Entity,
        resource: &'a Resource,
        standings: Latest<'a>,
        children: &'a BTreeMap<Arc<str>, usize>,
        cause: Option<&'a Submission>,
        now: Timestamp,
    ) -> Self {
        let finalizing = !resource.is_active();
        let counts = |standing: &&Standing| {
            standing.generation <= resource.generation
                && (standing.available != ReportedStatus::Unknown || (finalizing && standing.finalized))
        };
        let snapshot = |name: &str| standings.get(name).filter(counts);
        Self {
            kind: &entity.kind,
            generation: resource.generation,
            finalizing,
            changed: resource.updated.at,
            adapters: entity
                .required_adapters
                .iter()
                .zip(&entity.adapter_conditions)
                .map(|(name, condition)| Adapter { name, condition, snapshot: snapshot(name) })
                .collect(),
            children,
            cause,
            now,
        }
    }

    /// The snapshots of the adapters that have reported.
    pub(super) fn snapshots(&self) -> impl Iterator<Item = &'a Standing> {
        self.adapters.iter().filter_map(|adapter| adapter.snapshot)
    }

    /// Whether every required adapter has finished with the present generation of a finalizing resource.
    pub(super) fn all_finalized(&self) -> bool {
        self.adapters.iter().all(|adapter| adapter.has_finalized(self.generation))
    }

    /// Whether a finalizing resource has nothing left to wait for.
    pub(super) fn is_gone(&self) -> bool {
        self.finalizing && self.all_finalized() && self.children.is_empty()
    }

    /// The oldest report among those of `generation`.
    pub(super) fn oldest_at(&self, generation: i64) -> Option<Timestamp> {
        self.snapshots().filter(|s| s.generation == generation).map(|s| s.time).min()
    }

    /// A claim as a condition, after `previous`.
    pub(super) fn condition(&self, kind: &str, previous: Option<&Condition>, claim: Claim<'_>) -> Condition {
        let flipped = self.cause.map_or(self.changed, |report| report.observed_time);
        let last_transition_time = match previous {
            None => self.changed,
            Some(p) if p.status == claim.status => p.last_transition_time,
            Some(_) => flipped,
        };
        self.condition_since(kind, previous, claim, last_transition_time)
    }

    /// A claim as a condition whose status holds since `last_transition_time`.
    pub(super) fn condition_since(
        &self,
        kind: &str,
        previous: Option<&Condition>,
        claim: Claim<'_>,
        last_transition_time: Timestamp,
    ) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: claim.status,
            reason: claim.reason.into_owned(),
            message: claim.message.into_owned(),
            observed_generation: claim.observed_generation,
            created_time: previous.map_or(self.changed, |p| p.created_time),
            last_updated_time: claim.last_updated_time,
            last_transition_time,
        }
    }
}

impl Adapter<'_> {
    /// Whether it has reported on `generation`.
    pub(super) fn is_at(&self, generation: i64) -> bool {
        self.snapshot.is_some_and(|s| s.generation == generation)
    }

    /// Whether it has finished with `generation`.
    pub(super) fn has_finalized(&self, generation: i64) -> bool {
        self.snapshot.is_some_and(|s| s.generation == generation && s.finalized)
    }

    /// Its name with the reason it gives, if it gives one.
    pub(super) fn with_reason(&self) -> String {
        match self.snapshot.map(|s| &*s.reason) {
            None | Some("") => self.name.to_owned(),
            Some(reason) => format!("{} ({reason})", self.name),
        }
    }
}

impl Standing {
    /// Whether the adapter says `Available=True`.
    pub(super) fn is_available(&self) -> bool {
        self.available == ReportedStatus::True
    }
}

/// Names in a message.
pub(super) fn join(names: impl IntoIterator<Item = impl Into<String>>) -> String {
    names.into_iter().map(Into::into).collect::<Vec<String>>().join(", ")
}
