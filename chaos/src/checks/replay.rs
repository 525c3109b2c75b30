//! Replays the feed through a model of the operations. Each change must be what exactly one operation makes of the state
//! before it, which excludes lost updates and writes that nobody asked for.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Check, Evidence, Findings};
use crate::feed::{Change, Labels, Spec};
use crate::history::{Action, EventKind, Operation, OperationId};

/// What the feed tells about operations and resources.
#[derive(Debug, Default)]
pub(super) struct Replay<'a> {
    /// The version at which each operation was executed.
    pub(super) executed: HashMap<OperationId, u64>,
    /// The resource that each creation made.
    pub(super) created: HashMap<OperationId, Uuid>,
    /// The version at which each deletion was requested, of children that go with their owner too.
    pub(super) deletions: HashMap<Uuid, u64>,
    /// The last change of each resource.
    pub(super) last: HashMap<Uuid, &'a Change>,
}

struct Replayer<'a, 'f> {
    base: u64,
    operations: HashMap<OperationId, &'a Operation>,
    /// Deletions that somebody asked for.
    asked: HashMap<Uuid, &'a Operation>,
    replay: Replay<'a>,
    findings: &'f mut Findings,
}

pub(super) fn replay<'a>(evidence: &'a Evidence, findings: &mut Findings) -> Replay<'a> {
    let operations = &evidence.history.operations;
    let deletions = operations.iter().filter(|operation| operation.action == Action::Delete);
    let mut replayer = Replayer {
        base: evidence.base,
        operations: operations.iter().map(|operation| (operation.id, operation)).collect(),
        asked: deletions.filter_map(|operation| Some((operation.resource?, operation))).collect(),
        replay: Replay::default(),
        findings,
    };
    let mut previous = 0;
    for change in &evidence.feed {
        if change.version != previous + 1 {
            let version = change.version;
            replayer.fail(Check::Feed, change, || format!("version {version} follows {previous}"));
        }
        previous = change.version;
        replayer.step(change);
    }
    replayer.replay
}

impl<'a> Replayer<'a, '_> {
    fn fail(&mut self, check: Check, change: &Change, what: impl FnOnce() -> String) {
        self.findings.add(check, || format!("{} at version {}: {}", change.resource, change.version, what()));
    }

    fn step(&mut self, change: &'a Change) {
        let before = self.replay.last.insert(change.resource, change);
        if change.version <= self.base {
            return;
        }
        match (change.kind, before) {
            (EventKind::Added, None) => self.added(change),
            (EventKind::Modified, Some(before)) if before.kind != EventKind::Deleted => {
                self.modified(before, change);
            }
            (EventKind::Deleted, Some(before)) if before.kind != EventKind::Deleted => {
                if !before.is_finalizing {
                    self.fail(Check::Feed, change, || "it is gone, and nobody requested it".to_owned());
                }
            }
            (kind, before) => {
                let before = before.map(|before| before.kind);
                self.fail(Check::Feed, change, || format!("{kind:?} after {before:?}"));
            }
        }
    }

    fn added(&mut self, change: &'a Change) {
        match change.spec.by.and_then(|id| self.operations.get(&id)) {
            Some(operation) if operation.action == Action::Create => {
                let id = operation.id;
                if self.executed(id, change, Check::Keys) {
                    self.replay.created.insert(id, change.resource);
                }
                let expected = Spec { by: Some(id), ..Spec::default() };
                if *change.spec != expected || change.labels != Labels::default() || change.generation != 1 {
                    self.fail(Check::Updates, change, || format!("created by {id} as {change:?}"));
                }
            }
            _ => self.fail(Check::Writes, change, || format!("nobody created {:?}", change.spec)),
        }
    }

    fn modified(&mut self, before: &Change, change: &'a Change) {
        let is_spec_new = change.spec != before.spec;
        let is_deletion = change.is_finalizing && !before.is_finalizing;
        if is_spec_new {
            self.respecified(before, change);
        }
        if change.labels != before.labels {
            self.labelled(before, change);
        }
        if before.is_finalizing && (is_spec_new || change.labels != before.labels) {
            self.fail(Check::Feed, change, || "a finalizing resource was changed".to_owned());
        }
        if before.is_finalizing && !change.is_finalizing {
            self.fail(Check::Feed, change, || "its deletion was taken back".to_owned());
        }
        if is_deletion {
            let asked = [Some(change.resource), change.owner].into_iter().flatten();
            if !asked.into_iter().any(|id| self.asked.contains_key(&id)) {
                self.fail(Check::Writes, change, || "nobody requested its deletion".to_owned());
            }
            self.replay.deletions.insert(change.resource, change.version);
        }
        let steps = u64::from(is_spec_new) + u64::from(is_deletion);
        if change.generation != before.generation + steps {
            let (from, to) = (before.generation, change.generation);
            self.fail(Check::Feed, change, || format!("generation {from} became {to}, not {}", from + steps));
        }
    }

    fn respecified(&mut self, before: &Change, change: &'a Change) {
        let Some(operation) = self.author(change.spec.by, before.spec.by, change) else { return };
        let mut expected = Spec::clone(&before.spec);
        expected.by = Some(operation.id);
        match operation.action {
            Action::Increment { to } => {
                expected.count += 1;
                if to != expected.count {
                    let (id, lost) = (operation.id, before.spec.count);
                    self.fail(Check::Updates, change, || format!("{id} set {to} on top of {lost}"));
                }
            }
            Action::Mark => drop(expected.marks.insert(operation.id.client, operation.id.number)),
            action => self.fail(Check::Updates, change, || format!("{action:?} changed the spec")),
        }
        if *change.spec != expected {
            let id = operation.id;
            self.fail(Check::Updates, change, || {
                format!("{id} made {:?} of {:?}, not {expected:?}", change.spec, before.spec)
            });
        }
    }

    fn labelled(&mut self, before: &Change, change: &'a Change) {
        let Some(operation) = self.author(change.labels.by, before.labels.by, change) else { return };
        if operation.action != change.labels.tone.map_or(Action::Delete, Action::Label) {
            let (id, labels) = (operation.id, change.labels);
            self.fail(Check::Updates, change, || format!("{id} made {labels:?}"));
        }
    }

    /// The operation that made a change, which must be a new one and on this resource.
    fn author(
        &mut self,
        by: Option<OperationId>,
        before: Option<OperationId>,
        change: &'a Change,
    ) -> Option<&'a Operation> {
        let found = by.filter(|by| Some(*by) != before).and_then(|by| self.operations.get(&by).copied());
        match found {
            Some(operation) if operation.resource == Some(change.resource) => {
                self.executed(operation.id, change, Check::Writes);
                Some(operation)
            }
            _ => {
                self.fail(Check::Writes, change, || format!("no operation explains it, it names {by:?}"));
                None
            }
        }
    }

    /// Notes the execution of an operation. Whether it is the first.
    fn executed(&mut self, id: OperationId, change: &'a Change, check: Check) -> bool {
        let first = *self.replay.executed.entry(id).or_insert(change.version);
        if first != change.version {
            self.fail(check, change, || format!("{id} was executed at version {first} before"));
        }
        first == change.version
    }
}
