//! A step of a history against the state it meets: relative choices become ids, generations and times.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::kinds::Kind;
use super::operation::{
    AdapterChoice, Available, FinalizedChoice, GenerationChoice, Mandatory, NameChoice, ObservedChoice,
    Operation, ReportChoice, Target,
};
use super::request::{Action, Owner, Report, ReportCondition, Request};
use super::state::{Entry, Model, Slot, State};

/// Adapters that no kind requires. Their order by code points is not that of a dictionary.
const FOREIGN: [&str; 3] = ["observer", "Z-audit", "éclair"];

impl Model {
    /// The concrete request of a step; nothing when the state has nothing to do it to.
    pub fn resolve(&self, operation: &Operation) -> Option<Request> {
        match operation {
            Operation::Create { kind, parent, name, reference } => {
                self.resolve_create(kind, *parent, *name, *reference)
            }
            Operation::PatchSpec { target, changing } => {
                let slot = self.any(*target)?;
                let size = self.state(slot).map_or(0, |state| state.size) + u64::from(*changing);
                self.request(slot, Action::PatchSpec { size })
            }
            Operation::PatchLabels { target, tier } => {
                self.request(self.any(*target)?, Action::PatchLabels { tier: format!("t{tier}") })
            }
            Operation::PatchReference { target, to } => self.resolve_patch_reference(*target, *to),
            Operation::Report(choice) => {
                let slot = self.any(choice.target)?;
                self.request(slot, Action::Report(self.resolve_report(slot, choice)?))
            }
            Operation::Delete(target) => self.request(self.any(*target)?, Action::Delete),
            Operation::ForceDelete { target, reasoned } => {
                let reason = if *reasoned { "stuck for good".into() } else { String::new() };
                self.request(self.any(*target)?, Action::ForceDelete { reason })
            }
        }
    }

    /// A request about a resource that is or was.
    pub fn request(&self, slot: Slot, action: Action) -> Option<Request> {
        let entry = self.entries.get(slot.0)?;
        let kind = self.kind_of(slot)?;
        Some(Request {
            kind: kind.name.clone(),
            plural: kind.plural.clone(),
            target: Some((slot, entry.id.clone())),
            owners: entry.parent.map_or_else(Vec::new, |parent| self.owners(parent)),
            action,
        })
    }

    fn resolve_create(
        &self,
        kind: &str,
        parent: Target,
        name: NameChoice,
        reference: Option<Target>,
    ) -> Option<Request> {
        let kind = self.kinds.get(kind)?;
        let parent_slot = match &kind.parent {
            None => None,
            Some((parent_kind, _)) => match self.pick(parent, |entry| entry.kind == *parent_kind) {
                Some(slot) => Some(slot),
                None => return self.resolve_create(parent_kind, parent, name, reference),
            },
        };
        let name = self.resolve_name(kind, parent_slot, name);
        let otherwise_fine = parent_slot.is_none_or(|parent| self.entries[parent.0].is_active())
            && !self.name_is_taken(&kind.name, parent_slot, &name);
        let reference = self.resolve_reference(kind, reference, otherwise_fine);
        Some(Request {
            kind: kind.name.clone(),
            plural: kind.plural.clone(),
            target: None,
            owners: parent_slot.map_or_else(Vec::new, |parent| self.owners(parent)),
            action: Action::Create { name, size: 1, reference },
        })
    }

    fn resolve_name(&self, kind: &Kind, parent: Option<Slot>, name: NameChoice) -> String {
        let siblings = self.slots(|entry| entry.kind == kind.name && entry.parent == parent);
        match name {
            NameChoice::OfSibling(number) if !siblings.is_empty() => {
                self.entries[siblings[number % siblings.len()].0].name.clone()
            }
            _ => format!("n-{}", self.made()),
        }
    }

    fn resolve_patch_reference(&self, target: Target, to: Option<Target>) -> Option<Request> {
        let slot = self.pick(target, |entry| {
            self.kinds.get(&entry.kind).is_some_and(|kind| !kind.references.is_empty())
        })?;
        let to = self.resolve_reference(self.kind_of(slot)?, to, self.entries[slot.0].is_active());
        self.request(slot, Action::PatchReference { to })
    }

    /// Where the first declared reference points. Two faults in one request could be answered either way, so a bad
    /// target is chosen only when the request is `otherwise_fine`.
    fn resolve_reference(
        &self,
        kind: &Kind,
        to: Option<Target>,
        otherwise_fine: bool,
    ) -> Option<(String, Slot, String)> {
        let declared = kind.references.first()?;
        let slot = self.pick(to?, |entry| entry.kind == declared.target_kind)?;
        let usable = otherwise_fine || self.entries[slot.0].is_active();
        usable.then(|| (declared.ref_type.clone(), slot, self.entries[slot.0].id.clone()))
    }

    fn resolve_report(&self, slot: Slot, choice: &ReportChoice) -> Option<Report> {
        let state = self.state(slot);
        let adapter = self.resolve_adapter(slot, choice.adapter)?;
        let stored = state.and_then(|state| state.reports.get(&adapter));
        let current = state.map_or(1, |state| state.generation);
        let observed_generation = match choice.generation {
            GenerationChoice::Current => current,
            GenerationChoice::Older => current.saturating_sub(1).max(1),
            GenerationChoice::AsStored => stored.map_or(current, |stored| stored.generation),
            GenerationChoice::Future => current + 1,
            GenerationChoice::Zero => 0,
        };
        let base = stored.map(|stored| stored.reported);
        let first = || state.map_or(self.clock, |state| state.created) - self.lag;
        Some(Report {
            observed_time: resolve_time(base.unwrap_or_else(first), choice.observed),
            observed_generation,
            conditions: resolve_conditions(choice, state),
            data: choice.data.map(free_object),
            metadata: choice.metadata.map(free_object),
            adapter,
        })
    }

