//! The model on examples that were worked out by hand from the rules, so that it can be trusted as a judge.

mod conditions;
mod deletion;
mod histories;
mod last_known;
mod legacy;
mod references;
mod reports;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::{
    Action, Available, Expected, Kind, Kinds, Learned, Model, OnParentDelete, Owner, Report, ReportCondition,
    Request, Slot,
};
use crate::model::view::time_text;

/// So many seconds into the day of the example.
fn at(second: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(1_735_689_600 + second)
}

fn text(second: i64) -> String {
    time_text(at(second))
}

/// A small fleet: `Pair` requires a and b, `Free` nothing; below `Pair` are `Limb` (cascade, requires a), `Leaf`
/// (cascade, nothing) and `Guard` (restrict, requires a); below `Limb` is `Twig` (cascade, requires a).
fn kinds() -> Kinds {
    use OnParentDelete::{Cascade, Restrict};
    Kinds::new(vec![
        Kind::root("Free", "frees", &[]),
        Kind::root("Pair", "pairs", &["b", "a"]).referring("home", "Free"),
        Kind::root("Limb", "limbs", &["a"]).below("Pair", Cascade),
        Kind::root("Leaf", "leaves", &[]).below("Pair", Cascade).referring("home", "Free"),
        Kind::root("Guard", "guards", &["a"]).below("Pair", Restrict),
        Kind::root("Twig", "twigs", &["a"]).below("Limb", Cascade),
        Kind::root("Stem", "stems", &["a"]).below("Free", Cascade),
    ])
}

/// A report that says `Available` and no more than it must.
fn plain(adapter: &str, generation: u64, second: i64, available: Available) -> Report {
    Report {
        adapter: adapter.into(),
        observed_generation: generation,
        observed_time: at(second),
        conditions: vec![
            ReportCondition::new("Available", available),
            ReportCondition::new("Applied", Available::True),
            ReportCondition::new("Health", Available::True),
        ],
        data: None,
        metadata: None,
    }
}

/// The same with `Finalized=True`.
fn finalized(adapter: &str, generation: u64, second: i64, available: Available) -> Report {
    let mut report = plain(adapter, generation, second, available);
    report.conditions.push(ReportCondition::new("Finalized", Available::True));
    report
}

/// A model with shorthand for exact requests.
struct Fixture(Model);

impl Fixture {
    fn new() -> Self {
        Self(Model::new(kinds()))
    }

    fn create(&mut self, kind: &str, parent: Option<Slot>, second: i64) -> Slot {
        let expected = self.try_create(kind, parent, "fresh", second);
        assert_eq!(expected.status, 201);
        expected.slot.unwrap()
    }

    /// Tries to create; the name `fresh` stands for an unused one.
    fn try_create(&mut self, kind: &str, parent: Option<Slot>, name: &str, second: i64) -> Expected {
        let kind = self.0.kinds().get(kind).unwrap().clone();
        let name = if name == "fresh" { format!("n-{}", self.0.made()) } else { name.into() };
        let owners = parent
            .map(|slot| Owner { plural: String::new(), id: self.0.id(slot).unwrap().into(), slot })
            .into_iter()
            .collect();
        let action = Action::Create { name, size: 1, reference: None };
        let request = Request { kind: kind.name, plural: kind.plural, target: None, owners, action };
        self.0.apply(&request, &Learned::at(at(second)))
    }

    fn act(&mut self, slot: Slot, action: Action, second: i64) -> Expected {
        let request = self.0.request(slot, action).unwrap();
        let predicted = self.0.predict(&request);
        let expected = self.0.apply(&request, &Learned::at(at(second)));
        assert_eq!(predicted, expected.status, "a prediction is what then happens");
        assert_eq!(self.0.invariants(), Vec::<String>::new());
        expected
    }

    /// A report that arrives a second after the adapter looked.
    fn report(&mut self, slot: Slot, report: Report) -> Expected {
        let arrival = (report.observed_time - at(0)).num_seconds() + 1;
        self.act(slot, Action::Report(report), arrival)
    }

    /// A plain report that must be stored.
    fn says(&mut self, slot: Slot, adapter: &str, generation: u64, second: i64, available: Available) {
        assert_eq!(self.report(slot, plain(adapter, generation, second, available)).status, 201);
    }

    /// A change of the spec.
    fn patch(&mut self, slot: Slot, second: i64) {
        let size = self.0.resource(slot).unwrap().document["spec"]["size"].as_u64().unwrap() + 1;
        assert_eq!(self.act(slot, Action::PatchSpec { size }, second).status, 200);
    }

    fn delete(&mut self, slot: Slot, second: i64) -> Expected {
        self.act(slot, Action::Delete, second)
    }

    fn conditions(&self, slot: Slot) -> Value {
        self.0.resource(slot).unwrap().conditions
    }

    fn condition(&self, slot: Slot, type_: &str) -> Value {
        let conditions = self.conditions(slot);
        let found = conditions.as_array().unwrap().iter().find(|it| it["type"] == type_);
        found.cloned().unwrap_or(Value::Null)
    }

    fn statuses(&self, slot: Slot) -> Vec<Value> {
        self.0.resource(slot).unwrap().statuses
    }
}

/// A condition of a resource as JSON; seconds for created, updated and transition.
fn condition(type_: &str, content: (&str, &str, &str), generation: u64, seconds: [i64; 3]) -> Value {
    let (status, reason, message) = content;
    json!({
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observed_generation": generation,
        "created_time": text(seconds[0]),
        "last_updated_time": text(seconds[1]),
        "last_transition_time": text(seconds[2]),
    })
}
