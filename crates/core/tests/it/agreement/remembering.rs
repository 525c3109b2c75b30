//! A committer that remembers what was created, patched or reported on and loads only the rest, as the stores' own does
//! while nobody else writes.

use std::collections::{BTreeMap, BTreeSet};

use hyperfleet_core::rules::{Dossier, Needs, Outcome, WorkingSet};
use hyperfleet_core::{Command, Error, Intent, ResourceId, Timestamp};

use crate::database::Database;

pub(super) struct Remembering {
    pub(super) database: Database,
    memory: BTreeMap<ResourceId, Dossier>,
}

impl Remembering {
    pub(super) fn new(database: Database) -> Self {
        Self { database, memory: BTreeMap::new() }
    }

    pub(super) fn run(&mut self, commands: &[Command], now: Timestamp) -> Vec<Result<Outcome, Error>> {
        let mut needs = Needs::of(commands);
        let created = commands.iter().filter_map(|command| match &command.intent {
            Intent::Create(create) => Some(create.id),
            _ => None,
        });
        let about: BTreeSet<ResourceId> = needs.statuses.iter().copied().chain(created).collect();
        let mut set = WorkingSet::new(self.database.version);
        let alone = needs.trees.is_empty();
        for id in about.iter().filter(|_| alone) {
            let is_asked = needs.statuses.contains(id);
            let is_enough = |dossier: &Dossier| dossier.is_whole() || !needs.ids.contains(id);
            if self.memory.get(id).is_some_and(|dossier| is_asked && is_enough(dossier))
                && let Some(dossier) = self.memory.remove(id)
            {
                needs.ids.remove(id);
                needs.statuses.remove(id);
                needs.reports.retain(|(of, adapter)| of != id || !dossier.knows_report(adapter));
                set.load_dossier(dossier);
            }
        }
        let mut loaded = self.database.load(&needs, set);
        let answers = self.database.commit(commands, &mut loaded, now);
        let touched: Vec<ResourceId> = loaded.set.differences().map(|(id, ..)| id).collect();
        touched.iter().chain(&about).for_each(|id| drop(self.memory.remove(id)));
        for id in about {
            if let Some(dossier) = loaded.set.take_dossier(id) {
                assert_eq!(dossier.id(), id);
                assert!(dossier.size() > 0);
                self.memory.insert(id, dossier);
            }
        }
        answers
    }
}
