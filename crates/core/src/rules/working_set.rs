//! The rows that a batch of commands works on, in memory. Decisions are applied one after the other, so each command
//! sees the effects of the commands before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::by_adapter::ByAdapter;
use super::facts::ReportSummaries;
use super::{Decision, DecisionResult, Reported, WriteKind};
use crate::{
    Caller, Catalog, Change, Epoch, Error, ErrorKind, Fault, FaultKind, FeedPosition, Fingerprint, IdMap,
    IdSet, Idempotency, IdempotencyRecord, MappingFailure, NameScope, References, Report, ReportSummary,
    Resource, ResourceId, Snapshot, Timestamp, Undo, Version,
};

/// Loaded rows and their changes.
#[derive(Debug, Default)]
pub struct WorkingSet {
    resources: IdMap<Arc<Resource>>,
    children: IdMap<BTreeSet<ResourceId>>,
    child_counts: IdMap<BTreeMap<Arc<str>, usize>>,
    names: HashMap<(Arc<str>, NameScope, String), ResourceId>,
    referrers: IdMap<BTreeSet<ResourceId>>,
    summaries: IdMap<ReportSummaries>,
    reports: IdMap<ByAdapter<Report>>,
    /// The size of every stored report, of resources that the load plan measures.
    report_sizes: IdMap<BTreeMap<Arc<str>, usize>>,
    /// Resources whose reports are too large to be read.
    oversized: IdSet,
    /// Resources that were loaded without spec and references.
    without_spec: IdSet,
    /// The state before the batch of every resource that a decision touched; `None` if it did not exist.
    before: BTreeMap<ResourceId, Option<Arc<Resource>>>,
    /// The state before the batch of every report that was stored.
    reported: BTreeMap<(ResourceId, Arc<str>), Option<Report>>,
    changes: Vec<Change>,
    idempotency_records: HashMap<Fingerprint, IdempotencyRecord>,
    new_idempotency_records: Vec<Fingerprint>,
    skipped_conditions: Vec<SkippedCondition>,
    epoch: Epoch,
    version: Version,
    /// The time of the newest change.
    changed_time: Option<Timestamp>,
}

/// The result of a committed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The resource as it is now, or as it was when it was removed.
    Resource(Box<Resource>),
    /// The outcome of a report.
    Report(ResourceKey, Reported),
    /// Nothing happened: the patch leads to this spec, and checking it against its schema would hold up other commands.
    /// The caller checks it and repeats the command with [`Patch::checked`](crate::Patch::checked).
    SpecToCheck(Arc<str>, Value),
    /// The command is done and returns nothing.
    Done,
    /// The recorded response of an earlier request with the same idempotency key.
    Replayed(Box<Resource>),
}

/// Kind and id of the resource that an outcome is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceKey {
    /// Its kind.
    pub kind: Arc<str>,
    /// Its id.
    pub id: ResourceId,
}

impl ResourceKey {
    /// Kind and id of `resource`.
    pub fn of(resource: &Resource) -> Self {
        Self { kind: resource.kind.clone(), id: resource.id }
    }
}

/// A mapped condition that could not be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedCondition {
    /// Its resource.
    pub subject: ResourceKey,
    /// Its type, and why its rule failed.
    pub failure: MappingFailure,
}

impl WorkingSet {
    /// An empty set at the store's newest version.
    pub fn new(newest: FeedPosition) -> Self {
        Self { epoch: newest.epoch, version: newest.version, ..Self::default() }
    }

    /// The epoch of its versions.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Adds the time of the newest change.
    pub fn load_changed_time(&mut self, changed_time: Option<Timestamp>) {
        self.changed_time = changed_time;
    }

    /// The time of a change at `now`. Times of changes never go back, although the clock may.
    pub(super) fn time_of_change(&self, now: Timestamp) -> Timestamp {
        now.max(self.changed_time.unwrap_or(now))
    }

    /// The time of the newest change, which is that of the last one applied.
    pub fn changed_time(&self) -> Option<Timestamp> {
        self.changed_time
    }

