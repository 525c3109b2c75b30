//! The rules on the strict store and the model beside each other, compared after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hyperfleet_core::rules::{Outcome, Reported, Rulebook};
use hyperfleet_core::{Action, Command, Error, ErrorKind, Report, Resource, ResourceId, Timestamp};
use hyperfleet_testkit::model::{
    Expected, Learned, Model, Operation, ReportRule, Request, Slot, check_invariants, mismatches,
};
use serde_json::Value;

use super::older::Older;
use super::recompute;
use super::translate::command;
use crate::database::Database;

pub(super) struct World {
    database: Database,
    /// The same with the older conditions.
    older: Option<Older>,
    model: Model,
    seconds: i64,
}

impl World {
    pub(super) fn new(rulebook: Rulebook, model: Model) -> Self {
        let database = Database::new(Arc::new(rulebook));
        Self { database, older: None, model: model.without_lag(), seconds: 1_800_000_000 }
    }

    /// The same beside a store with the older conditions.
    pub(super) fn beside(older: Older, rulebook: Rulebook, model: Model) -> Self {
        Self { older: Some(older), ..Self::new(rulebook, model) }
    }

    fn tick(&mut self) -> Timestamp {
        self.seconds += 1;
        Timestamp::from_micros(self.seconds * 1_000_000)
    }

    /// Does the operations one by one, and at the same moment together in one commit.
    pub(super) fn live_through(&mut self, batch: &[Operation]) {
        let now = self.tick();
        let mut together = self.database.clone();
        let (mut commands, mut alone) = (Vec::new(), Vec::new());
        for operation in batch {
            let Some(request) = self.model.resolve(operation) else { continue };
            let id = ResourceId::generate();
            let nested = commands.len() % 2 == 1 || self.model.made().is_multiple_of(2);
            let command = command(self.model.kinds(), &request, id, nested);
            let learned = Learned { id: Some(id.to_string()), time: Some(now.utc()) };
            let expected = self.model.apply(&request, &learned);
            let Some(command) = command else {
                assert_eq!(expected.status, 400, "{request:#?}");
                continue;
            };
            alone.push(self.live(&request, &command, &expected, now));
            commands.push(command);
        }
        let shared = together.run(&commands, now);
        let told = |answers: &[Result<Outcome, Error>]| -> Vec<_> {
            let words = |error: &Error| (error.code(), error.detail.clone());
            answers.iter().map(|answer| answer.as_ref().map_err(words).cloned()).collect()
        };
        assert_eq!(told(&shared), told(&alone), "answers to {commands:#?}");
        assert_same(&together, &self.database);
        if commands.len() > 1 {
            together.check_past();
        }
        if let Some(older) = &mut self.older {
            let codes = |answers: &[Result<Outcome, Error>]| -> Vec<_> {
                answers.iter().map(|answer| answer.as_ref().err().map(Error::code)).collect()
            };
            assert_eq!(codes(&older.run(&commands, now)), codes(&alone));
            older.check(&self.database, now);
        }
    }

    /// One command, alone in its commit.
    fn live(
        &mut self,
        request: &Request,
        command: &Command,
        expected: &Expected,
        now: Timestamp,
    ) -> Result<Outcome, Error> {
        let before = self.database.clone();
        let rehearsal = Command { dry_run: true, ..command.clone() };
        let rehearsed = self.database.run(&[rehearsal], now).remove(0);
        assert_same(&self.database, &before);
        let answer = self.database.run(std::slice::from_ref(command), now).remove(0);
        assert_eq!(rehearsed.as_ref().map_err(Error::code), answer.as_ref().map_err(Error::code));

        self.check_answer(&answer, expected, request);
        self.check_contents(request);
        self.check_writes(&before, &expected.changed, &expected.removed);
        self.check_fixpoint(now);
        answer
    }

    /// All that was can be read again.
    pub(super) fn check_past(&self) {
        self.database.check_past();
    }

