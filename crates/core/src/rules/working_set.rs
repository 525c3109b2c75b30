//! The part of the store that a batch of commands works on, in memory. Decisions are applied to
//! it one after the other, so each command sees what the ones before it did.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Answered, Decision, Fate};
use crate::{Caller, Change, References, Resource, ResourceId, Timestamp, Version};

/// Loaded rows, and what has become of them.
#[derive(Debug, Default)]
pub struct WorkingSet {
    resources: HashMap<ResourceId, Resource>,
    children: HashMap<ResourceId, BTreeSet<ResourceId>>,
    child_counts: HashMap<ResourceId, BTreeMap<Arc<str>, usize>>,
    names: HashMap<(Arc<str>, Option<ResourceId>, String), ResourceId>,
    referrers: HashMap<ResourceId, BTreeSet<ResourceId>>,
    /// The state before the batch of every resource that a decision touched; `None` = was not there.
    before: BTreeMap<ResourceId, Option<Resource>>,
    changes: Vec<Change>,
    version: Version,
}

/// What a caller is told after the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The resource as it is now, or as it was when it went.
    pub resource: Resource,
    /// Every resource that is gone because of the command.
    pub removed: Vec<ResourceId>,
}

impl WorkingSet {
    /// An empty set at the store's newest version.
    pub fn new(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// Takes a loaded resource in.
    pub fn load(&mut self, resource: Resource) {
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
    pub fn load_name(&mut self, kind: Arc<str>, owner: Option<ResourceId>, name: String, holder: ResourceId) {
        self.names.insert((kind, owner, name), holder);
    }

    /// Takes in that `source` refers to `target`.
    pub fn load_referrer(&mut self, target: ResourceId, source: ResourceId) {
        self.referrers.entry(target).or_default().insert(source);
    }

    /// The resource with this id, if it exists.
    pub(super) fn get(&self, id: &str) -> Option<&Resource> {
        self.resources.get(&ResourceId::parse(id)?)
    }

    pub(super) fn by_id(&self, id: ResourceId) -> Option<&Resource> {
        self.resources.get(&id)
    }

    /// The loaded children of a resource; complete below a tree that [`super::Needs`] named.
    pub(super) fn children(&self, owner: ResourceId) -> impl Iterator<Item = &Resource> {
        self.children.get(&owner).into_iter().flatten().filter_map(|id| self.resources.get(id))
    }

    /// How many children of each kind a resource has, loaded or not.
    pub(super) fn child_counts(&self, owner: ResourceId) -> BTreeMap<Arc<str>, usize> {
        self.child_counts.get(&owner).cloned().unwrap_or_default()
    }

    /// Who holds an active name.
    pub(super) fn holder(
        &self,
        kind: &Arc<str>,
        owner: Option<ResourceId>,
        name: &str,
    ) -> Option<ResourceId> {
        self.names.get(&(kind.clone(), owner, name.to_owned())).copied()
    }

    /// The resources that refer to `target`.
    pub(super) fn referrers(&self, target: ResourceId) -> impl Iterator<Item = &Resource> {
        self.referrers.get(&target).into_iter().flatten().filter_map(|id| self.resources.get(id))
    }

    /// Applies a decision: every written resource gets the next version, and a change row.
    pub fn apply(&mut self, decision: Decision, caller: &Caller, now: Timestamp) -> Outcome {
        let mut removed = Vec::new();
        let mut written = Vec::with_capacity(decision.writes.len());
        for write in decision.writes {
            self.version = self.version.next();
            let resource = Resource { version: self.version, ..write.resource };
            self.changes.push(Change {
                version: self.version,
                resource: resource.id,
                kind: resource.kind.clone(),
                at: now,
                actor: caller.actor.clone(),
                request_id: caller.request_id.clone(),
                entries: write.entries,
            });
            self.forget(resource.id);
            match write.fate {
                Fate::Kept => self.put(resource.clone()),
                Fate::Removed => {
                    self.children.remove(&resource.id);
                    removed.push(resource.id);
                }
            }
            written.push(resource);
        }
        let resource = match decision.answer {
            Answered::Write(index) => written.swap_remove(index),
            Answered::Unchanged(resource) => *resource,
        };
        Outcome { resource, removed }
    }

    /// What the answer would be, with the versions it would get, without applying anything.
    pub fn rehearse(&self, decision: Decision) -> Outcome {
        let removed =
            decision.writes.iter().filter(|w| w.fate == Fate::Removed).map(|w| w.resource.id).collect();
        let resource = match decision.answer {
            Answered::Write(index) => {
                let version = Version(self.version.0 + 1 + index as i64);
                let write = decision.writes.into_iter().nth(index);
                write.map(|w| Resource { version, ..w.resource }).expect("the answer is one of the writes")
            }
            Answered::Unchanged(resource) => *resource,
        };
        Outcome { resource, removed }
    }

    /// The newest version after all that was applied.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The change rows to write, in version order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Every touched resource: its state before the batch and its state now.
    pub fn differences(&self) -> impl Iterator<Item = (ResourceId, Option<&Resource>, Option<&Resource>)> {
        self.before
            .iter()
            .map(|(id, before)| (*id, before.as_ref(), self.resources.get(id)))
            .filter(|(_, before, after)| before != after)
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
                self.names.remove(&(old.kind.clone(), old.owner(), old.name.clone()));
            }
            for target in targets(old) {
                self.referrers.entry(target).or_default().remove(&id);
            }
        }
        self.before.entry(id).or_insert(old);
    }

    fn put(&mut self, resource: Resource) {
        if let Some(owner) = resource.owner() {
            self.children.entry(owner).or_default().insert(resource.id);
            *self.child_counts.entry(owner).or_default().entry(resource.kind.clone()).or_default() += 1;
        }
        if resource.is_active() {
            self.names.insert((resource.kind.clone(), resource.owner(), resource.name.clone()), resource.id);
        }
        for target in targets(&resource) {
            self.referrers.entry(target).or_default().insert(resource.id);
        }
        self.resources.insert(resource.id, resource);
    }
}

/// The ids that a resource refers to.
fn targets(resource: &Resource) -> Vec<ResourceId> {
    if resource.references.as_str() == "{}" {
        return Vec::new();
    }
    resource.references.parse::<References>().map(|r| r.into_values().flatten().collect()).unwrap_or_default()
}
