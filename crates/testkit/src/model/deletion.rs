//! Deletion: what a DELETE reaches and what stops it, when a finalizing resource is gone, and force-delete. All of one
//! request happens at once, so there is no order between events to remember, only the tree.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::conditions::Cause;
use super::kinds::OnParentDelete;
use super::state::{Model, Phase, Slot};

impl Model {
    /// DELETE of a resource; 404, 409 or 202 with the resource as it is then, also when it was removed at once.
    pub(super) fn delete(
        &mut self,
        slot: Slot,
        now: DateTime<Utc>,
        removed: &mut Vec<Slot>,
    ) -> (u16, Option<Value>) {
        match self.phase(slot) {
            None => return (404, None),
            Some(Phase::Finalizing(_)) => return (202, self.document(slot)),
            Some(Phase::Active) => {}
        }
        let Some(tree) = self.deletion_tree(slot).filter(|tree| !self.is_referred_to_from_outside(tree))
        else {
            return (409, None);
        };
        let mut answer = None;
        // Children stand before their owners in the tree, so an owner is judged by the children that remain.
        for doomed in tree {
            self.start_finalizing(doomed, now);
            if doomed == slot {
                answer = self.document(slot);
            }
            self.complete(doomed, removed);
        }
        (202, answer)
    }

    /// Force-delete; 404, 409 or 204.
    pub(super) fn force_delete(&mut self, slot: Slot, removed: &mut Vec<Slot>) -> u16 {
        match self.phase(slot) {
            None => 404,
            Some(Phase::Active) => 409,
            Some(Phase::Finalizing(_)) => {
                self.remove_below(slot, removed);
                self.remove(slot, removed);
                204
            }
        }
    }

    /// Removes a finalizing resource for which nothing is left to wait, and then its owners for which that was the
    /// last thing to wait for.
    pub(super) fn complete(&mut self, slot: Slot, removed: &mut Vec<Slot>) {
        if self.facts(slot).is_some_and(|facts| facts.deletion_is_complete()) {
            self.remove(slot, removed);
        }
    }

    /// A resource and the active resources that go with it, each after its children; nothing when an active child
    /// of a `restrict` kind is in the way.
    fn deletion_tree(&self, slot: Slot) -> Option<Vec<Slot>> {
        let mut tree = Vec::new();
        for child in self.children(slot) {
            if !self.entries[child.0].is_active() {
                continue;
            }
            match self.on_parent_delete(child) {
                Some(OnParentDelete::Restrict) => return None,
                _ => tree.extend(self.deletion_tree(child)?),
            }
        }
        tree.push(slot);
        Some(tree)
    }

    fn is_referred_to_from_outside(&self, tree: &[Slot]) -> bool {
        self.entries.iter().enumerate().any(|(index, entry)| {
            !tree.contains(&Slot(index))
                && entry.state.as_ref().is_some_and(|state| {
                    state.is_active() && state.references.values().any(|target| tree.contains(target))
                })
        })
    }

    fn start_finalizing(&mut self, slot: Slot, now: DateTime<Utc>) {
        let Some(state) = self.state_mut(slot) else { return };
        let stamp = now.max(state.updated);
        state.phase = Phase::Finalizing(stamp);
        state.updated = stamp;
        state.generation += 1;
        state.references.clear();
        self.recompute(slot, Cause::Other);
        self.legacy_generation(slot);
    }

    fn remove_below(&mut self, slot: Slot, removed: &mut Vec<Slot>) {
        for child in self.children(slot) {
            self.remove_below(child, removed);
            self.forget(child, removed);
        }
    }

    fn remove(&mut self, slot: Slot, removed: &mut Vec<Slot>) {
        self.forget(slot, removed);
        if let Some(parent) = self.entries[slot.0].parent {
            self.recompute(parent, Cause::Other);
            self.complete(parent, removed);
        }
    }

    fn forget(&mut self, slot: Slot, removed: &mut Vec<Slot>) {
        self.entries[slot.0].state = None;
        for state in self.entries.iter_mut().filter_map(|entry| entry.state.as_mut()) {
            state.references.retain(|_, target| *target != slot);
        }
        removed.push(slot);
    }
}
