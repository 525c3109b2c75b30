//! What the committer remembers of the resources that adapters report on, so that the next report on one of
//! them needs no read.
//!
//! It is right only while nobody else has written. Every commit therefore leaves its mark in the feed, and the
//! next one first makes sure that the mark is still its own, in the transaction that it is about to commit:
//! another replica's commit costs a reload, never a wrong decision. The memory is bounded, and whatever fails
//! empties it.

use std::collections::{BTreeSet, HashMap, HashSet};

use hyperfleet_core::rules::{Dossier, Needs, WorkingSet};
use hyperfleet_core::{Catalog, ResourceId, Version};

use crate::shelf::Shelf;

/// The most that is remembered, in bytes, as far as they can be counted: room for ten thousand resources with four
/// adapters each. One unknown resource is enough to make its whole batch load, so in a fleet that is larger, more would
/// help only if nearly all of it could be remembered.
const MAX_BYTES: usize = 80 << 20;

/// What is larger is not remembered: it would push out hundreds of others.
const MAX_DOSSIER_BYTES: usize = 64 << 10;

/// The mark that a commit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The newest version.
    pub(crate) version: Version,
    /// How many commits there were, with a version or without.
    pub(crate) commits: i64,
}

impl Mark {
    /// The mark that a batch leaves that found this one.
    pub(crate) fn after(self, set: &WorkingSet) -> Self {
        let commits = self.commits + i64::from(!set.is_unchanged());
        Self { version: set.version(), commits }
    }
}

/// What was remembered for a batch, and the mark by which it is right.
#[derive(Debug)]
pub(crate) struct Recalled {
    pub(crate) mark: Mark,
    pub(crate) dossiers: Vec<Dossier>,
}

impl Recalled {
    /// A set that holds what was remembered.
    pub(crate) fn into_set(self) -> WorkingSet {
        let mut set = WorkingSet::new(self.mark.version);
        self.dossiers.into_iter().for_each(|dossier| set.load_dossier(dossier));
        set
    }
}

/// See above.
#[derive(Debug)]
pub(crate) struct Memory {
    mark: Option<Mark>,
    dossiers: Shelf<ResourceId, Dossier>,
    /// The sizes of what is lent.
    lent: HashMap<ResourceId, usize>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { mark: None, dossiers: Shelf::new(MAX_BYTES), lent: HashMap::new() }
    }
}

impl Memory {
    /// Takes out whatever is remembered of what `needs` asks for; what is left in `needs` has to be loaded.
    pub(crate) fn recall(&mut self, needs: &mut Needs) -> Option<Recalled> {
        let mark = self.mark?;
        // A deletion needs everything around it whole.
        if !needs.trees.is_empty() {
            return None;
        }
        let mut dossiers = HashMap::new();
        for id in needs.reports.iter().map(|(id, _)| id).filter(|id| !needs.ids.contains(id)) {
            dossiers.extend(self.dossiers.take(*id).map(|(dossier, _)| (*id, dossier)));
        }
        if dossiers.is_empty() {
            return None;
        }
        needs.statuses.retain(|id| !dossiers.contains_key(id));
        needs.reports.retain(|(id, adapter)| dossiers.get(id).is_none_or(|d| !d.has_report(adapter)));
        Some(Recalled { mark, dossiers: dossiers.into_values().collect() })
    }

    /// Whether everything is remembered that a report of `adapter` on a resource needs.
    pub(crate) fn knows(&self, id: ResourceId, adapter: &str) -> bool {
        self.mark.is_some() && self.dossiers.get(id).is_some_and(|dossier| dossier.has_report(adapter))
    }

    /// Takes out what is remembered of these resources.
    pub(crate) fn lend<'a>(&mut self, ids: impl IntoIterator<Item = &'a ResourceId>) -> Option<Recalled> {
        let mark = self.mark?;
        let lend = |id: &ResourceId| {
            let (dossier, size) = self.dossiers.take(*id)?;
            self.lent.insert(*id, size);
            Some(dossier)
        };
        Some(Recalled { mark, dossiers: ids.into_iter().filter_map(lend).collect() })
    }

    /// Where the feed will be once all is committed that was sent.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// What is lent was sent to be committed, which will leave the feed at `left`.
    pub(crate) fn expect(&mut self, left: Mark) {
        self.mark = Some(left);
    }

    /// After a commit that found the feed at `found` and left it at `left`, while nothing was lent: takes in what came
    /// of it. Returns whether nobody else has written since the last time.
    pub(crate) fn learn(
        &mut self,
        catalog: &Catalog,
        reported: &BTreeSet<ResourceId>,
        set: WorkingSet,
        (found, left): (Mark, Mark),
    ) -> bool {
        let alone = self.mark.is_none_or(|mark| mark == found);
        if !alone {
            self.clear();
        }
        self.mark = Some(left);
        self.take_in(catalog, reported, set);
        alone
    }

    /// After a commit: remembers what reports were about, also what was lent for it, and forgets whatever else was
    /// touched. Kinds with mapped conditions are not remembered, because their rules look at more than a dossier holds.
    /// Does nothing if everything had to be forgotten meanwhile.
    pub(crate) fn take_in(
        &mut self,
        catalog: &Catalog,
        reported: &BTreeSet<ResourceId>,
        mut set: WorkingSet,
    ) {
        if self.mark.is_none() {
            return;
        }
        for id in set.touched() {
            self.dossiers.take(id);
        }
        let changed: HashSet<ResourceId> = set.changes().iter().map(|change| change.resource).collect();
        for id in reported {
            let size = self.lent.remove(id).filter(|_| !changed.contains(id));
            self.dossiers.take(*id);
            let entity = set.kind_of(*id).and_then(|kind| catalog.get(kind));
            if entity.is_some_and(|entity| entity.mappings.is_empty())
                && let Some(dossier) = set.take_dossier(*id)
            {
                // To measure it is to look at all of it, of which a report that moves times has seen little.
                let size = size.unwrap_or_else(|| dossier.size());
                self.keep(dossier, size);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn keep(&mut self, dossier: Dossier, size: usize) {
        if size <= MAX_DOSSIER_BYTES {
            self.dossiers.put(dossier.id(), dossier, size);
        }
    }
}
