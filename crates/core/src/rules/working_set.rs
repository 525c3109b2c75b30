//! The part of the store that a batch of commands works on, in memory. Decisions are applied to
//! it one after the other, so each command sees what the ones before it did.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::by_adapter::ByAdapter;
use super::dossier::Dossier;
use super::facts::Standings;
use super::{Answered, Decision, Fate, Reported};
use crate::{
    Caller, Catalog, Change, Error, ErrorKind, Fault, FaultKind, Fingerprint, IdMap, IdSet, KeptAnswer,
    MappingFailure, Place, References, Report, Resource, ResourceId, Retry, Snapshot, Standing, Timestamp,
    Undo, Version,
};

/// Loaded rows, and what has become of them.
#[derive(Debug, Default)]
pub struct WorkingSet {
    resources: IdMap<Arc<Resource>>,
    children: IdMap<BTreeSet<ResourceId>>,
    child_counts: IdMap<BTreeMap<Arc<str>, usize>>,
    names: HashMap<(Arc<str>, Place, String), ResourceId>,
    referrers: IdMap<BTreeSet<ResourceId>>,
    standings: IdMap<Standings>,
    reports: IdMap<ByAdapter<Report>>,
    light: IdSet,
    /// Those of which no report is missing.
    fully_reported: IdSet,
    /// The state before the batch of every resource that a decision touched; `None` = was not there.
    before: BTreeMap<ResourceId, Option<Arc<Resource>>>,
    /// The same of every report that was taken in.
    reported: BTreeMap<(ResourceId, Arc<str>), Option<Report>>,
    changes: Vec<Change>,
    answers: HashMap<Fingerprint, KeptAnswer>,
    new_answers: Vec<Fingerprint>,
    left_out: Vec<LeftOut>,
    version: Version,
}

/// What a command came to, once it is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The resource as it is now, or as it was when it went.
    Resource(Box<Resource>),
    /// What became of a report.
    Report(Subject, Reported),
    /// It is done.
    Done,
    /// The resource that the same request was answered with before.
    Again(Box<Resource>),
}

/// The resource that something is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its kind.
    pub kind: Arc<str>,
    /// Its id.
    pub id: ResourceId,
}

impl Subject {
    /// What is about `resource`.
    pub fn of(resource: &Resource) -> Self {
        Self { kind: resource.kind.clone(), id: resource.id }
    }
}

/// A mapped condition that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Of which resource.
    pub subject: Subject,
    /// Which condition, and why.
    pub failure: MappingFailure,
}

