//! Requests applied to the model: what the server must answer and what must be true afterwards.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::conditions::Cause;
use super::reports::ReportRule;
use super::request::{Action, Request};
use super::state::{Entry, Model, Phase, Slot, State};

/// What only the server can decide, read from its answer: the id of a new resource, and the time of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The id of the resource that was made; the model invents one without it.
    pub id: Option<String>,
    /// The `updated_time` that a creation, PATCH or DELETE gave; without it the model's own clock ticks. For a
    /// report: the server's present.
    pub time: Option<DateTime<Utc>>,
}

impl Learned {
    /// Nothing: the model invents ids and times.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// A time, and nothing else.
    pub fn at(time: DateTime<Utc>) -> Self {
        Self { id: None, time: Some(time) }
    }

    /// `id` and `updated_time` of a resource that the server answered with; any other body teaches nothing.
    pub fn from_answer(body: &Value) -> Self {
        let text = |member: &str| body.get(member).and_then(Value::as_str);
        let time = text("updated_time").and_then(|time| DateTime::parse_from_rfc3339(time).ok());
        Self { id: text("id").map(Into::into), time: time.map(|time| time.to_utc()) }
    }
}

/// What a correct server does with a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The HTTP status.
    pub status: u16,
    /// The body of a success, as far as the model knows it (see [`super::mismatches`]).
    pub answer: Option<Value>,
    /// The resource that the request was about or that it made.
    pub slot: Option<Slot>,
    /// The row of the outcome table, for a report.
    pub rule: Option<ReportRule>,
    /// Resources that exist afterwards and are new or show something else than times changed: those and no others
    /// get a new version.
    pub changed: Vec<Slot>,
    /// Resources that are gone afterwards, each after its children.
    pub removed: Vec<Slot>,
}

struct Outcome {
    status: u16,
    answer: Option<Value>,
    rule: Option<ReportRule>,
    removed: Vec<Slot>,
}

impl From<(u16, Option<Value>)> for Outcome {
    fn from((status, answer): (u16, Option<Value>)) -> Self {
        Self { status, answer, rule: None, removed: Vec::new() }
    }
}

impl Model {
    /// The HTTP status of a request, without doing it.
    pub fn predict(&self, request: &Request) -> u16 {
        self.clone().apply(request, &Learned::nothing()).status
    }

    /// Does a request. Whatever is refused or discarded changes nothing.
    pub fn apply(&mut self, request: &Request, learned: &Learned) -> Expected {
        let before = self.contents();
        let slot = request.target.as_ref().map(|(slot, _)| *slot);
        let outcome = self.perform(request, slot, learned);
        let made = (self.made() > before.len()).then_some(Slot(before.len()));
        let changed = self
            .contents()
            .into_iter()
            .enumerate()
            .filter(|(index, now)| now.is_some() && before.get(*index) != Some(now))
            .map(|(index, _)| Slot(index))
            .collect();
        Expected {
            status: outcome.status,
            answer: outcome.answer,
            slot: slot.or(made),
            rule: outcome.rule,
            changed,
            removed: outcome.removed,
        }
    }

    fn perform(&mut self, request: &Request, slot: Option<Slot>, learned: &Learned) -> Outcome {
        let Some(slot) = slot else { return self.create(request, learned).into() };
        let mut removed = Vec::new();
        let (status, answer, rule) = match &request.action {
            Action::Report(report) => {
                let (rule, answer) = self.report(slot, report, learned.time, &mut removed);
                (rule.status(), answer, Some(rule))
            }
            Action::Delete => {
                let now = self.tick(learned);
                let (status, answer) = self.delete(slot, now, &mut removed);
                (status, answer, None)
            }
            Action::ForceDelete { reason } if reason.is_empty() => (400, None, None),
            Action::ForceDelete { .. } => (self.force_delete(slot, &mut removed), None, None),
            patch => {
                let (status, answer) = self.patch(slot, patch, learned);
                (status, answer, None)
            }
        };
        Outcome { status, answer, rule, removed }
    }

