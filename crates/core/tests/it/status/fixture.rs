//! A store of a few kinds on which a story is played. Every command is rehearsed first: a rehearsal must foretell
//! the answer and leave nothing behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyperfleet_core::rules::{Outcome, ReportLimits, Reported, Rulebook};
use hyperfleet_core::{
    AccessScope, Action, Caller, Catalog, Change, Command, Contract, Create, Delete, EntityDescriptor, Error,
    ForceDelete, Intent, Patch, PatchBody, Report, Resource, ResourceId, ResourcePath, SpecSchemas,
    SubmitReport, Timestamp, Version,
};
use serde_json::{Value, json};

use super::test_report::TestReport;
use crate::database::Database;

/// The moment so many seconds after the beginning.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_micros((1_800_000_000 + second) * 1_000_000)
}

/// A kind without an owner.
pub(super) fn kind(name: &str, adapters: &[&str]) -> EntityDescriptor {
    EntityDescriptor {
        kind: name.to_owned(),
        plural: format!("{}s", name.to_lowercase()),
        required_adapters: adapters.iter().map(|&adapter| adapter.to_owned()).collect(),
        ..EntityDescriptor::default()
    }
}

/// A kind below another; `policy` is `cascade` or `restrict`.
pub(super) fn child(name: &str, parent: &str, policy: &str, adapters: &[&str]) -> EntityDescriptor {
    EntityDescriptor {
        parent_kind: Some(parent.to_owned()),
        on_parent_delete: Some(policy.to_owned()),
        ..kind(name, adapters)
    }
}

/// Rules over these kinds.
pub(super) fn rulebook(kinds: &[EntityDescriptor]) -> Rulebook {
    let catalog = Arc::new(Catalog::new(kinds.to_vec()).unwrap());
    Rulebook {
        catalog,
        schemas: SpecSchemas::default(),
        max_member_bytes: 1 << 20,
        report_limits: ReportLimits::default(),
        contract: Contract::Documented,
        legacy_conditions: false,
        tenancy: false,
        href_prefix: "/api/hyperfleet/v1",
    }
}

/// Everything that is stored.
type Contents = (BTreeMap<ResourceId, Resource>, Vec<Report>, Version, Vec<Change>);

pub(super) struct Fixture {
    pub(super) database: Database,
}

impl Fixture {
    pub(super) fn new(kinds: &[EntityDescriptor]) -> Self {
        Self::by(rulebook(kinds))
    }

    pub(super) fn by(rulebook: Rulebook) -> Self {
        Self { database: Database::new(Arc::new(rulebook)) }
    }

    pub(super) fn contents(&self) -> Contents {
        let Database { rows, reports, version, history, .. } = &self.database;
        (rows.clone(), reports.values().cloned().collect(), *version, history.clone())
    }

    /// One command, alone in its commit, after its rehearsal.
    pub(super) fn run(&mut self, intent: Intent, second: i64) -> Result<Outcome, Error> {
        let caller = Caller {
            actor: "ann@example.com".to_owned(),
            request_id: "request".to_owned(),
            scope: AccessScope::everything(),
        };
        let command = Command { caller, dry_run: true, intent, idempotency: None };
        let before = self.contents();
        let rehearsed = self.database.run(std::slice::from_ref(&command), at(second)).remove(0);
        assert_eq!(self.contents(), before, "a rehearsal leaves nothing behind");
        let command = Command { dry_run: false, ..command };
        let real = self.database.run(&[command], at(second)).remove(0);
        let words = |error: &Error| (error.code(), error.detail.clone());
        assert_eq!(rehearsed.as_ref().map_err(words), real.as_ref().map_err(words), "it was foretold");
        if real.is_err() {
            assert_eq!(self.contents(), before, "a refusal leaves nothing behind");
        }
        real
    }

    /// A resource, named after its number.
    pub(super) fn create(&mut self, kind: &str, owner: Option<ResourceId>, second: i64) -> ResourceId {
        self.create_with(kind, owner, second, &json!({}))
    }

    /// The same with references: ref type → ids.
    pub(super) fn create_with(
        &mut self,
        kind: &str,
        owner: Option<ResourceId>,
        second: i64,
        references: &Value,
    ) -> ResourceId {
        let above = owner.map(|id| (self.row(id).kind.clone(), id.to_string()));
        let create = Create {
            id: ResourceId::generate(),
            kind: kind.into(),
            ancestors: above.into_iter().collect(),
            name: format!("n{}", self.database.version),
            spec: json!({"size": 1, "zone": "a"}),
            labels: [("tier".to_owned(), "gold".to_owned())].into(),
            references: serde_json::from_value(references.clone()).unwrap(),
        };
        let outcome = self.run(Intent::Create(create), second).unwrap();
        shown(outcome).id
    }

