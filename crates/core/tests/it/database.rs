//! A store in a map. It hands the rules exactly what `LoadPlan` names and nothing else, so that a rule that looks
//! at more is found out; and it keeps exactly what the working set ends up with, in the narrow writes that a
//! store makes of it, so that a rule that changes more than such a write carries is found out too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hyperfleet_core::rules::{LoadPlan, Outcome, Rulebook, SkippedCondition, WorkingSet, decide, mismatches};
use hyperfleet_core::{
    Action, Catalog, Change, Command, Condition, Error, FeedPosition, RawJson, References, Report, Resource,
    ResourceId, Status, Timestamp, Version, last_updated_times, with_last_updated_times,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) rulebook: Arc<Rulebook>,
    pub(crate) rows: BTreeMap<ResourceId, Resource>,
    pub(crate) reports: BTreeMap<(ResourceId, Arc<str>), Report>,
    pub(crate) version: Version,
    pub(crate) history: Vec<Change>,
    /// What was stored with each version.
    states: BTreeMap<Version, Resource>,
    /// The mapped conditions that the last commit left out.
    pub(crate) skipped_conditions: Vec<SkippedCondition>,
}

/// What is loaded for a batch.
pub(crate) struct Loaded {
    pub(crate) set: WorkingSet,
    /// Resources without spec, labels and references, which must not be written.
    pub(crate) light: BTreeSet<ResourceId>,
}

impl Database {
    pub(crate) fn new(rulebook: Arc<Rulebook>) -> Self {
        Self {
            rulebook,
            rows: BTreeMap::new(),
            reports: BTreeMap::new(),
            version: Version(0),
            history: Vec::new(),
            states: BTreeMap::new(),
            skipped_conditions: Vec::new(),
        }
    }

    /// Decides the commands on one working set, as a committer does, and keeps the result.
    pub(crate) fn run(&mut self, commands: &[Command], now: Timestamp) -> Vec<Result<Outcome, Error>> {
        let mut loaded = self.load(&LoadPlan::of(&self.rulebook, commands));
        self.commit(commands, &mut loaded, now)
    }

    /// The same on a set that is loaded already.
    pub(crate) fn commit(
        &mut self,
        commands: &[Command],
        loaded: &mut Loaded,
        now: Timestamp,
    ) -> Vec<Result<Outcome, Error>> {
        let Loaded { set, light } = loaded;
        let answers = commands
            .iter()
            .map(|command| {
                let decision = decide(&self.rulebook, set, command, now)?;
                Ok(if command.dry_run {
                    set.dry_run(decision)
                } else {
                    set.apply(decision, &command.caller, now)
                })
            })
            .collect();
        self.keep(set, light);
        answers
    }

    /// The stored conditions are those that the rules compute of everything else that is stored.
    pub(crate) fn check_computed(&self) {
        let mut set = WorkingSet::new(FeedPosition { version: self.version, ..FeedPosition::default() });
        for row in self.rows.values() {
            set.load(row.clone());
            self.child_counts(row.id).into_iter().for_each(|(kind, n)| set.load_child_count(row.id, kind, n));
        }
        for ((id, _), report) in &self.reports {
            set.load_report(*id, report.clone());
        }
        for row in self.rows.values() {
            let found = mismatches(&self.rulebook, &set, row.id).unwrap();
            assert_eq!(found, [], "of {row:#?}");
        }
    }

    /// Undoing leads from the newest state of each resource, there or gone, to all that were ever stored, and to its
    /// creation. Since when it waited is not kept, nor what a report moved that moved nothing but times.
    pub(crate) fn check_past(&self) {
        let mut states = self.rows.clone();
        for change in self.history.iter().rev() {
            if let Some(last) = &change.last {
                let last = kept(&**last).into_resource(&self.rulebook.catalog).unwrap();
                assert_eq!(states.insert(last.id, last), None, "what went is not there: {change:#?}");
            }
            let state = states.remove(&change.resource).expect("a change of something");
            assert_eq!(state.version, change.version, "no change is missing");
            if let Some(stored) = self.states.get(&change.version) {
                assert_eq!(lasting(&state), lasting(stored), "before {change:#?}");
            }
            match &change.undo {
                Some(undo) => drop(states.insert(state.id, kept(undo).apply(&state))),
                None => assert_eq!(change.entries[0].action, Action::Created),
            }
        }
        assert!(states.is_empty(), "never created: {states:#?}");
    }

