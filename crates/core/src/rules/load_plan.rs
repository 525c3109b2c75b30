//! The rows that a batch of commands can touch, so that a store loads them with one query per table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Rulebook, WorkingSet};
use crate::{
    AccessScope, Catalog, Command, Fingerprint, Intent, NameScope, ResourceId, ResourcePath, SubmitReport,
};

/// The rows to load before a batch is decided.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoadPlan {
    /// Resources to load by id, if they exist.
    pub ids: BTreeSet<ResourceId>,
    /// Resources whose whole tree is loaded, because a command may remove them: everything below them, their owners
    /// up to the root, the number of children of all of these, and the referrers of anything below. Each with the
    /// access scopes of its commands: a tree is loaded only if [one of them sees its root](Self::roots), because the
    /// time of loading it would reveal that it exists.
    pub trees: BTreeMap<ResourceId, Vec<AccessScope>>,
    /// Resources whose conditions may be recomputed while their desired state stays: with their report summaries. A
    /// finalizing one is loaded whole, with its owners and their child counts, because it may be removed and history
    /// stores removed resources whole. Spec and references of an active one may be left out (`{}`) unless mapped
    /// conditions read them, because no other rule for these resources reads or writes them.
    pub statuses: BTreeSet<ResourceId>,
    /// Stored reports to load whole: resource and adapter.
    pub reports: BTreeSet<(ResourceId, Arc<str>)>,
    /// Resources whose reports are measured: the size of each is loaded.
    pub measured: BTreeSet<ResourceId>,
    /// If the reports on a resource take more bytes together, rules read none of them.
    pub report_bytes: usize,
    /// Active names to look up: kind, scope of the name, name.
    pub names: BTreeSet<(Arc<str>, NameScope, String)>,
    /// Idempotency keys of requests that may have been executed before.
    pub idempotency_keys: BTreeSet<Fingerprint>,
}

impl LoadPlan {
    /// The rows that `commands` can touch.
    pub fn of<'a>(rulebook: &Rulebook, commands: impl IntoIterator<Item = &'a Command>) -> Self {
        let mut plan = Self { report_bytes: rulebook.report_limits.bytes, ..Self::default() };
        let mut patched = Vec::new();
        for command in commands {
            let scope = &command.caller.scope;
            plan.idempotency_keys.extend(command.idempotency.as_ref().map(|idempotency| idempotency.key));
            match &command.intent {
                Intent::Create(create) => {
                    plan.path(&create.ancestors);
                    plan.ids.extend(create.references.values().flatten());
                    let owner = create.ancestors.last().and_then(|(_, id)| ResourceId::parse(id));
                    let root = || NameScope::Root(scope.tenant().cloned());
                    let scope = owner.map_or_else(root, NameScope::Below);
                    plan.names.insert((create.kind.clone(), scope, create.name.clone()));
                }
                Intent::Patch(patch) => {
                    plan.target(&patch.target);
                    let id = ResourceId::parse(&patch.target.id);
                    plan.statuses.extend(id);
                    patched.extend(id.map(|id| (id, scope)));
                    plan.ids.extend(patch.body.mentioned_ids());
                }
                Intent::Delete(delete) => plan.tree(&delete.target, scope),
                Intent::ForceDelete(force) => plan.tree(&force.target, scope),
                Intent::Report(submit) => {
                    if let Some(id) = ResourceId::parse(&submit.target.id) {
                        plan.statuses.insert(id);
                        plan.reports.insert((id, submit.submission.adapter.clone()));
                        if !always_fits(rulebook, submit) {
                            plan.measured.insert(id);
                        }
                    }
                }
                Intent::Recompute(ids) => plan.statuses.extend(ids),
            }
        }
        // A patch may label a resource into the access scope of a delete later in the batch.
        for (id, scope) in patched {
            plan.trees.entry(id).and_modify(|scopes| scopes.push(scope.clone()));
        }
        plan
    }

    /// The loaded resources whose reports rules read whole: their conditions may be computed, by rules that read reports.
    /// `all` if trees or owners were loaded, because the conditions of any resource of a tree may be computed.
    pub fn read_whole(&self, catalog: &Catalog, set: &WorkingSet, all: bool) -> Vec<ResourceId> {
        let computed = set.loaded().filter(|resource| all || self.statuses.contains(&resource.id));
        computed
            .filter(|resource| catalog.reads_reports(&resource.kind))
            .map(|resource| resource.id)
            .collect()
    }

    /// The trees to load, once the resources by id are in `set`. A resource that no scope sees cannot be labelled into
    /// one, so no command of the batch reads the other trees.
    pub fn roots(&self, set: &WorkingSet) -> BTreeSet<ResourceId> {
        let seen = |id: &ResourceId, scopes: &[AccessScope]| {
            // If the check fails here, it fails again in the rule, which reports the error.
            set.by_id(*id).is_some_and(|root| scopes.iter().any(|scope| scope.sees(root).unwrap_or(false)))
        };
        self.trees.iter().filter(|(id, scopes)| seen(id, scopes)).map(|(id, _)| *id).collect()
    }

    fn target(&mut self, target: &ResourcePath) {
        self.path(&target.ancestors);
        self.ids.extend(ResourceId::parse(&target.id));
    }

    fn tree(&mut self, target: &ResourcePath, scope: &AccessScope) {
        self.target(target);
        if let Some(id) = ResourceId::parse(&target.id) {
            self.trees.entry(id).or_default().push(scope.clone());
        }
    }

    fn path(&mut self, ancestors: &[(Arc<str>, String)]) {
        self.ids.extend(ancestors.iter().filter_map(|(_, id)| ResourceId::parse(id)));
    }
}

/// Whether a report fits without knowing the other reports. A path without a kind does not tell.
fn always_fits(rulebook: &Rulebook, SubmitReport { target, submission }: &SubmitReport) -> bool {
    let entity = target.kind.as_ref().and_then(|kind| rulebook.catalog.get(kind));
    entity.is_some_and(|entity| {
        rulebook.report_limits.always_fits(entity, &submission.adapter, submission.printed_size())
    })
}