    fn resolve_adapter(&self, slot: Slot, choice: AdapterChoice) -> Option<String> {
        let required = &self.kind_of(slot)?.required_adapters;
        let foreign = |number: usize| FOREIGN[number % FOREIGN.len()].to_owned();
        if required.is_empty() {
            return Some(foreign(0));
        }
        Some(match choice {
            AdapterChoice::Foreign(number) => foreign(number),
            AdapterChoice::Required(number) => required[number % required.len()].clone(),
            AdapterChoice::NextRequired => {
                let facts = self.facts(slot);
                let done = |name: &String| {
                    facts.as_ref().is_some_and(|facts| {
                        facts.reported_at(facts.generation).any(|(adapter, snapshot)| {
                            adapter == name
                                && if facts.finalizing { snapshot.finalized } else { snapshot.available }
                        })
                    })
                };
                required.iter().find(|name| !done(name)).unwrap_or(&required[0]).clone()
            }
        })
    }

    fn any(&self, target: Target) -> Option<Slot> {
        self.pick(target, |_| true)
    }

    /// The target among the resources that `wanted` lets through.
    fn pick(&self, target: Target, wanted: impl Fn(&Entry) -> bool) -> Option<Slot> {
        let is_owner = |slot: &Slot| !self.children(*slot).is_empty();
        let active = || self.slots(Entry::is_active);
        let finalizing = || self.slots(Entry::is_finalizing);
        let (number, preferred) = match target {
            Target::Slot(slot) => {
                return self.entries.get(slot.0).filter(|entry| wanted(entry)).map(|_| slot);
            }
            Target::Living(number) => (number, self.living()),
            Target::Active(number) => (number, active()),
            Target::ActiveOwner(number) => (number, active().into_iter().filter(is_owner).collect()),
            Target::Finalizing(number) => (number, finalizing()),
            Target::FinalizingOwner(number) => {
                let waits = |slot: &Slot| self.facts(*slot).is_some_and(|facts| facts.waits_for_an_adapter());
                (number, finalizing().into_iter().filter(is_owner).filter(waits).collect())
            }
            Target::FinalizingLeaf(number) => {
                (number, finalizing().into_iter().filter(|slot| !is_owner(slot)).collect())
            }
            Target::Gone(number) => (number, self.slots(|entry| entry.state.is_none())),
        };
        let wider = match target {
            Target::FinalizingOwner(_) | Target::FinalizingLeaf(_) => finalizing(),
            _ => Vec::new(),
        };
        [preferred, wider, self.living()].into_iter().find_map(|mut slots| {
            slots.retain(|slot| wanted(&self.entries[slot.0]));
            (!slots.is_empty()).then(|| slots[number % slots.len()])
        })
    }

    /// A resource and its owners, the root first.
    fn owners(&self, slot: Slot) -> Vec<Owner> {
        let mut owners = Vec::new();
        let mut next = Some(slot);
        while let Some(slot) = next {
            let entry = &self.entries[slot.0];
            let plural = self.kind_of(slot).map_or_else(String::new, |kind| kind.plural.clone());
            owners.insert(0, Owner { plural, id: entry.id.clone(), slot });
            next = entry.parent;
        }
        owners
    }
}

fn resolve_time(base: DateTime<Utc>, choice: ObservedChoice) -> DateTime<Utc> {
    base + match choice {
        ObservedChoice::Newer(micros) => TimeDelta::microseconds(i64::from(micros)),
        ObservedChoice::Equal => TimeDelta::zero(),
        ObservedChoice::EqualButFiner => TimeDelta::nanoseconds(400),
        ObservedChoice::Older(micros) => TimeDelta::microseconds(-i64::from(micros)),
    }
}

/// The conditions in an order that is not the alphabet's, since the order of a report is kept.
fn resolve_conditions(choice: &ReportChoice, state: Option<&State>) -> Vec<ReportCondition> {
    let mut conditions = Vec::new();
    if let Some(progressing) = choice.progressing {
        conditions.push(ReportCondition::new("Progressing", progressing));
    }
    let mut mandatory = |missing: Mandatory, condition: ReportCondition| {
        if !choice.missing.contains(&missing) {
            conditions.push(condition);
        }
    };
    mandatory(Mandatory::Health, ReportCondition::new("Health", Available::True));
    let available = ReportCondition {
        reason: choice.reason.map(|number| format!("Reason{number}")),
        message: choice.message.map(|number| format!("message {number}")),
        ..ReportCondition::new("Available", choice.available)
    };
    mandatory(Mandatory::Available, available);
    mandatory(Mandatory::Applied, ReportCondition::new("Applied", Available::True));
    let finalizing = state.is_some_and(|state| !state.is_active());
    match choice.finalized {
        FinalizedChoice::Says(status) => conditions.push(ReportCondition::new("Finalized", status)),
        FinalizedChoice::WhenFinalizing if finalizing => {
            conditions.push(ReportCondition::new("Finalized", Available::True));
        }
        FinalizedChoice::Absent | FinalizedChoice::WhenFinalizing => {}
    }
    conditions
}

fn free_object(number: u8) -> Value {
    match number {
        0 => Value::Null,
        1 => json!({}),
        _ => json!({"number": number, "nested": {"list": [1, null, "two"]}}),
    }
}
