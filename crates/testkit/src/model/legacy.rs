//! The older conditions `Available` and `Ready`, by the tables of the first API revision. Where the tables and the
//! rules that interpret them leave a member open it is `None` here and absent from what the model expects.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::conditions::Facts;
use super::state::{Model, Slot};
use super::view::time_text;

/// One older condition.
#[derive(Clone, Debug, PartialEq)]
struct LegacyCondition {
    status: bool,
    reason: Option<&'static str>,
    message: Option<String>,
    observed_generation: Option<u64>,
    created: DateTime<Utc>,
    updated: Option<DateTime<Utc>>,
    transition: DateTime<Utc>,
}

impl LegacyCondition {
    fn item(&self, type_: &str) -> Value {
        let mut item = Map::new();
        item.insert("type".into(), json!(type_));
        item.insert("status".into(), json!(if self.status { "True" } else { "False" }));
        if let Some(reason) = self.reason {
            item.insert("reason".into(), json!(reason));
        }
        if let Some(message) = &self.message {
            item.insert("message".into(), json!(message));
        }
        if let Some(generation) = self.observed_generation {
            item.insert("observed_generation".into(), json!(generation));
        }
        item.insert("created_time".into(), json!(time_text(self.created)));
        if let Some(updated) = self.updated {
            item.insert("last_updated_time".into(), json!(time_text(updated)));
        }
        item.insert("last_transition_time".into(), json!(time_text(self.transition)));
        Value::Object(item)
    }
}

/// Both older conditions of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Legacy {
    available: LegacyCondition,
    ready: LegacyCondition,
}

impl Legacy {
    fn at_creation(now: DateTime<Utc>, has_required_adapters: bool) -> Self {
        let first = if has_required_adapters {
            LegacyCondition {
                status: false,
                reason: Some("AwaitingAdapters"),
                message: Some("Waiting for adapters to report status".into()),
                observed_generation: Some(1),
                created: now,
                updated: Some(now),
                transition: now,
            }
        } else {
            LegacyCondition {
                status: true,
                reason: None,
                message: None,
                observed_generation: None,
                created: now,
                updated: None,
                transition: now,
            }
        };
        Self { available: first.clone(), ready: first }
    }

    pub(super) fn without_times(mut self) -> Self {
        for condition in [&mut self.available, &mut self.ready] {
            condition.created = DateTime::UNIX_EPOCH;
            condition.updated = None;
            condition.transition = DateTime::UNIX_EPOCH;
        }
        self
    }

    pub(super) fn items(&self) -> [Value; 2] {
        [self.available.item("Available"), self.ready.item("Ready")]
    }

    /// `Ready` after a change of the generation; `Available` stays.
    fn generation_changed(&mut self, generation: u64, now: DateTime<Utc>) {
        if self.ready.status {
            self.ready.transition = now;
        }
        self.ready.status = false;
        self.ready.reason = None;
        self.ready.message = None;
        self.ready.observed_generation = Some(generation);
        self.ready.updated = Some(now);
    }

    /// `Available`: the common result once every required adapter has reported the generation of this report.
    fn available_after(&mut self, facts: &Facts, kind: &str, generation: u64, observed: DateTime<Utc>) {
        let there = facts.reported_at(generation).count();
        if there < facts.required.len() {
            return;
        }
        let status = facts.reported_at(generation).all(|(_, snapshot)| snapshot.available);
        let flips = status != self.available.status;
        let oldest = facts.oldest_at(generation);
        self.available.updated = if flips && !status { Some(observed) } else { oldest };
        if flips {
            self.available.transition = observed;
        }
        self.available.status = status;
        self.available.observed_generation = Some(generation);
        (self.available.reason, self.available.message) = if status {
            (Some("ResourceAvailable"), Some(format!("{kind} is accessible")))
        } else {
            (Some("AdapterReportedNotAvailable"), None)
        };
    }

    /// `Ready`, by the table for a report that says `available`.
    fn ready_after(
        &mut self,
        facts: &Facts,
        available: bool,
        generation: u64,
        observed: DateTime<Utc>,
        now: Option<DateTime<Utc>>,
    ) {
        let current = generation == facts.generation;
        let oldest = facts.reported().map(|(_, snapshot)| snapshot.time).min();
        let all_ready = facts.required.iter().all(|(_, snapshot)| {
            snapshot.as_ref().is_some_and(|it| it.available && it.generation == facts.generation)
        });
        let one_is_missing = facts.reported().count() < facts.required.len();
        let ready = &mut self.ready;
        if available && current && all_ready {
            if !ready.status {
                ready.transition = observed;
            }
            ready.status = true;
            ready.reason = Some("ResourceReady");
            ready.message = Some("All adapters report ready at current generation".into());
            ready.updated = oldest;
        } else if available && !ready.status && one_is_missing {
            ready.updated = now;
        } else if !available && current && ready.status {
            ready.status = false;
            ready.reason = None;
            ready.message = None;
            ready.updated = Some(observed);
            ready.transition = observed;
        } else if !available && current {
            ready.updated = oldest;
        }
    }
}

impl Model {
    pub(super) fn legacy_at_creation(&self, kind: &str, now: DateTime<Utc>) -> Option<Legacy> {
        let kind = self.kinds.get(kind).filter(|_| self.legacy)?;
        Some(Legacy::at_creation(now, !kind.required_adapters.is_empty()))
    }

    /// After the generation of a resource grew.
    pub(super) fn legacy_generation(&mut self, slot: Slot) {
        let requires_none = self.kind_of(slot).is_none_or(|kind| kind.required_adapters.is_empty());
        let Some(state) = self.state_mut(slot).filter(|_| !requires_none) else { return };
        let (generation, now) = (state.generation, state.updated);
        if let Some(legacy) = &mut state.legacy {
            legacy.generation_changed(generation, now);
        }
    }

    /// After an aggregated report.
    pub(super) fn legacy_report(
        &mut self,
        slot: Slot,
        adapter: &str,
        generation: u64,
        observed: DateTime<Utc>,
        now: Option<DateTime<Utc>>,
    ) {
        let (Some(facts), Some(kind)) = (self.facts(slot), self.kind_of(slot).cloned()) else { return };
        let said = facts.reported().find(|(name, _)| *name == adapter).map(|(_, it)| it.available);
        let Some(legacy) = self.state_mut(slot).and_then(|state| state.legacy.as_mut()) else { return };
        match said {
            Some(available) => {
                legacy.ready_after(&facts, available, generation, observed, now);
                legacy.available_after(&facts, &kind.name, generation, observed);
            }
            // The tables speak of required adapters; whether another one refreshes the times they do not say.
            None => {
                legacy.ready.updated = None;
                legacy.available.updated = None;
            }
        }
    }
}
