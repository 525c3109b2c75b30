//! What the committer remembers of the resources that are created, patched and reported on, so that the next patch of
//! one of them, or report on it, needs no read.
//!
//! It is right only while nobody else has written. Every commit therefore leaves its mark in the feed, and the
//! next one first makes sure that the mark is still its own, in the transaction that it is about to commit:
//! another replica's commit costs a reload, never a wrong decision. The memory is bounded, and whatever fails
//! empties it.

use std::sync::Arc;

use hyperfleet_core::rules::{Dossier, Needs, WorkingSet};
use hyperfleet_core::{Catalog, IdMap, IdSet, ResourceId, Version};

use crate::known::Known;
use crate::shelf::Shelf;

/// The most that is remembered, in bytes, as far as they can be counted: room for ten thousand resources with four
/// adapters each. One unknown resource is enough to make its whole batch load, so in a fleet that is larger, more would
/// help only if nearly all of it could be remembered.
const MAX_BYTES: usize = 72 << 20;

/// What is larger is not remembered: it would push out hundreds of others.
const MAX_DOSSIER_BYTES: usize = 64 << 10;

/// The mark that a commit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
        let mut set = WorkingSet::with_room(self.mark.version, self.dossiers.len());
        self.dossiers.into_iter().for_each(|dossier| set.load_dossier(dossier));
        set
    }
}

/// See above.
#[derive(Debug)]
pub(crate) struct Memory {
    mark: Option<Mark>,
    dossiers: Shelf<Dossier>,
    /// The sizes of what is lent.
    lent: IdMap<usize>,
    /// What readers are told of commits.
    known: Arc<Known>,
}

impl Memory {
    pub(crate) fn new(known: Arc<Known>) -> Self {
        Self { mark: None, dossiers: Shelf::new(MAX_BYTES), lent: IdMap::default(), known }
    }

    /// Takes out whatever is remembered of what `needs` asks for; what is left in `needs` has to be loaded.
    pub(crate) fn recall(&mut self, needs: &mut Needs) -> Option<Recalled> {
        let mark = self.mark?;
        // A deletion needs everything around it whole.
        if !needs.trees.is_empty() {
            return None;
        }
        let mut dossiers = IdMap::default();
        for id in &needs.statuses {
            if self.dossiers.get(*id).is_some_and(|dossier| dossier.is_whole() || !needs.ids.contains(id)) {
                dossiers.extend(self.dossiers.take(*id).map(|(dossier, _)| (*id, dossier)));
            }
        }
        if dossiers.is_empty() {
            return None;
        }
        needs.ids.retain(|id| !dossiers.contains_key(id));
        needs.statuses.retain(|id| !dossiers.contains_key(id));
        needs.reports.retain(|(id, adapter)| dossiers.get(id).is_none_or(|d| !d.knows_report(adapter)));
        Some(Recalled { mark, dossiers: dossiers.into_values().collect() })
    }

    /// Whether it is known where the feed stands, so that a batch can be decided before anything is read.
    pub(crate) fn is_oriented(&self) -> bool {
        self.mark.is_some()
    }

    /// What is remembered of a resource.
    pub(crate) fn get(&self, id: ResourceId) -> Option<&Dossier> {
        self.dossiers.get(id)
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

    /// What is lent was sent to be committed, which will leave the feed at `left`.
    pub(crate) fn expect(&mut self, left: Mark) {
        self.mark = Some(left);
    }

    /// Takes back what was lent, after its commit; not if everything had to be forgotten meanwhile.
    pub(crate) fn take_back<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a ResourceId>,
        set: &mut WorkingSet,
        (found, left): (Mark, Mark),
    ) {
        if self.mark.is_none() {
            return;
        }
        self.known.commit((found, left), set.touched());
        let changed: IdSet = set.changes().iter().map(|change| change.resource).collect();
        for id in ids {
            let size = self.lent.remove(id).filter(|_| !changed.contains(id));
            if let Some(dossier) = set.take_dossier(*id) {
                // To measure it is to look at all of it, of which a report that moves times has seen little.
                let size = size.unwrap_or_else(|| dossier.size());
                self.keep(dossier, size);
            }
        }
    }

    /// What is lent was not committed, and is forgotten.
    pub(crate) fn write_off<'a>(&mut self, ids: impl IntoIterator<Item = &'a ResourceId>) {
        for id in ids {
            self.lent.remove(id);
        }
    }

    /// After a commit that found the feed at `found` and left it at `left`: remembers what commands were about,
    /// and forgets whatever else was touched. Kinds with mapped conditions are not remembered, because their
    /// rules look at more than a dossier holds. Returns whether nobody else has written since the last time.
    pub(crate) fn learn(
        &mut self,
        catalog: &Catalog,
        about: impl IntoIterator<Item = ResourceId>,
        mut set: WorkingSet,
        (found, left): (Mark, Mark),
    ) -> bool {
        let alone = self.mark.is_none_or(|mark| mark == found);
        if !alone {
            self.clear();
        }
        self.mark = Some(left);
        self.known.commit((found, left), set.touched());
        for (id, _) in set.touched() {
            self.dossiers.take(id);
        }
        for id in about {
            self.dossiers.take(id);
            let entity = set.kind_of(id).and_then(|kind| catalog.get(kind));
            if entity.is_some_and(|entity| entity.mappings.is_empty())
                && let Some(dossier) = set.take_dossier(id)
            {
                let size = dossier.size();
                self.keep(dossier, size);
            }
        }
        alone
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.known.forget();
        *self = Self::new(self.known.clone());
    }

    fn keep(&mut self, dossier: Dossier, size: usize) {
        if size <= MAX_DOSSIER_BYTES {
            self.dossiers.put(dossier.id(), dossier, size);
        }
    }
}
