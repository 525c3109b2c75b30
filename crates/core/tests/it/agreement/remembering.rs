//! A committer that remembers what adapters reported on and loads only the rest, as the stores' own does while
//! nobody else writes.

use std::collections::{BTreeMap, BTreeSet};

use hyperfleet_core::rules::{Dossier, Needs, Outcome, WorkingSet};
use hyperfleet_core::{Command, Error, ResourceId, Timestamp};

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
        let reported: BTreeSet<ResourceId> = needs.reports.iter().map(|(id, _)| *id).collect();
        let mut set = WorkingSet::new(self.database.version);
        let alone = needs.trees.is_empty();
        for id in reported.iter().filter(|id| alone && !needs.ids.contains(id)) {
            if let Some(dossier) = self.memory.remove(id) {
                needs.statuses.remove(id);
                needs.reports.retain(|(of, adapter)| of != id || !dossier.has_report(adapter));
                set.load_dossier(dossier);
            }
        }
        let mut loaded = self.database.load(&needs, set);
        let answers = self.database.commit(commands, &mut loaded, now);
        let touched: Vec<ResourceId> = loaded.set.differences().map(|(id, ..)| id).collect();
        touched.iter().chain(&reported).for_each(|id| drop(self.memory.remove(id)));
        for id in reported {
            if let Some(dossier) = loaded.set.take_dossier(id) {
                assert_eq!(dossier.id(), id);
                assert!(dossier.size() > 0);
                self.memory.insert(id, dossier);
            }
        }
        answers
    }
}