    fn create(&mut self, request: &Request, learned: &Learned) -> (u16, Option<Value>) {
        let Action::Create { name, size, reference } = &request.action else { return (404, None) };
        let parent = request.owners.last().map(|owner| owner.slot);
        match parent.map(|parent| self.phase(parent)) {
            Some(None) => return (404, None),
            Some(Some(Phase::Finalizing(_))) => return (409, None),
            None | Some(Some(Phase::Active)) => {}
        }
        if let Some(refusal) = reference.as_ref().and_then(|(_, target, _)| self.refuses_reference(*target)) {
            return (refusal, None);
        }
        if self.name_is_taken(&request.kind, parent, name) {
            return (409, None);
        }
        let slot = Slot(self.entries.len());
        let now = self.tick(learned);
        let legacy = self.legacy_at_creation(&request.kind, now);
        self.entries.push(Entry {
            kind: request.kind.clone(),
            id: learned.id.clone().unwrap_or_else(|| format!("id-{}", slot.0)),
            name: name.clone(),
            parent,
            state: Some(State {
                generation: 1,
                size: *size,
                tier: None,
                references: reference
                    .iter()
                    .map(|(ref_type, target, _)| (ref_type.clone(), *target))
                    .collect(),
                created: now,
                updated: now,
                phase: Phase::Active,
                reports: BTreeMap::new(),
                conditions: Vec::new(),
                legacy,
            }),
        });
        self.recompute(slot, Cause::Other);
        (201, self.document(slot))
    }

    fn patch(&mut self, slot: Slot, patch: &Action, learned: &Learned) -> (u16, Option<Value>) {
        match self.phase(slot) {
            None => return (404, None),
            Some(Phase::Finalizing(_)) => return (409, None),
            Some(Phase::Active) => {}
        }
        let parent = self.entries[slot.0].parent;
        if parent.is_some_and(|parent| self.entries[parent.0].is_finalizing()) {
            return (409, None);
        }
        if let Action::PatchReference { to: Some((_, target, _)) } = patch
            && let Some(refusal) = self.refuses_reference(*target)
        {
            return (refusal, None);
        }
        let Some(state) = self.state_mut(slot) else { return (404, None) };
        let before = state.clone();
        match patch {
            Action::PatchSpec { size } => state.size = *size,
            Action::PatchLabels { tier } => state.tier = Some(tier.clone()),
            Action::PatchReference { to: None } => state.references.clear(),
            Action::PatchReference { to: Some((ref_type, target, _)) } => {
                state.references.insert(ref_type.clone(), *target);
            }
            _ => {}
        }
        let moves_generation = state.size != before.size || state.references != before.references;
        if *state != before {
            state.generation += u64::from(moves_generation);
            let now = self.tick(learned);
            if let Some(state) = self.state_mut(slot) {
                state.updated = now;
            }
            self.recompute(slot, Cause::Other);
            if moves_generation {
                self.legacy_generation(slot);
            }
        }
        (200, self.document(slot))
    }

    /// The refusal of a reference to a resource: gone is a bad value, finalizing a conflict.
    pub(super) fn refuses_reference(&self, target: Slot) -> Option<u16> {
        match self.phase(target) {
            None => Some(400),
            Some(Phase::Finalizing(_)) => Some(409),
            Some(Phase::Active) => None,
        }
    }

    /// Names are unique among the active resources of one kind and one owner.
    pub(super) fn name_is_taken(&self, kind: &str, parent: Option<Slot>, name: &str) -> bool {
        self.entries.iter().any(|entry| {
            entry.is_active() && entry.kind == kind && entry.parent == parent && entry.name == name
        })
    }

    /// The time of a write.
    fn tick(&mut self, learned: &Learned) -> DateTime<Utc> {
        let now = learned.time.unwrap_or_else(|| self.clock + TimeDelta::seconds(1));
        self.clock = self.clock.max(now);
        now
    }

    /// Every slot's content without times.
    fn contents(&self) -> Vec<Option<State>> {
        self.entries.iter().map(|entry| entry.state.as_ref().map(State::without_times)).collect()
    }
}