    /// Adds a resource that was loaded without spec and references, unless the whole resource is loaded already.
    pub fn load_without_spec(&mut self, resource: impl Into<Arc<Resource>>) {
        let resource = resource.into();
        let id = resource.id;
        if !self.resources.contains_key(&id) {
            self.load(resource);
            self.without_spec.insert(id);
        }
    }

    /// Adds a whole resource.
    pub fn load(&mut self, resource: impl Into<Arc<Resource>>) {
        let resource = resource.into();
        self.without_spec.remove(&resource.id);
        if let Some(owner) = resource.owner() {
            self.children.entry(owner).or_default().insert(resource.id);
        }
        self.resources.insert(resource.id, resource);
    }

    /// Adds the number of children of a kind that an owner has, loaded or not.
    pub fn load_child_count(&mut self, owner: ResourceId, kind: Arc<str>, count: usize) {
        self.child_counts.entry(owner).or_default().insert(kind, count);
    }

    /// Adds the holder of an active name.
    pub fn load_name(&mut self, kind: Arc<str>, scope: NameScope, name: String, holder: ResourceId) {
        self.names.insert((kind, scope, name), holder);
    }

    /// Adds that `source` refers to `target`.
    pub fn load_referrer(&mut self, target: ResourceId, source: ResourceId) {
        self.referrers.entry(target).or_default().insert(source);
    }

    /// Adds the summary of an adapter's report.
    pub fn load_summary(&mut self, resource: ResourceId, summary: ReportSummary) {
        self.summaries.entry(resource).or_default().insert(summary);
    }

    /// Adds a stored report.
    pub fn load_report(&mut self, resource: ResourceId, report: Report) {
        self.load_summary(resource, report.summary());
        self.reports.entry(resource).or_default().insert(report);
    }

    /// Adds that the sizes of all reports on a resource are known.
    pub fn load_measured(&mut self, resource: ResourceId) {
        self.report_sizes.entry(resource).or_default();
    }

    /// Adds the size of an adapter's stored report.
    pub fn load_report_size(&mut self, resource: ResourceId, adapter: Arc<str>, bytes: usize) {
        self.report_sizes.entry(resource).or_default().insert(adapter, bytes);
    }

    /// Adds that the reports on a resource are too large to be read.
    pub fn load_oversized(&mut self, resource: ResourceId) {
        self.oversized.insert(resource);
    }

    /// Adds the recorded response of an idempotency key.
    pub fn load_idempotency_record(&mut self, key: Fingerprint, record: IdempotencyRecord) {
        self.idempotency_records.insert(key, record);
    }

    /// The recorded response of a request, if it was executed before. The caller's rights are not checked here.
    pub(super) fn recorded_response(
        &self,
        catalog: &Catalog,
        idempotency: &Idempotency,
    ) -> Option<Result<Resource, Error>> {
        let record = self.idempotency_records.get(&idempotency.key)?;
        if record.body != idempotency.body {
            let message = format!("{} was used for a request with another body", idempotency.field);
            let fault = Fault::new(FaultKind::Value, idempotency.field, message.as_str()).rule("unique");
            return Some(Err(Error::new(ErrorKind::Unprocessable, message).with_faults(vec![fault])));
        }
        record.response.as_ref().clone().into_resource(catalog).map(Ok)
    }

    /// Records the response of a request that has an idempotency key.
    pub fn record_idempotency(&mut self, idempotency: &Idempotency, outcome: &Outcome, at: Timestamp) {
        if let Outcome::Resource(resource) = outcome {
            let response = Box::new(Snapshot::of(resource));
            self.idempotency_records
                .insert(idempotency.key, IdempotencyRecord { body: idempotency.body, at, response });
            self.new_idempotency_records.push(idempotency.key);
        }
    }

    /// The responses to record.
    pub fn new_idempotency_records(&self) -> impl Iterator<Item = (&Fingerprint, &IdempotencyRecord)> {
        self.new_idempotency_records.iter().filter_map(|key| Some((key, self.idempotency_records.get(key)?)))
    }

    /// Whether a resource was loaded without its spec, so that its row of desired state must not be written.
    pub fn lacks_spec(&self, id: ResourceId) -> bool {
        self.without_spec.contains(&id)
    }