impl WorkingSet {
    /// An empty set at the store's newest version.
    pub fn new(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// An empty set with room for what is remembered of so many resources.
    pub fn with_room(version: Version, resources: usize) -> Self {
        let mut set = Self::new(version);
        set.resources.reserve(resources);
        set.standings.reserve(resources);
        set.reports.reserve(resources);
        set
    }

    /// Takes in a resource whose spec and references were left out. One that is there whole stays so.
    pub fn load_light(&mut self, resource: impl Into<Arc<Resource>>) {
        let resource = resource.into();
        let id = resource.id;
        if !self.resources.contains_key(&id) {
            self.load(resource);
            self.light.insert(id);
        }
    }

    /// Takes a whole resource in.
    pub fn load(&mut self, resource: impl Into<Arc<Resource>>) {
        let resource = resource.into();
        self.light.remove(&resource.id);
        if let Some(owner) = resource.owner() {
            self.children.entry(owner).or_default().insert(resource.id);
        }
        self.resources.insert(resource.id, resource);
    }

    /// Takes in how many children of a kind an owner has, loaded or not.
    pub fn load_child_count(&mut self, owner: ResourceId, kind: Arc<str>, count: usize) {
        self.child_counts.entry(owner).or_default().insert(kind, count);
    }

    /// Takes in who holds an active name.
    pub fn load_name(&mut self, kind: Arc<str>, place: Place, name: String, holder: ResourceId) {
        self.names.insert((kind, place, name), holder);
    }

    /// Takes in that `source` refers to `target`.
    pub fn load_referrer(&mut self, target: ResourceId, source: ResourceId) {
        self.referrers.entry(target).or_default().insert(source);
    }

    /// Takes in where an adapter stands.
    pub fn load_standing(&mut self, resource: ResourceId, standing: Standing) {
        self.standings.entry(resource).or_default().insert(standing);
    }

    /// Takes a stored report in.
    pub fn load_report(&mut self, resource: ResourceId, report: Report) {
        self.load_standing(resource, report.standing());
        self.reports.entry(resource).or_default().insert(report);
    }

    /// Takes in what was answered before.
    pub fn load_answer(&mut self, key: Fingerprint, answer: KeptAnswer) {
        self.answers.insert(key, answer);
    }

    /// What was answered to this request, if it came before. Whether the caller may still be told is another question.
    pub(super) fn answered(&self, catalog: &Catalog, retry: &Retry) -> Option<Result<Resource, Error>> {
        let kept = self.answers.get(&retry.key)?;
        if kept.body != retry.body {
            let message = "Idempotency-Key was used for a request with another body";
            let fault = Fault::new(FaultKind::Value, "Idempotency-Key", message).rule("unique");
            return Some(Err(Error::new(ErrorKind::Unprocessable, message).with_faults(vec![fault])));
        }
        kept.answer.as_ref().clone().into_resource(catalog).map(Ok)
    }

    /// Keeps what is answered to a request that may come again.
    pub fn keep_answer(&mut self, retry: &Retry, outcome: &Outcome, at: Timestamp) {
        if let Outcome::Resource(resource) = outcome {
            let answer = Box::new(Snapshot::of(resource));
            self.answers.insert(retry.key, KeptAnswer { body: retry.body, at, answer });
            self.new_answers.push(retry.key);
        }
    }

    /// The answers to keep.
    pub fn new_answers(&self) -> impl Iterator<Item = (&Fingerprint, &KeptAnswer)> {
        self.new_answers.iter().filter_map(|key| Some((key, self.answers.get(key)?)))
    }

    /// Takes in what is remembered of a resource.
    pub fn load_dossier(&mut self, dossier: Dossier) {
        let id = dossier.resource.id;
        match dossier.is_whole {
            true => self.load(dossier.resource),
            false => self.load_light(dossier.resource),
        }
        if dossier.has_all_reports {
            self.fully_reported.insert(id);
        }
        self.standings.entry(id).or_default().merge(dossier.standings);
        self.reports.entry(id).or_default().merge(dossier.reports);
    }

    /// Takes out what is worth remembering of an active resource.
    pub fn take_dossier(&mut self, id: ResourceId) -> Option<Dossier> {
        let resource = self.resources.remove(&id).filter(|resource| resource.is_active())?;
        let is_new = matches!(self.before.get(&id), Some(None));
        Some(Dossier {
            resource,
            is_whole: !self.is_light(id),
            has_all_reports: is_new || self.fully_reported.contains(&id),
            standings: self.standings.remove(&id).unwrap_or_default(),
            reports: self.reports.remove(&id).unwrap_or_default(),
        })
    }

    /// Whether the wish of a resource was not loaded, so that its wide row must not be written.
    pub fn is_light(&self, id: ResourceId) -> bool {
        self.light.contains(&id)
    }

    /// The kind of a loaded resource.
    pub fn kind_of(&self, id: ResourceId) -> Option<&str> {
        self.resources.get(&id).map(|resource| &*resource.kind)
    }

    /// Every loaded resource.
    pub fn loaded(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values().map(Arc::as_ref)
    }

    /// The stored report of an adapter, if it was asked for.
    pub(super) fn report(&self, resource: ResourceId, adapter: &str) -> Option<&Report> {
        self.reports.get(&resource)?.get(adapter)
    }

    /// The loaded reports on a resource, by adapter.
    pub(super) fn reports(&self, resource: ResourceId) -> impl Iterator<Item = &Report> {
        self.reports.get(&resource).into_iter().flat_map(ByAdapter::iter)
    }

    /// Where the adapters of a resource stand.
    pub(super) fn standings(&self, resource: ResourceId) -> &Standings {
        static NONE: Standings = Standings::new();
        self.standings.get(&resource).unwrap_or(&NONE)
    }

    /// The resource with this id, if it exists.
    pub(super) fn get(&self, id: &str) -> Option<&Resource> {
        self.by_id(ResourceId::parse(id)?)
    }

    pub(super) fn by_id(&self, id: ResourceId) -> Option<&Resource> {
        self.resources.get(&id).map(Arc::as_ref)
    }

    /// The loaded children of a resource; complete below a tree that [`super::Needs`] named.
    pub(super) fn children(&self, owner: ResourceId) -> impl Iterator<Item = &Resource> {
        self.children.get(&owner).into_iter().flatten().filter_map(|id| self.by_id(*id))
    }

    /// How many children of each kind a resource has, loaded or not.
    pub(super) fn child_counts(&self, owner: ResourceId) -> BTreeMap<Arc<str>, usize> {
        self.child_counts.get(&owner).cloned().unwrap_or_default()
    }

    /// Who holds an active name.
    pub(super) fn holder(&self, kind: &Arc<str>, place: &Place, name: &str) -> Option<ResourceId> {
        self.names.get(&(kind.clone(), place.clone(), name.to_owned())).copied()
    }

    /// The resources that refer to `target`.
    pub(super) fn referrers(&self, target: ResourceId) -> impl Iterator<Item = &Resource> {
        self.referrers.get(&target).into_iter().flatten().filter_map(|id| self.by_id(*id))
    }

    /// How many resources refer to `target` that cannot be seen, because their kind is not configured.
    pub(super) fn hidden_referrers(&self, target: ResourceId) -> usize {
        let sources = self.referrers.get(&target).into_iter().flatten();
        sources.filter(|id| !self.resources.contains_key(id)).count()
    }

    /// Applies a decision: every changed resource gets the next version, and a change row.
    pub fn apply(&mut self, decision: Decision, caller: &Caller, now: Timestamp) -> Outcome {
        let mut written = Vec::with_capacity(decision.writes.len());
        for write in decision.writes {
            let subject = Subject::of(&write.resource);
            let left_out = |failure| LeftOut { subject: subject.clone(), failure };
            self.left_out.extend(write.failures.into_iter().map(left_out));
            if write.fate == Fate::Touched {
                let resource = Arc::new(write.resource);
                let before = self.resources.insert(resource.id, resource.clone());
                self.before.entry(resource.id).or_insert(before);
                written.push(resource);
                continue;
            }
            self.version = self.version.next();
            let resource = Arc::new(Resource { version: self.version, ..write.resource });
            let before = self.resources.get(&resource.id);
            let goes = write.fate == Fate::Removed;
            self.changes.push(Change {
                undo: before.map(|before| Undo::between(before, &resource)),
                last: goes.then(|| Box::new(Snapshot::of(&resource))),
                version: self.version,
                resource: resource.id,
                kind: resource.kind.clone(),
                tenancy: resource.tenancy.clone(),
                at: now,
                actor: caller.actor.clone(),
                request_id: caller.request_id.clone(),
                entries: write.entries,
            });
            self.forget(resource.id);
            if goes {
                self.children.remove(&resource.id);
                self.standings.remove(&resource.id);
                self.reports.remove(&resource.id);
            } else {
                self.put(resource.clone());
            }
            written.push(resource);
        }
        if let Some((id, report)) = decision.report.filter(|(id, _)| self.resources.contains_key(id)) {
            self.standings.entry(id).or_default().insert(report.standing());
            let key = (id, report.adapter.clone());
            let before = self.reports.entry(id).or_default().insert(report);
            self.reported.entry(key).or_insert(before);
        }
        outcome(decision.answer, |index| Arc::unwrap_or_clone(written.swap_remove(index)))
    }

    /// What the answer would be, with the versions it would get, without applying anything.
    pub fn rehearse(&self, mut decision: Decision) -> Outcome {
        outcome(decision.answer, |index| {
            let version = Version(self.version.0 + 1 + index as i64);
            Resource { version, ..decision.writes.swap_remove(index).resource }
        })
    }

    /// The newest version after all that was applied.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The change rows to write, in version order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The mapped conditions that were left out.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Whether there is nothing to persist.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && self.before.is_empty() && self.reported.is_empty()
    }