    /// A merge patch.
    pub(super) fn merge(&mut self, id: ResourceId, second: i64, body: &Value) -> Result<Resource, Error> {
        let Value::Object(members) = body.clone() else { panic!("a merge patch is an object") };
        let patch = Patch {
            target: target(id),
            expected: None,
            body: PatchBody::Merge(members).into(),
            checked: None,
        };
        self.run(Intent::Patch(patch), second).map(shown)
    }

    /// A new generation.
    pub(super) fn change(&mut self, id: ResourceId, second: i64) {
        let size = self.row(id).generation + 1;
        self.merge(id, second, &json!({"spec": {"size": size}})).unwrap();
    }

    /// A change that is no new generation.
    pub(super) fn label(&mut self, id: ResourceId, second: i64) {
        self.merge(id, second, &json!({"labels": {"seen": format!("at{second}")}})).unwrap();
    }

    pub(super) fn delete(&mut self, id: ResourceId, second: i64) -> Result<Resource, Error> {
        self.run(Intent::Delete(Delete { target: target(id), expected: None }), second).map(shown)
    }

    pub(super) fn force_delete(&mut self, id: ResourceId, second: i64) -> Result<Resource, Error> {
        let reason = "it hangs".to_owned();
        self.run(Intent::ForceDelete(ForceDelete { target: target(id), expected: None, reason }), second)
            .map(shown)
    }

    /// A report that arrives a second after the adapter looked.
    pub(super) fn report(&mut self, id: ResourceId, report: TestReport) -> Result<Reported, Error> {
        let observed = (report.0.observed_time.unwrap().micros() - at(0).micros()) / 1_000_000;
        self.report_at(id, report, observed + 1)
    }

    /// A report that arrives at `second`.
    pub(super) fn report_at(
        &mut self,
        id: ResourceId,
        report: TestReport,
        second: i64,
    ) -> Result<Reported, Error> {
        let kind = self.database.rows.get(&id).map(|row| row.kind.clone());
        let submit = SubmitReport { target: target(id), submission: report.0 };
        match self.run(Intent::Report(submit), second)? {
            Outcome::Report(subject, reported) => {
                assert_eq!((Some(subject.kind), subject.id), (kind, id), "the subject of the report");
                Ok(reported)
            }
            other => panic!("{other:?} is no answer to a report"),
        }
    }

    /// A report that says something new.
    pub(super) fn tell(&mut self, id: ResourceId, report: TestReport) -> Report {
        match self.report(id, report).unwrap() {
            Reported::Stored(report) => report,
            other => panic!("{other:?} instead of a stored report"),
        }
    }

    /// Other settings, as after a restart; conditions are still as they were.
    pub(super) fn reconfigure(&mut self, rulebook: Rulebook) {
        self.database.rulebook = Arc::new(rulebook);
    }

    pub(super) fn recompute(&mut self, ids: &[ResourceId], second: i64) {
        assert_eq!(self.run(Intent::Recompute(ids.to_vec()), second).unwrap(), Outcome::Done);
    }

    pub(super) fn row(&self, id: ResourceId) -> &Resource {
        &self.database.rows[&id]
    }

    pub(super) fn exists(&self, id: ResourceId) -> bool {
        self.database.rows.contains_key(&id)
    }

    /// The stored report of an adapter as the API shows it.
    pub(super) fn stored(&self, id: ResourceId, adapter: &str) -> Value {
        let Some(report) = self.database.reports.get(&(id, adapter.into())) else { return Value::Null };
        let mut shown = Vec::new();
        report.write(&mut shown).unwrap();
        serde_json::from_slice(&shown).unwrap()
    }

    pub(super) fn conditions(&self, id: ResourceId) -> Vec<Value> {
        self.row(id).conditions.parse().unwrap()
    }

    /// One condition; null when it is not there.
    pub(super) fn condition(&self, id: ResourceId, kind: &str) -> Value {
        self.conditions(id).into_iter().find(|c| c["type"] == *kind).unwrap_or_default()
    }

    /// The types of all conditions, in order.
    pub(super) fn types(&self, id: ResourceId) -> Vec<String> {
        self.conditions(id).iter().map(|c| c["type"].as_str().unwrap().to_owned()).collect()
    }

    /// What the last `count` changes did, in order.
    pub(super) fn last_changes(&self, count: usize) -> Vec<(ResourceId, Vec<Action>)> {
        let history = &self.database.history;
        let told = |change: &Change| change.entries.iter().map(|entry| entry.action).collect();
        history[history.len() - count..].iter().map(|change| (change.resource, told(change))).collect()
    }
}

/// The path of a resource of any kind.
pub(super) fn target(id: ResourceId) -> ResourcePath {
    ResourcePath { kind: None, id: id.to_string(), ancestors: Vec::new() }
}

fn shown(outcome: Outcome) -> Resource {
    match outcome {
        Outcome::Resource(resource) => *resource,
        other => panic!("{other:?} shows no resource"),
    }
}