    /// The kind of a loaded resource.
    pub fn kind_of(&self, id: ResourceId) -> Option<&str> {
        self.resources.get(&id).map(|resource| &*resource.kind)
    }

    /// Every loaded resource.
    pub fn loaded(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values().map(Arc::as_ref)
    }

    /// The stored report of an adapter, if the load plan named it.
    pub(super) fn report(&self, resource: ResourceId, adapter: &str) -> Option<&Report> {
        self.reports.get(&resource)?.get(adapter)
    }

    /// The loaded reports on a resource, by adapter; `None` if they are too large to be read.
    pub(super) fn reports(&self, resource: ResourceId) -> Option<Vec<&Report>> {
        let reports = || self.reports.get(&resource).into_iter().flat_map(ByAdapter::iter).collect();
        (!self.oversized.contains(&resource)).then(reports)
    }

    /// The sizes of the reports on a resource, by adapter, if the load plan measures them.
    pub(super) fn report_sizes(&self, resource: ResourceId) -> &BTreeMap<Arc<str>, usize> {
        static NONE: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        self.report_sizes.get(&resource).unwrap_or(&NONE)
    }

    /// The report summaries of a resource's adapters.
    pub(super) fn summaries(&self, resource: ResourceId) -> &ReportSummaries {
        static NONE: ReportSummaries = ReportSummaries::new();
        self.summaries.get(&resource).unwrap_or(&NONE)
    }

    /// The resource with this id, if it exists.
    pub(super) fn get(&self, id: &str) -> Option<&Resource> {
        self.by_id(ResourceId::parse(id)?)
    }

    pub(super) fn by_id(&self, id: ResourceId) -> Option<&Resource> {
        self.resources.get(&id).map(Arc::as_ref)
    }

    /// The loaded children of a resource; complete below a tree that [`super::LoadPlan`] named.
    pub(super) fn children(&self, owner: ResourceId) -> impl Iterator<Item = &Resource> {
        self.children.get(&owner).into_iter().flatten().filter_map(|id| self.by_id(*id))
    }

    /// How many children of each kind a resource has, loaded or not.
    pub(super) fn child_counts(&self, owner: ResourceId) -> BTreeMap<Arc<str>, usize> {
        self.child_counts.get(&owner).cloned().unwrap_or_default()
    }

    /// The holder of an active name.
    pub(super) fn holder(&self, kind: &Arc<str>, scope: &NameScope, name: &str) -> Option<ResourceId> {
        self.names.get(&(kind.clone(), scope.clone(), name.to_owned())).copied()
    }

    /// The resources that refer to `target`.
    pub(super) fn referrers(&self, target: ResourceId) -> impl Iterator<Item = &Resource> {
        self.referrers.get(&target).into_iter().flatten().filter_map(|id| self.by_id(*id))
    }

    /// The number of referrers of `target` that are not loaded, because their kind is not configured.
    pub(super) fn hidden_referrers(&self, target: ResourceId) -> usize {
        let sources = self.referrers.get(&target).into_iter().flatten();
        sources.filter(|id| !self.resources.contains_key(id)).count()
    }

