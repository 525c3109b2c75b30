//! What a batch of commands can touch, so that a store loads it with one query per table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::WorkingSet;
use crate::{Command, Fingerprint, Intent, Place, ResourceId, Sight, Target};

/// The rows to load before a batch is decided.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Resources to load by id, if they exist.
    pub ids: BTreeSet<ResourceId>,
    /// Resources whose whole surroundings matter, because something may disappear: everything
    /// below them, their owners up to the root, the number of children of all of these, and the
    /// resources that refer to anything below. Each with the sights of all who want to change it: only what
    /// [one of them sees](Self::roots) is loaded, or the time it takes would tell them what is there.
    pub trees: BTreeMap<ResourceId, Vec<Sight>>,
    /// Resources whose conditions may be computed anew while their wish stays as it is: where their
    /// adapters stand, and, if they are finalizing, their owners up to the root and the number of children
    /// of all of these, whole: they may go, and what goes is kept whole. Spec and references of an active one may
    /// be left out (`{}`) unless mapped conditions look at them: no rule that is decided for these resources alone
    /// reads or writes them.
    pub statuses: BTreeSet<ResourceId>,
    /// Stored reports to load whole: resource and adapter.
    pub reports: BTreeSet<(ResourceId, Arc<str>)>,
    /// Active names that must be known to be taken or free: kind, place, name.
    pub names: BTreeSet<(Arc<str>, Place, String)>,
    /// Requests that may have been answered before.
    pub retries: BTreeSet<Fingerprint>,
}

impl Needs {
    /// What `commands` can touch.
    pub fn of<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Self {
        let mut needs = Self::default();
        let mut patched = Vec::new();
        for command in commands {
            let sight = &command.caller.sight;
            needs.retries.extend(command.retry.as_ref().map(|retry| retry.key));
            match &command.intent {
                Intent::Create(create) => {
                    needs.path(&create.ancestors);
                    needs.ids.extend(create.references.values().flatten());
                    let owner = create.ancestors.last().and_then(|(_, id)| ResourceId::parse(id));
                    let root = || Place::Root(sight.tenant().cloned());
                    let place = owner.map_or_else(root, Place::Below);
                    needs.names.insert((create.kind.clone(), place, create.name.clone()));
                }
                Intent::Patch(patch) => {
                    needs.target(&patch.target);
                    let id = ResourceId::parse(&patch.target.id);
                    needs.statuses.extend(id);
                    patched.extend(id.map(|id| (id, sight)));
                    needs.ids.extend(patch.body.mentioned_ids());
                }
                Intent::Delete(delete) => needs.tree(&delete.target, sight),
                Intent::ForceDelete(force) => needs.tree(&force.target, sight),
                Intent::Report(submit) => {
                    if let Some(id) = ResourceId::parse(&submit.target.id) {
                        needs.statuses.insert(id);
                        needs.reports.insert((id, submit.submission.adapter.clone()));
                    }
                }
                Intent::Recompute(ids) => needs.statuses.extend(ids),
            }
        }
        // New labels may bring a resource into the sight of whoever deletes it later in the batch.
        for (id, sight) in patched {
            needs.trees.entry(id).and_modify(|sights| sights.push(sight.clone()));
        }
        needs
    }

    /// Of the trees, those to load, once the resources by id are in `set`. What nobody sees at first nobody can bring
    /// into sight, so no command of the batch gets to look at the others.
    pub fn roots(&self, set: &WorkingSet) -> BTreeSet<ResourceId> {
        let seen = |id: &ResourceId, sights: &[Sight]| {
            // Where it cannot be told, the rule that asks again fails.
            set.by_id(*id).is_some_and(|root| sights.iter().any(|sight| sight.sees(root).unwrap_or(false)))
        };
        self.trees.iter().filter(|(id, sights)| seen(id, sights)).map(|(id, _)| *id).collect()
    }

    /// Whether nothing has to be loaded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn target(&mut self, target: &Target) {
        self.path(&target.ancestors);
        self.ids.extend(ResourceId::parse(&target.id));
    }

    fn tree(&mut self, target: &Target, sight: &Sight) {
        self.target(target);
        if let Some(id) = ResourceId::parse(&target.id) {
            self.trees.entry(id).or_default().push(sight.clone());
        }
    }

    fn path(&mut self, ancestors: &[(Arc<str>, String)]) {
        self.ids.extend(ancestors.iter().filter_map(|(_, id)| ResourceId::parse(id)));
    }
}