    /// Every report that was taken in and whose resource is still there: its state before the batch and now.
    pub fn report_differences(&self) -> impl Iterator<Item = (ResourceId, Option<&Report>, &Report)> {
        self.reported.iter().filter_map(|((id, adapter), before)| {
            let after = self.reports.get(id)?.get(adapter)?;
            Some((*id, before.as_ref(), after))
        })
    }

    /// Every touched resource that is not what it was: its state before the batch and its state now.
    pub fn differences(&self) -> impl Iterator<Item = (ResourceId, Option<&Resource>, Option<&Resource>)> {
        self.before_and_after().filter(|(_, before, after)| before != after)
    }

    /// Every touched resource: its state before the batch and its state now, which may be the same.
    pub fn before_and_after(
        &self,
    ) -> impl Iterator<Item = (ResourceId, Option<&Resource>, Option<&Resource>)> {
        self.before.iter().map(|(id, before)| (*id, before.as_deref(), self.by_id(*id)))
    }

    /// Every touched resource, with its state now if it was loaded whole and is still there.
    pub fn touched(&self) -> impl Iterator<Item = (ResourceId, Option<&Arc<Resource>>)> {
        self.before.keys().map(|id| (*id, self.resources.get(id).filter(|_| !self.is_light(*id))))
    }

