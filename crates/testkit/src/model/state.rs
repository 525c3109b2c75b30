//! What the model remembers: every resource ever made, by slot, with its whole state while it exists. A slot outlives
//! its resource, so that a history can go on asking for what is gone.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::conditions::{Cause, Condition, Facts, recompute};
use super::kinds::{Kind, Kinds, OnParentDelete};
use super::legacy::Legacy;
use super::operation::Available;

/// The n-th resource ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub usize);

impl Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{}", self.0)
    }
}

/// Where an existing resource is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not being deleted.
    Active,
    /// Being deleted since the given time.
    Finalizing(DateTime<Utc>),
}

/// One condition of a stored report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredCondition {
    pub(super) type_: String,
    pub(super) status: Available,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) transition: DateTime<Utc>,
}

/// The last accepted report of one adapter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredReport {
    pub(super) generation: u64,
    pub(super) conditions: Vec<StoredCondition>,
    pub(super) data: Value,
    pub(super) metadata: Option<Value>,
    pub(super) created: DateTime<Utc>,
    pub(super) reported: DateTime<Utc>,
}

impl StoredReport {
    pub(super) fn condition(&self, type_: &str) -> Option<&StoredCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// What can change about a resource while it exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) generation: u64,
    pub(super) size: u64,
    pub(super) tier: Option<String>,
    pub(super) references: BTreeMap<String, Slot>,
    pub(super) created: DateTime<Utc>,
    pub(super) updated: DateTime<Utc>,
    pub(super) phase: Phase,
    pub(super) reports: BTreeMap<String, StoredReport>,
    pub(super) conditions: Vec<Condition>,
    pub(super) legacy: Option<Legacy>,
}

impl State {
    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// The same with every time alike, to tell a change from a report that moved nothing but times.
    pub(super) fn without_times(&self) -> Self {
        let never = DateTime::UNIX_EPOCH;
        let mut state = self.clone();
        (state.created, state.updated) = (never, never);
        if !state.is_active() {
            state.phase = Phase::Finalizing(never);
        }
        for report in state.reports.values_mut() {
            (report.created, report.reported) = (never, never);
            for condition in &mut report.conditions {
                condition.transition = never;
            }
        }
        for condition in &mut state.conditions {
            (condition.created, condition.updated, condition.transition) = (never, never, never);
        }
        state.legacy = state.legacy.map(Legacy::without_times);
        state
    }
}

/// A resource that is or was.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) parent: Option<Slot>,
    pub(super) state: Option<State>,
}

impl Entry {
    pub(super) fn is_active(&self) -> bool {
        self.state.as_ref().is_some_and(State::is_active)
    }

    pub(super) fn is_finalizing(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.is_active())
    }
}

/// The times of reports grow by up to a second and a half a step, while a server needs a moment for one. With 100 steps
/// none gets ahead of the server's clock, which would store its own time.
const LAG: TimeDelta = TimeDelta::seconds(150);

/// The oracle: the state that a correct server has after the requests applied so far.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) kinds: Kinds,
    pub(super) legacy: bool,
    pub(super) entries: Vec<Entry>,
    /// The latest time seen; the source of times where none is given.
    pub(super) clock: DateTime<Utc>,
    /// By how much the first report on a resource was made before its creation.
    pub(super) lag: TimeDelta,
}

impl Model {
    /// An empty server with these kinds.
    pub fn new(kinds: Kinds) -> Self {
        // 2025-01-01T00:00:00Z, so that a model without a server has readable times.
        let clock = DateTime::UNIX_EPOCH + TimeDelta::seconds(1_735_689_600);
        Self { kinds, legacy: false, entries: Vec::new(), clock, lag: LAG }
    }

    /// The same with the older conditions `Available` and `Ready`. Members of theirs that the rules leave open are
    /// absent from what the model expects: compare with [`super::mismatches`].
    pub fn with_legacy_conditions(kinds: Kinds) -> Self {
        Self { legacy: true, ..Self::new(kinds) }
    }

    /// The same with first reports that were made when their resources were, for a server whose steps take longer than
    /// the times of reports grow.
    #[must_use]
    pub fn without_lag(self) -> Self {
        Self { lag: TimeDelta::zero(), ..self }
    }

    /// The kinds in force.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// How many resources were ever made: the next one gets this slot.
    pub fn made(&self) -> usize {
        self.entries.len()
    }

    /// Whether the resource of a slot exists.
    pub fn is_living(&self, slot: Slot) -> bool {
        self.state(slot).is_some()
    }

    /// The phase of the resource of a slot, while it exists.
    pub fn phase(&self, slot: Slot) -> Option<Phase> {
        self.state(slot).map(|state| state.phase)
    }

    /// The id that the resource of a slot has or had.
    pub fn id(&self, slot: Slot) -> Option<&str> {
        self.entries.get(slot.0).map(|entry| &*entry.id)
    }

    /// A restart with other required adapters: conditions are recomputed, and what is complete now is gone.
    pub fn reconfigure(&mut self, kinds: Kinds) {
        self.kinds = kinds;
        for slot in self.living() {
            self.recompute(slot, Cause::Other);
        }
        for slot in self.living() {
            self.complete(slot, &mut Vec::new());
        }
    }

    pub(super) fn state(&self, slot: Slot) -> Option<&State> {
        self.entries.get(slot.0)?.state.as_ref()
    }

    pub(super) fn state_mut(&mut self, slot: Slot) -> Option<&mut State> {
        self.entries.get_mut(slot.0)?.state.as_mut()
    }

    pub(super) fn kind_of(&self, slot: Slot) -> Option<&Kind> {
        self.kinds.get(&self.entries.get(slot.0)?.kind)
    }

    pub(super) fn living(&self) -> Vec<Slot> {
        self.slots(|entry| entry.state.is_some())
    }

    pub(super) fn slots(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<Slot> {
        (0..self.entries.len()).filter(|&index| wanted(&self.entries[index])).map(Slot).collect()
    }

    /// Direct children that exist, active or finalizing.
    pub(super) fn children(&self, parent: Slot) -> Vec<Slot> {
        self.slots(|entry| entry.parent == Some(parent) && entry.state.is_some())
    }

    pub(super) fn on_parent_delete(&self, child: Slot) -> Option<OnParentDelete> {
        self.kind_of(child)?.parent.as_ref().map(|(_, rule)| *rule)
    }

    /// The facts that the conditions of an existing resource follow from.
    pub(super) fn facts(&self, slot: Slot) -> Option<Facts> {
        let state = self.state(slot)?;
        let finalizing = !state.is_active();
        let mut children = BTreeMap::new();
        for child in self.children(slot) {
            *children.entry(self.entries[child.0].kind.clone()).or_insert(0) += 1;
        }
        let required = self.kind_of(slot)?.required_adapters.iter();
        let required = required
            .map(|adapter| {
                let snapshot = state
                    .reports
                    .get(adapter)
                    .and_then(|stored| Facts::snapshot_of(stored, state.generation, finalizing));
                (adapter.clone(), snapshot)
            })
            .collect();
        Some(Facts {
            generation: state.generation,
            reference_time: state.updated,
            finalizing,
            required,
            children,
        })
    }

    pub(super) fn recompute(&mut self, slot: Slot, cause: Cause) {
        let Some(facts) = self.facts(slot) else { return };
        if let Some(state) = self.state_mut(slot) {
            state.conditions = recompute(&facts, &state.conditions, cause);
        }
    }
}