    /// The stored reports on a resource, by adapter.
    pub(crate) fn reports_on(&self, id: ResourceId) -> impl Iterator<Item = &Report> {
        self.reports.iter().filter(move |((of, _), _)| *of == id).map(|(_, report)| report)
    }

    fn keep(&mut self, set: &WorkingSet, light: &BTreeSet<ResourceId>) {
        let nothing = set.differences().next().is_none() && set.report_differences().next().is_none();
        assert!(
            !set.is_unchanged() || (nothing && set.changes().is_empty()),
            "unchanged, and yet a difference"
        );
        for (id, before, after) in set.differences() {
            assert_eq!(set.lacks_spec(id), light.contains(&id), "the set knows what it was given");
            let stored = self.rows.get(&id).cloned();
            let loaded = stored.clone().map(|row| if light.contains(&id) { without_spec(row) } else { row });
            assert_eq!(loaded.as_ref(), before, "a difference starts from what was stored");
            let Some(after) = after.cloned() else {
                self.rows.remove(&id);
                self.reports.retain(|(of, _), _| *of != id);
                continue;
            };
            if let Some(before) = before.filter(|before| before.version == after.version) {
                let times = last_updated_times(&after.conditions).unwrap();
                let conditions = with_last_updated_times(before.conditions.as_str(), times);
                let expected = Resource { conditions, ..before.clone() };
                assert_eq!(after, expected, "without a version nothing but last_updated_time moves");
            }
            let row = match stored.filter(|_| light.contains(&id)) {
                Some(stored) => {
                    let same_desired_state = before.is_some_and(|before| before.same_desired_state(&after));
                    assert!(same_desired_state, "a spec that was not loaded is not written: {after:#?}");
                    Resource { spec: stored.spec, references: stored.references, ..after }
                }
                None => after,
            };
            assert_eq!(row.pending_since, pending_since(&row), "it waits since it is not reconciled");
            self.states.entry(row.version).or_insert_with(|| row.clone());
            self.rows.insert(id, row);
        }
        for (id, before, after) in set.report_differences() {
            let key = (id, after.adapter.clone());
            assert!(self.rows.contains_key(&id), "no report without its resource");
            assert_eq!(self.reports.get(&key), before, "a report starts from what was stored");
            // A repeated report is written as its time alone. One that changed its mind twice within a batch says
            // the same in the end, but since another moment.
            let repeats =
                |before: &&Report| after.has_same_content(before) && after.conditions == before.conditions;
            let report = match before.filter(repeats) {
                Some(before) => Report { last_report_time: after.last_report_time, ..before.clone() },
                None => after.clone(),
            };
            self.reports.insert(key, report);
        }
        self.version = set.version();
        self.history.extend_from_slice(set.changes());
        self.skipped_conditions = set.skipped_conditions().to_vec();
    }

    /// Loads what a batch needs.
    pub(crate) fn load(&self, needs: &LoadPlan) -> Loaded {
        let mut set = WorkingSet::new(FeedPosition { version: self.version, ..FeedPosition::default() });
        set.load_changed_time(self.history.last().map(|change| change.at));
        let catalog = self.rulebook.catalog.clone();
        let mut whole = needs.ids.clone();
        self.load_rows(&catalog, &whole, &BTreeSet::new(), &mut set);
        let mut counted = BTreeSet::new();
        let mut computed = needs.statuses.clone();
        for root in needs.roots(&set).iter().filter_map(|id| self.rows.get(id)) {
            let below: Vec<_> =
                self.rows.values().filter(|r| r.id == root.id || r.ancestors.contains(&root.id)).collect();
            for source in self.rows.values() {
                for target in below.iter().filter(|target| targets(source).contains(&target.id)) {
                    set.load_referrer(target.id, source.id);
                    whole.insert(source.id);
                    computed.insert(source.id);
                }
            }
            let surroundings = below.iter().map(|r| r.id).chain(root.ancestors.iter().copied());
            counted.extend(surroundings.clone());
            whole.extend(surroundings);
        }
        let statuses = needs.statuses.iter().filter_map(|id| self.rows.get(id));
        for row in statuses.filter(|row| !row.is_active()) {
            counted.insert(row.id);
            counted.extend(&row.ancestors);
            whole.insert(row.id);
            whole.extend(&row.ancestors);
        }
        computed.extend(&counted);
        let there = |id: &&ResourceId| self.rows.get(id).is_some_and(|row| catalog.get(&row.kind).is_some());
        let light: BTreeSet<_> = computed.difference(&whole).filter(there).copied().collect();
        self.load_rows(&catalog, &whole, &light, &mut set);
        for owner in &counted {
            for (kind, count) in self.child_counts(*owner) {
                set.load_child_count(*owner, kind, count);
            }
        }
        for (kind, place, name) in &needs.names {
            let holder = self
                .rows
                .values()
                .find(|r| r.is_active() && r.kind == *kind && r.name_scope() == *place && r.name == *name);
            if let Some(holder) = holder {
                set.load_name(kind.clone(), place.clone(), name.clone(), holder.id);
            }
        }
        self.load_reports(&catalog, needs, &computed, &mut set);
        let light = if catalog.has_mappings() { BTreeSet::new() } else { light };
        Loaded { set, light }
    }

