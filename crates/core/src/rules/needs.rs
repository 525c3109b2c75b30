//! What a batch of commands can touch, so that a store loads it with one query per table.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{Command, Fingerprint, Intent, Place, ResourceId, Target};

/// The rows to load before a batch is decided.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Resources to load by id, if they exist.
    pub ids: BTreeSet<ResourceId>,
    /// Resources whose whole surroundings matter, because something may disappear: everything
    /// below them, their owners up to the root, the number of children of all of these, and the
    /// resources that refer to anything below.
    pub trees: BTreeSet<ResourceId>,
    /// Resources whose conditions may be computed anew while their wish stays as it is: where their
    /// adapters stand, and, if they are finalizing, their owners up to the root and the number of children
    /// of all of these, whole: they may go, and what goes is kept whole. Spec and references of an active one may
    /// be left out (`{}`) unless mapped conditions look at them: no rule that is decided for these resources alone
    /// reads or writes them.
    pub statuses: BTreeSet<ResourceId>,
    /// Stored reports to load whole: resource and adapter.
    pub reports: BTreeSet<(ResourceId, String)>,
    /// Active names that must be known to be taken or free: kind, place, name.
    pub names: BTreeSet<(Arc<str>, Place, String)>,
    /// Requests that may have been answered before.
    pub retries: BTreeSet<Fingerprint>,
}

impl Needs {
    /// What `commands` can touch.
    pub fn of<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Self {
        let mut needs = Self::default();
        for command in commands {
            needs.retries.extend(command.retry.as_ref().map(|retry| retry.key));
            match &command.intent {
                Intent::Create(create) => {
                    needs.path(&create.ancestors);
                    needs.ids.extend(create.references.values().flatten());
                    let owner = create.ancestors.last().and_then(|(_, id)| ResourceId::parse(id));
                    let root = || Place::Root(command.caller.sight.tenant().cloned());
                    let place = owner.map_or_else(root, Place::Below);
                    needs.names.insert((create.kind.clone(), place, create.name.clone()));
                }
                Intent::Patch(patch) => {
                    needs.target(&patch.target);
                    needs.statuses.extend(ResourceId::parse(&patch.target.id));
                    needs.ids.extend(patch.body.mentioned_ids());
                }
                Intent::Delete(delete) => needs.tree(&delete.target),
                Intent::ForceDelete(force) => needs.tree(&force.target),
                Intent::Report(submit) => {
                    if let Some(id) = ResourceId::parse(&submit.target.id) {
                        needs.statuses.insert(id);
                        needs.reports.insert((id, submit.submission.adapter.clone()));
                    }
                }
                Intent::Recompute(ids) => needs.statuses.extend(ids),
            }
        }
        needs
    }

    /// Whether nothing has to be loaded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn target(&mut self, target: &Target) {
        self.path(&target.ancestors);
        self.ids.extend(ResourceId::parse(&target.id));
    }

    fn tree(&mut self, target: &Target) {
        self.target(target);
        self.trees.extend(ResourceId::parse(&target.id));
    }

    fn path(&mut self, ancestors: &[(Arc<str>, String)]) {
        self.ids.extend(ancestors.iter().filter_map(|(_, id)| ResourceId::parse(id)));
    }
}
