//! Random histories of commands, done by the rules on a strict store and by the model. After each
//! step both must have the same resources and give the same answers, a dry run must have
//! foretold the answer, and the invariants of the contract must hold. Commands that share a
//! commit must lead where the same commands lead one by one, and from what is there in the end undoing
//! must lead to all that was.

mod access_scope;
mod document;
mod histories;
mod kinds;
mod model;
mod request;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use histories::{Step, history, planting};
use hyperfleet_core::rules::{Outcome, ReportLimits, Rulebook};
use hyperfleet_core::{
    Action, Catalog, Change, Contract, Error, Labels, Phase, References, Resource, ResourceId, SpecSchemas,
    Stamp, Timestamp,
};
use kinds::{descriptors, kind};
use model::{Model, ModelResource};
use proptest::prelude::*;
use request::Request;
use serde_json::Value;

use crate::database::{Database, targets};
use crate::{cases, naive};

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_rules_do_what_the_model_does_whatever_the_history(history in history(40)) {
        let mut world = World::new();
        for seed in planting() {
            world.live_through(&[seed]);
        }
        for batch in &history {
            world.live_through(batch);
        }
        world.database.check_past();
    }
}

fn empty_database() -> Database {
    let catalog = Arc::new(Catalog::new(descriptors()).unwrap());
    let schemas = SpecSchemas::compile(&catalog, None).unwrap();
    Database::new(Arc::new(Rulebook {
        catalog,
        schemas,
        max_member_bytes: 1 << 20,
        report_limits: ReportLimits::default(),
        contract: Contract::Documented,
        legacy_conditions: false,
        tenancy: false,
        href_prefix: "/api/hyperfleet/v1",
    }))
}

/// The resource that a command answered with.
fn shown(outcome: &Outcome) -> &Resource {
    let Outcome::Resource(resource) = outcome else { panic!("{outcome:?} shows no resource") };
    resource
}

/// The resources that these changes say are gone.
fn removed(changes: &[Change]) -> Vec<ResourceId> {
    let is_end = |change: &&Change| {
        change.entries.iter().any(|entry| matches!(entry.action, Action::Deleted | Action::ForceDeleted))
    };
    changes.iter().filter(is_end).map(|change| change.resource).collect()
}

struct World {
    database: Database,
    model: Model,
    now: i64,
}

impl World {
    fn new() -> Self {
        Self { database: empty_database(), model: Model::default(), now: 1_800_000_000_000_000 }
    }

    fn live_through(&mut self, batch: &[Step]) {
        self.now += batch[0].seconds * 1_000_000;
        let now = Timestamp::from_micros(self.now);
        let rows = self.database.rows.clone();
        let version = |id: ResourceId| rows[&id].version.0;
        let requests: Vec<_> =
            batch.iter().map(|step| (step.actor, step.request(&self.model, version))).collect();

        let mut together = self.database.clone();
        let commands: Vec<_> =
            requests.iter().map(|(actor, request)| request.command(actor, false)).collect();
        let shared = together.run(&commands, now);

        let alone: Vec<_> = requests.iter().map(|(actor, request)| self.live(request, actor, now)).collect();

        let (left, right) = (ComparableIds::of(&together, &rows), ComparableIds::of(&self.database, &rows));
        assert_eq!(left.contents(&together), right.contents(&self.database), "of {requests:#?}");
        for (shared, alone) in shared.iter().zip(&alone) {
            assert_eq!(left.answer(shared), right.answer(alone), "of {requests:#?}");
        }
        if batch.len() > 1 {
            together.check_past();
        }
    }

    /// One command, alone in its commit.
    fn live(&mut self, request: &Request, actor: &str, now: Timestamp) -> Result<Outcome, Error> {
        let before = self.database.clone();
        let rehearsed = self.database.run(&[request.command(actor, true)], now).remove(0);
        assert_eq!(self.database.rows, before.rows, "a dry run writes nothing: {request:#?}");
        assert_eq!(self.database.version, before.version, "a dry run takes no version: {request:#?}");
        assert_eq!(self.database.history, before.history, "a dry run has no history: {request:#?}");

        let real = self.database.run(&[request.command(actor, false)], now).remove(0);
        // Times of changes never go back, although the clock may.
        let now = before.history.last().map_or(now, |change| change.at.max(now));
        let foretold = ComparableIds { known: &before.rows, fresh: Vec::new() };
        assert_eq!(foretold.answer(&rehearsed), foretold.answer(&real), "of {request:#?}");

        let fresh = real.as_ref().map_or_else(|_| ResourceId::generate(), |outcome| shown(outcome).id);
        let model_before = self.model.clone();
        let version = |id: ResourceId| before.rows[&id].version.0;
        let expected = self.model.obey(request, &(now, actor.to_owned()), version, fresh);
        match (&real, expected) {
            (Ok(outcome), Ok(id)) => self.check_answer(outcome, id, &before, &model_before),
            (Err(error), Err(code)) => {
                assert_eq!(error.code(), code, "{error:?} for {request:#?}");
                assert_eq!(self.database.history, before.history, "a refusal leaves nothing: {request:#?}");
            }
            (real, expected) => panic!("{real:#?} but the model says {expected:?} to {request:#?}"),
        }
        self.check_contents();
        self.database.check_computed();
        self.check_versions(&before, &model_before, actor, now);
        check_invariants(&self.database);
        check_nothing_goes_back(&before, &self.database);
        real
    }