    /// Takes a resource out of every index and remembers how it was before the batch.
    fn forget(&mut self, id: ResourceId) {
        let old = self.resources.remove(&id);
        if let Some(old) = &old {
            if let Some(owner) = old.owner() {
                self.children.entry(owner).or_default().remove(&id);
                if let Some(count) = self.child_counts.entry(owner).or_default().get_mut(&old.kind) {
                    *count = count.saturating_sub(1);
                }
            }
            if old.is_active() {
                self.names.remove(&(old.kind.clone(), old.place(), old.name.clone()));
            }
            for target in targets(old) {
                self.referrers.entry(target).or_default().remove(&id);
            }
        }
        self.before.entry(id).or_insert(old);
    }

    fn put(&mut self, resource: Arc<Resource>) {
        if let Some(owner) = resource.owner() {
            self.children.entry(owner).or_default().insert(resource.id);
            *self.child_counts.entry(owner).or_default().entry(resource.kind.clone()).or_default() += 1;
        }
        if resource.is_active() {
            self.names.insert((resource.kind.clone(), resource.place(), resource.name.clone()), resource.id);
        }
        for target in targets(&resource) {
            self.referrers.entry(target).or_default().insert(resource.id);
        }
        self.resources.insert(resource.id, resource);
    }
}

fn outcome(answer: Answered, written: impl FnOnce(usize) -> Resource) -> Outcome {
    match answer {
        Answered::Write(index) => Outcome::Resource(Box::new(written(index))),
        Answered::Unchanged(resource) => Outcome::Resource(resource),
        Answered::Report(subject, reported) => Outcome::Report(subject, reported),
        Answered::Nothing => Outcome::Done,
    }
}

/// The ids that a resource refers to.
fn targets(resource: &Resource) -> Vec<ResourceId> {
    if resource.references.as_str() == "{}" {
        return Vec::new();
    }
    resource.references.parse::<References>().map(|r| r.into_values().flatten().collect()).unwrap_or_default()
}