    fn load_rows(
        &self,
        catalog: &Catalog,
        whole: &BTreeSet<ResourceId>,
        light: &BTreeSet<ResourceId>,
        set: &mut WorkingSet,
    ) {
        for row in self.rows.values().filter(|row| catalog.get(&row.kind).is_some()) {
            if whole.contains(&row.id) || (light.contains(&row.id) && catalog.has_mappings()) {
                set.load(row.clone());
            } else if light.contains(&row.id) {
                set.load_without_spec(without_spec(row.clone()));
            }
        }
    }

    /// Whole reports where they are asked for or mapped conditions look at them, else where the required
    /// adapters stand.
    fn load_reports(
        &self,
        catalog: &Catalog,
        needs: &LoadPlan,
        computed: &BTreeSet<ResourceId>,
        set: &mut WorkingSet,
    ) {
        needs.measured.iter().for_each(|id| set.load_measured(*id));
        for ((id, adapter), report) in &self.reports {
            let Some(entity) = self.rows.get(id).and_then(|row| catalog.get(&row.kind)) else { continue };
            if needs.measured.contains(id) {
                set.load_report_size(*id, adapter.clone(), report.printed_size());
            }
            let mapped = computed.contains(id) && catalog.reads_reports(&entity.kind);
            let fits = self.reports_on(*id).map(Report::printed_size).sum::<usize>() <= needs.report_bytes;
            if mapped && !fits {
                set.load_oversized(*id);
            }
            if needs.reports.contains(&(*id, adapter.clone())) || mapped && fits {
                set.load_report(*id, report.clone());
            } else if computed.contains(id) && entity.requires(adapter) {
                set.load_summary(*id, report.summary());
            }
        }
    }

    fn child_counts(&self, owner: ResourceId) -> BTreeMap<Arc<str>, usize> {
        let mut counts = BTreeMap::new();
        for child in self.rows.values().filter(|r| r.owner() == Some(owner)) {
            *counts.entry(child.kind.clone()).or_insert(0) += 1;
        }
        counts
    }
}

/// What is read again of something that history keeps.
fn kept<T: Serialize + DeserializeOwned>(part: &T) -> T {
    RawJson::from_value(part).parse().unwrap()
}

/// What history keeps of a state.
fn lasting(state: &Resource) -> Resource {
    let times = last_updated_times(&state.conditions).unwrap();
    let conditions = with_last_updated_times(state.conditions.as_str(), vec![state.created.at; times.len()]);
    Resource { conditions, pending_since: None, ..state.clone() }
}

/// A resource as it is loaded where spec and references are not read.
fn without_spec(resource: Resource) -> Resource {
    let nothing = RawJson::from_value(&json!({}));
    Resource { spec: nothing.clone(), references: nothing, ..resource }
}

fn pending_since(resource: &Resource) -> Option<Timestamp> {
    let reconciled = Condition::parse_all(resource.conditions.as_str()).unwrap().swap_remove(0);
    assert_eq!(reconciled.kind, "Reconciled");
    (reconciled.status == Status::False).then_some(reconciled.last_transition_time)
}

/// The ids that a resource refers to.
pub(crate) fn targets(resource: &Resource) -> BTreeSet<ResourceId> {
    resource.references.parse::<References>().unwrap().into_values().flatten().collect()
}