    fn check_answer(&self, outcome: &Outcome, id: ResourceId, before: &Database, model_before: &Model) {
        let thing = self.model.things.get(&id).unwrap_or_else(|| &self.model.gone[&id]);
        assert_same(shown(outcome), thing);
        if let Some(row) = self.database.rows.get(&id) {
            assert_eq!(shown(outcome), row, "the answer is what is stored");
        }
        let gone = |id: &&ResourceId| !self.model.things.contains_key(*id);
        let expected: BTreeSet<_> = model_before.things.keys().filter(gone).copied().collect();
        let told = removed(&self.database.history[before.history.len()..]);
        assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), expected, "what the history says is gone");
        assert_eq!(told.len(), expected.len(), "each is removed once");
    }

    fn check_contents(&self) {
        let (stored, expected): (Vec<_>, Vec<_>) =
            (self.database.rows.keys().collect(), self.model.things.keys().collect());
        assert_eq!(stored, expected, "what exists");
        for (id, thing) in &self.model.things {
            assert_same(&self.database.rows[id], thing);
        }
    }

    /// The counter grew by one for each changed resource, each of which has a change row with its
    /// new version, and nothing else has.
    fn check_versions(&self, before: &Database, model_before: &Model, actor: &str, now: Timestamp) {
        let ids = model_before.things.keys().chain(self.model.things.keys());
        let changed: BTreeSet<ResourceId> =
            ids.filter(|id| model_before.things.get(id) != self.model.things.get(id)).copied().collect();
        let rows = &self.database.history[before.history.len()..];
        let told: BTreeSet<_> = rows.iter().map(|change| change.resource).collect();
        assert_eq!(told, changed, "a change row for each change");
        for (change, version) in rows.iter().zip(before.version.0 + 1..) {
            assert_eq!(change.version.0, version, "versions without gaps");
            assert_eq!((change.actor.as_str(), change.at), (actor, now));
            if let Some(row) = self.database.rows.get(&change.resource) {
                assert_eq!(row.version, change.version, "the last write is the version");
            }
        }
        assert_eq!(self.database.version.0, before.version.0 + changed.len() as i64);
        for (id, row) in self.database.rows.iter().filter(|(id, _)| !changed.contains(id)) {
            assert_eq!(Some(row), before.rows.get(id), "nothing else moves");
        }
        for change in rows {
            self.check_timeline(change, model_before);
        }
    }

    /// The timeline says which of the three parts changed, and how the end came.
    fn check_timeline(&self, change: &Change, model_before: &Model) {
        let told = |action| change.entries.iter().any(|entry| entry.action == action);
        let after = self.model.things.get(&change.resource);
        match (model_before.things.get(&change.resource), after) {
            (Some(old), Some(new)) if new.deleted.is_none() => {
                assert_eq!(told(Action::SpecChanged), !naive::equal(&old.spec, &new.spec));
                assert_eq!(told(Action::LabelsChanged), old.labels != new.labels);
                assert_eq!(told(Action::ReferencesChanged), old.references != new.references);
            }
            (Some(old), new) => {
                assert_eq!(told(Action::Deleted) || told(Action::ForceDeleted), new.is_none());
                let asked = new.map_or(!told(Action::ForceDeleted), |new| old.deleted != new.deleted);
                assert_eq!(told(Action::DeletionRequested), asked && old.deleted.is_none());
            }
            (None, _) => assert!(told(Action::Created)),
        }
    }
}

fn assert_same(stored: &Resource, thing: &ModelResource) {
    let stamp = |stamp: &Stamp| (stamp.at, stamp.by.clone());
    let deleted = match &stored.phase {
        Phase::Active => None,
        Phase::Finalizing(at) => Some(stamp(at)),
    };
    assert_eq!((&*stored.kind, &stored.name, stored.owner()), (thing.kind, &thing.name, thing.owner));
    assert_eq!(stored.generation, thing.generation, "generation of {thing:#?}");
    assert_eq!(deleted, thing.deleted, "phase of {thing:#?}");
    assert_eq!(stamp(&stored.created), thing.created, "creation of {thing:#?}");
    assert_eq!(stamp(&stored.updated), thing.updated, "last update of {thing:#?}");
    assert_eq!(stored.labels.parse::<Labels>().unwrap(), thing.labels);
    assert_eq!(stored.references.parse::<References>().unwrap(), thing.references);
    let spec: Value = stored.spec.parse().unwrap();
    assert!(naive::equal(&spec, &thing.spec), "{spec} is not {}", thing.spec);
    assert_eq!(stored.conditions.parse::<Value>().unwrap(), thing.conditions(), "conditions of {thing:#?}");
}