    /// Applies a decision: every changed resource gets the next version, and a change row.
    pub fn apply(&mut self, decision: Decision, caller: &Caller, now: Timestamp) -> Outcome {
        let at = self.time_of_change(now);
        let mut written = Vec::with_capacity(decision.writes.len());
        for write in decision.writes {
            let subject = ResourceKey::of(&write.resource);
            let skipped_conditions = |failure| SkippedCondition { subject: subject.clone(), failure };
            self.skipped_conditions.extend(write.failures.into_iter().map(skipped_conditions));
            if write.kind == WriteKind::TimesOnly {
                let resource = Arc::new(write.resource);
                let before = self.resources.insert(resource.id, resource.clone());
                self.before.entry(resource.id).or_insert(before);
                written.push(resource);
                continue;
            }
            self.version = self.version.next();
            self.changed_time = Some(at);
            let resource = Arc::new(Resource { version: self.version, ..write.resource });
            let before = self.resources.get(&resource.id);
            let removed = write.kind == WriteKind::Removed;
            self.changes.push(Change {
                undo: before.map(|before| Undo::between(before, &resource)),
                last: removed.then(|| Box::new(Snapshot::of(&resource))),
                version: self.version,
                resource: resource.id,
                kind: resource.kind.clone(),
                tenancy: resource.tenancy.clone(),
                at,
                actor: caller.actor.clone(),
                request_id: caller.request_id.clone(),
                entries: write.entries,
            });
            self.forget(resource.id);
            if removed {
                self.children.remove(&resource.id);
                self.summaries.remove(&resource.id);
                self.reports.remove(&resource.id);
                self.report_sizes.remove(&resource.id);
            } else {
                self.put(resource.clone());
            }
            written.push(resource);
        }
        if let Some((id, report)) = decision.report.filter(|(id, _)| self.resources.contains_key(id)) {
            self.summaries.entry(id).or_default().insert(report.summary());
            if let Some(sizes) = self.report_sizes.get_mut(&id) {
                sizes.insert(report.adapter.clone(), report.printed_size());
            }
            let key = (id, report.adapter.clone());
            let before = self.reports.entry(id).or_default().insert(report);
            self.reported.entry(key).or_insert(before);
        }
        outcome(decision.result, |index| Arc::unwrap_or_clone(written.swap_remove(index)))
    }

    /// The outcome of a decision with the versions that it would get, without applying it.
    pub fn dry_run(&self, mut decision: Decision) -> Outcome {
        outcome(decision.result, |index| {
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

    /// The mapped conditions that could not be computed.
    pub fn skipped_conditions(&self) -> &[SkippedCondition] {
        &self.skipped_conditions
    }

    /// Whether there is nothing to persist.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && self.before.is_empty() && self.reported.is_empty()
    }

    /// Every stored report whose resource still exists: its state before the batch and now.
    pub fn report_differences(&self) -> impl Iterator<Item = (ResourceId, Option<&Report>, &Report)> {
        self.reported.iter().filter_map(|((id, adapter), before)| {
            let after = self.reports.get(id)?.get(adapter)?;
            Some((*id, before.as_ref(), after))
        })
    }

    /// Every touched resource that changed: its state before the batch and now.
    pub fn differences(&self) -> impl Iterator<Item = (ResourceId, Option<&Resource>, Option<&Resource>)> {
        self.before_and_after().filter(|(_, before, after)| before != after)
    }

    /// Every touched resource: its state before the batch and now, which may be equal.
    pub fn before_and_after(
        &self,
    ) -> impl Iterator<Item = (ResourceId, Option<&Resource>, Option<&Resource>)> {
        self.before.iter().map(|(id, before)| (*id, before.as_deref(), self.by_id(*id)))
    }

    /// Removes a resource from every index and records its state before the batch.
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
                self.names.remove(&(old.kind.clone(), old.name_scope(), old.name.clone()));
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
            self.names
                .insert((resource.kind.clone(), resource.name_scope(), resource.name.clone()), resource.id);
        }
        for target in targets(&resource) {
            self.referrers.entry(target).or_default().insert(resource.id);
        }
        self.resources.insert(resource.id, resource);
    }
}

fn outcome(result: DecisionResult, written: impl FnOnce(usize) -> Resource) -> Outcome {
    match result {
        DecisionResult::Write(index) => Outcome::Resource(Box::new(written(index))),
        DecisionResult::Unchanged(resource) => Outcome::Resource(resource),
        DecisionResult::Report(subject, reported) => Outcome::Report(subject, reported),
        DecisionResult::SpecToCheck(kind, spec) => Outcome::SpecToCheck(kind, spec),
        DecisionResult::Nothing => Outcome::Done,
    }
}

/// The ids that a resource refers to.
fn targets(resource: &Resource) -> Vec<ResourceId> {
    if resource.references.as_str() == "{}" {
        return Vec::new();
    }
    resource.references.parse::<References>().map(|r| r.into_values().flatten().collect()).unwrap_or_default()
}