    /// A restart with other required adapters. Resources are computed anew in small commands, kind by kind.
    pub(super) fn restart(&mut self, kind: usize, adapters: &[&str]) {
        let now = self.tick();
        let name = self.model.kinds().all()[kind].name.clone();
        let kinds = self.model.kinds().clone().with_required_adapters(&name, adapters);
        self.model.reconfigure(kinds.clone());
        self.database.rulebook = Arc::new(super::rulebook(&kinds, false));
        if let Some(older) = &mut self.older {
            older.restart(super::rulebook(&kinds, true));
        }
        let all: Vec<ResourceId> = self.database.rows.keys().copied().collect();
        for ids in all.chunks(1 + all.len() / 3) {
            let history = self.database.history.len();
            let recompute = [recompute(ids.to_vec())];
            assert_eq!(self.database.run(&recompute, now).remove(0).unwrap(), Outcome::Done);
            if let Some(older) = &mut self.older {
                assert_eq!(older.run(&recompute, now).remove(0).unwrap(), Outcome::Done);
            }
            let mut written = BTreeSet::new();
            for change in &self.database.history[history..] {
                assert!(written.insert(change.resource), "each is written once");
            }
        }
        self.check_contents(&adapters);
        self.check_fixpoint(now);
    }

    /// Status and body of the answer.
    fn check_answer(&self, answer: &Result<Outcome, Error>, expected: &Expected, request: &Request) {
        let status = match answer {
            Ok(Outcome::Report(_, Reported::Stored(report) | Reported::Unchanged(report))) => {
                let shown = expected.answer.as_ref().unwrap();
                assert_eq!(&shown_report(report), shown, "{request:#?}");
                201
            }
            Ok(Outcome::Report(_, _)) => 204,
            Ok(Outcome::Resource(resource)) => {
                if let Some(shown) = &expected.answer {
                    assert_eq!(mismatches(&specified(shown), &self.shown(resource)), [""; 0], "{request:#?}");
                }
                expected.status
            }
            Ok(Outcome::Done | Outcome::Replayed(_) | Outcome::SpecToCheck(..)) => {
                panic!("not an outcome of this request: {request:#?}")
            }
            Err(error) => match error.kind {
                ErrorKind::Invalid => 400,
                ErrorKind::NotFound { .. } => 404,
                ErrorKind::StateConflict | ErrorKind::AlreadyExists => 409,
                _ => panic!("{error:?} for {request:#?}"),
            },
        };
        assert_eq!(status, expected.status, "{answer:?} for {request:#?}");
        assert_eq!(answer.is_ok(), expected.status < 300, "{request:#?}");
        let Ok(Outcome::Report(_, reported)) = answer else { return };
        let moved_times_alone = expected.changed.is_empty() && expected.removed.is_empty();
        let row = expected.rule.unwrap();
        let fits = match reported {
            Reported::Stored(_) => !moved_times_alone,
            Reported::Unchanged(_) => moved_times_alone,
            Reported::FutureGeneration => row == ReportRule::FutureGeneration,
            Reported::Stale => matches!(row, ReportRule::OlderGeneration | ReportRule::OlderTime),
            Reported::Unknown => row == ReportRule::UnknownAgain,
        };
        assert!(fits, "{reported:?} by row {row:?} for {request:#?}");
    }

    /// Both sides hold the same resources and reports.
    fn check_contents(&self, why: &dyn std::fmt::Debug) {
        let views = self.model.resources();
        let expected: BTreeSet<&str> = views.iter().map(|view| view.id.as_str()).collect();
        let ids: Vec<String> = self.database.rows.keys().map(ToString::to_string).collect();
        assert_eq!(
            ids.iter().map(String::as_str).collect::<BTreeSet<_>>(),
            expected,
            "what exists, after {why:#?}"
        );
        let (mut documents, mut statuses) = (Vec::new(), BTreeMap::new());
        for view in &views {
            let row = &self.database.rows[&ResourceId::parse(&view.id).unwrap()];
            let document = self.shown(row);
            assert_eq!(mismatches(&specified(&view.document), &document), [""; 0], "after {why:#?}");
            if !self.database.rulebook.legacy_conditions {
                assert_eq!(document["status"]["conditions"], view.conditions, "after {why:#?}");
            }
            let reports: Vec<Value> = self.database.reports_on(row.id).map(shown_report).collect();
            assert_eq!(reports, view.statuses, "reports after {why:#?}");
            documents.push(document);
            statuses.insert(view.id.clone(), reports);
        }
        assert_eq!(
            self.database.reports.len(),
            statuses.values().map(Vec::len).sum::<usize>(),
            "no report is left over"
        );
        assert_eq!(check_invariants(self.model.kinds(), &documents, &statuses), [""; 0], "after {why:#?}");
    }