fn check_invariants(database: &Database) {
    let rows = &database.rows;
    let (mut names, mut versions) = (BTreeSet::new(), BTreeSet::new());
    for row in rows.values() {
        let kind = kind(&row.kind);
        let owner = row.owner().map(|id| rows.get(&id).expect("no child without its parent"));
        let line = owner.map_or_else(Vec::new, |o| [o.ancestors.clone(), vec![o.id]].concat());
        assert_eq!(row.ancestors, line, "ancestors are the owner's and the owner");
        assert_eq!(owner.map(|o| &*o.kind), kind.parent.map(|(parent, _)| parent));
        assert!(versions.insert(row.version) && row.version <= database.version);
        if row.is_active() {
            assert!(names.insert((&row.kind, row.owner(), &row.name)), "an active name is taken once");
            assert!(owner.is_none_or(Resource::is_active), "nothing is active below what goes");
        } else {
            let waits = !kind.adapters.is_empty() || rows.values().any(|r| r.owner() == Some(row.id));
            assert!(waits, "{} '{}' waits for nothing", row.kind, row.name);
            assert!(targets(row).is_empty(), "what goes refers to nothing");
        }
        check_references(rows, row);
    }
}

fn check_references(rows: &BTreeMap<ResourceId, Resource>, row: &Resource) {
    let references: References = row.references.parse().unwrap();
    for (ref_type, target_kind, min, max) in kind(&row.kind).references {
        let ids = references.get(*ref_type).map_or(&[][..], Vec::as_slice);
        assert!(!row.is_active() || ids.len() >= *min, "{ref_type} has its fewest");
        assert!(*max == 0 || ids.len() <= *max, "{ref_type} has its most");
        for id in ids {
            let target = rows.get(id).expect("a reference leads somewhere");
            assert!(target.is_active() && *target.kind == **target_kind);
        }
    }
}

fn check_nothing_goes_back(before: &Database, after: &Database) {
    assert!(after.version >= before.version);
    for (id, new) in &after.rows {
        let Some(old) = before.rows.get(id) else {
            assert!(!before.history.iter().any(|change| change.resource == *id), "ids are not used again");
            continue;
        };
        assert!(new.generation >= old.generation && new.version >= old.version);
        assert!(new.updated.at >= old.updated.at);
        assert_eq!((&new.name, &new.created, &new.ancestors), (&old.name, &old.created, &old.ancestors));
        if !old.is_active() {
            assert_eq!(new.phase, old.phase, "nothing comes back from finalizing");
        }
    }
}

/// Two runs give new resources other ids. Each new id becomes its place among the new ones, in the
/// order of their creation, so that the runs can be compared.
struct ComparableIds<'a> {
    known: &'a BTreeMap<ResourceId, Resource>,
    fresh: Vec<ResourceId>,
}

impl<'a> ComparableIds<'a> {
    fn of(database: &Database, known: &'a BTreeMap<ResourceId, Resource>) -> Self {
        let created = |change: &&Change| change.entries.iter().any(|e| e.action == Action::Created);
        Self { known, fresh: database.history.iter().filter(created).map(|c| c.resource).collect() }
    }

    fn place(&self, id: ResourceId) -> ResourceId {
        let place = self.fresh.iter().position(|fresh| *fresh == id).map_or(0, |i| i as u128 + 1);
        if self.known.contains_key(&id) { id } else { uuid::Uuid::from_u128(place).into() }
    }

    fn places(&self, ids: &[ResourceId]) -> Vec<ResourceId> {
        ids.iter().map(|id| self.place(*id)).collect()
    }

    fn contents(&self, database: &Database) -> (Vec<Resource>, Vec<Change>, i64) {
        let rows = database.rows.values().cloned();
        let rows = rows.map(|row| Resource { id: self.place(row.id), ..row }).collect();
        let mut history = database.history.clone();
        for change in &mut history {
            change.resource = self.place(change.resource);
            for entry in &mut change.entries {
                entry.removed = self.places(&entry.removed);
            }
        }
        (rows, history, database.version.0)
    }

    fn answer(&self, answer: &Result<Outcome, Error>) -> Result<Outcome, &'static str> {
        let resource = shown(answer.as_ref().map_err(Error::code)?).clone();
        Ok(Outcome::Resource(Box::new(Resource { id: self.place(resource.id), ..resource })))
    }
}
