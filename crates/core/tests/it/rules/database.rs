//! A store in a map. It hands the rules exactly what `Needs` names and nothing else, so that a
//! rule that looks at more is found out; and it keeps exactly what the working set ends up with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hyperfleet_core::rules::{Needs, Outcome, Rulebook, WorkingSet, decide};
use hyperfleet_core::{Change, Command, Error, References, Resource, ResourceId, Timestamp, Version};

#[derive(Debug, Clone)]
pub(crate) struct Database {
    rulebook: Arc<Rulebook>,
    pub(crate) rows: BTreeMap<ResourceId, Resource>,
    pub(crate) version: Version,
    pub(crate) history: Vec<Change>,
}

impl Database {
    pub(crate) fn new(rulebook: Arc<Rulebook>) -> Self {
        Self { rulebook, rows: BTreeMap::new(), version: Version(0), history: Vec::new() }
    }

    /// Decides the commands on one working set, as a committer does, and keeps the result.
    pub(crate) fn run(&mut self, commands: &[Command], now: Timestamp) -> Vec<Result<Outcome, Error>> {
        let mut set = self.load(&Needs::of(commands));
        let answers = commands
            .iter()
            .map(|command| {
                let decision = decide(&self.rulebook, &set, command, now)?;
                Ok(if command.dry_run {
                    set.rehearse(decision)
                } else {
                    set.apply(decision, &command.caller, now)
                })
            })
            .collect();
        self.keep(&set);
        answers
    }

    fn keep(&mut self, set: &WorkingSet) {
        for (id, before, after) in set.differences() {
            assert_eq!(self.rows.get(&id), before, "a difference starts from what was stored");
            match after {
                Some(resource) => self.rows.insert(id, resource.clone()),
                None => self.rows.remove(&id),
            };
        }
        self.version = set.version();
        self.history.extend_from_slice(set.changes());
    }

    fn load(&self, needs: &Needs) -> WorkingSet {
        let mut set = WorkingSet::new(self.version);
        for id in &needs.ids {
            self.load_row(*id, &mut set);
        }
        for (kind, owner, name) in &needs.names {
            let holder = self
                .rows
                .values()
                .find(|r| r.is_active() && r.kind == *kind && r.owner() == *owner && r.name == *name);
            if let Some(holder) = holder {
                set.load_name(kind.clone(), *owner, name.clone(), holder.id);
            }
        }
        let mut surroundings = BTreeSet::new();
        for root in needs.trees.iter().filter_map(|id| self.rows.get(id)) {
            let below: Vec<_> =
                self.rows.values().filter(|r| r.id == root.id || r.ancestors.contains(&root.id)).collect();
            for source in self.rows.values() {
                for target in below.iter().filter(|target| targets(source).contains(&target.id)) {
                    set.load_referrer(target.id, source.id);
                    self.load_row(source.id, &mut set);
                }
            }
            surroundings.extend(below.iter().map(|r| r.id));
            surroundings.extend(&root.ancestors);
        }
        for id in surroundings {
            self.load_row(id, &mut set);
            let mut counts = BTreeMap::new();
            for child in self.rows.values().filter(|r| r.owner() == Some(id)) {
                *counts.entry(child.kind.clone()).or_insert(0) += 1;
            }
            for (kind, count) in counts {
                set.load_child_count(id, kind, count);
            }
        }
        set
    }

    fn load_row(&self, id: ResourceId, set: &mut WorkingSet) {
        if let Some(resource) = self.rows.get(&id) {
            set.load(resource.clone());
        }
    }
}

/// The ids that a resource refers to.
pub(crate) fn targets(resource: &Resource) -> BTreeSet<ResourceId> {
    resource.references.parse::<References>().unwrap().into_values().flatten().collect()
}