    /// A version and a change row for each changed or removed resource and for nothing else; what goes, goes after
    /// what it owns.
    fn check_writes(&self, before: &Database, changed: &[Slot], removed: &[Slot]) {
        let ids = |slots: &[Slot]| -> BTreeSet<String> {
            slots.iter().map(|slot| self.model.id(*slot).unwrap().to_owned()).collect()
        };
        let rows = &self.database.history[before.history.len()..];
        let told: BTreeSet<String> = rows.iter().map(|change| change.resource.to_string()).collect();
        assert_eq!(told, &ids(changed) | &ids(removed), "a change row for each change: {rows:#?}");
        for (change, version) in rows.iter().zip(before.version.0 + 1..) {
            assert_eq!(change.version.0, version, "versions without gaps");
            if let Some(row) = self.database.rows.get(&change.resource) {
                assert_eq!(row.version, change.version, "the last write is the version");
            }
            let ends = |action| matches!(action, Action::Deleted | Action::ForceDeleted);
            let ended = change.entries.iter().any(|entry| ends(entry.action));
            assert_eq!(ended, !self.database.rows.contains_key(&change.resource), "{change:#?}");
        }
        assert_eq!(self.database.version.0, before.version.0 + rows.len() as i64);
        let place = |id: ResourceId| rows.iter().position(|change| change.resource == id);
        for (owned, owner) in
            before.rows.values().filter_map(|row| Some((place(row.id)?, place(row.owner()?)?)))
        {
            assert!(owned < owner, "children before their owners: {rows:#?}");
        }
        for row in self.database.rows.values().filter(|row| !told.contains(&row.id.to_string())) {
            let old = &before.rows[&row.id];
            assert_eq!(row.version, old.version);
            assert!(
                row.same_desired_state(old) && row.pending_since == old.pending_since,
                "nothing else moves"
            );
        }
    }

    /// Conditions follow from what is stored: computing them anew changes nothing.
    fn check_fixpoint(&self, now: Timestamp) {
        let mut again = self.database.clone();
        again.run(&[recompute(self.database.rows.keys().copied().collect())], now).remove(0).unwrap();
        assert_same(&again, &self.database);
        self.database.check_computed();
    }

    /// A resource as the API shows it, without who did it, which the model does not know.
    fn shown(&self, resource: &Resource) -> Value {
        let mut text = Vec::new();
        self.database.rulebook.view().write(&mut text, resource, None).unwrap();
        let mut document: Value = serde_json::from_slice(&text).unwrap();
        document.as_object_mut().unwrap().retain(|member, _| !member.ends_with("_by"));
        document
    }
}

/// What the contract says of a resource: not why `Ready` is False once something has happened.
fn specified(document: &Value) -> Value {
    let mut document = document.clone();
    let conditions = document["status"]["conditions"].as_array_mut().unwrap();
    for ready in conditions.iter_mut().filter(|c| c["type"] == "Ready" && c["status"] == "False") {
        ready.as_object_mut().unwrap().retain(|member, _| member != "reason" && member != "message");
    }
    document
}

fn shown_report(report: &Report) -> Value {
    let mut shown = Vec::new();
    report.write(&mut shown).unwrap();
    serde_json::from_slice(&shown).unwrap()
}

fn assert_same(left: &Database, right: &Database) {
    assert_eq!(left.rows, right.rows);
    assert_eq!(left.reports, right.reports);
    assert_eq!(left.version, right.version);
    assert_eq!(left.history, right.history);
}
