//! The rules: what a command does, decided on a working set in memory.
//!
//! A rule reads the working set and returns a [`Decision`]; it changes nothing itself. So a
//! command that is refused, or whose rule panics, leaves no trace, and many commands can share
//! one commit. Both stores load the set that [`Needs`] names and persist what [`WorkingSet`]
//! ends up with.

mod aggregate;
mod by_adapter;
mod confirm;
mod create;
mod delete;
mod dossier;
pub mod explain;
mod facts;
mod force_delete;
mod last_known;
mod legacy;
mod mapped;
mod needs;
mod patch;
mod recompute;
mod reconciled;
mod removal;
mod report;
mod successful;
mod working_set;

use std::sync::Arc;

use crate::{
    Caller, Catalog, Command, Contract, Entity, Entry, Error, Intent, MappingFailure, Report, Resource,
    ResourceId, Sight, SpecSchemas, Target, Timestamp, Verb, View,
};

pub use dossier::Dossier;
pub use needs::Needs;
pub use report::Reported;
pub use working_set::{LeftOut, Outcome, Subject, WorkingSet};

/// Counted up when the rules say something else than before of the same reports.
const RULES: u32 = 1;

/// What every rule may look at besides the working set.
#[derive(Debug)]
pub struct Rulebook {
    /// The configured kinds.
    pub catalog: Arc<Catalog>,
    /// Their spec schemas.
    pub schemas: SpecSchemas,
    /// The largest spec that may be stored, in bytes; labels and references may be as large each.
    pub max_member_bytes: usize,
    /// Whose contract is kept.
    pub contract: Contract,
    /// Whether the conditions of the first API revision are there too.
    pub legacy_conditions: bool,
    /// Whether tenants are kept apart.
    pub tenancy: bool,
}

impl Rulebook {
    /// How resources are shown by these rules.
    pub fn view(&self) -> View<'_> {
        View { catalog: &self.catalog, contract: self.contract, tenancy: self.tenancy }
    }

    /// Everything in the configuration that decides the conditions of a kind, as a text that differs when
    /// any of it does.
    pub fn basis(&self, entity: &Entity) -> String {
        let mappings: Vec<String> = entity.mappings.iter().map(crate::Mapping::source).collect();
        serde_json::json!({
            "required_adapters": entity.required_adapters,
            "conditions": mappings,
            "legacy_conditions": self.legacy_conditions,
            "nested_hrefs": self.contract.nests_children,
            "rules": RULES,
        })
        .to_string()
    }

    /// The entity of a stored resource, whose kind is always configured: others are not loaded.
    fn entity(&self, kind: &str) -> Result<&Arc<Entity>, Error> {
        self.catalog.get(kind).ok_or_else(|| Error::internal("unknown kind in the store"))
    }
}

/// What a command leads to.
#[derive(Debug)]
pub struct Decision {
    /// The resources that change, in the order of their versions.
    writes: Vec<Write>,
    /// What the caller is told.
    answer: Answered,
    /// A report to keep, unless its resource goes.
    report: Option<(ResourceId, Report)>,
}

#[derive(Debug)]
enum Answered {
    /// The resource of a write, by its index.
    Write(usize),
    /// A resource that stays as it is.
    Unchanged(Box<Resource>),
    /// What became of a report on a resource.
    Report(Subject, Reported),
    /// Nobody asked for more than that it is done.
    Nothing,
}

impl Decision {
    fn new(writes: Vec<Write>, answer: Answered) -> Self {
        Self { writes, answer, report: None }
    }

    /// Nothing changes.
    fn unchanged(resource: &Resource) -> Self {
        Self::new(Vec::new(), Answered::Unchanged(Box::new(resource.clone())))
    }
}

/// One changed resource: its new state (the version comes when it is applied) and its history.
#[derive(Debug)]
struct Write {
    resource: Resource,
    fate: Fate,
    entries: Vec<Entry>,
    failures: Vec<MappingFailure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It changed: a new version, with its history.
    Kept,
    /// Only times moved: no version, no history.
    Touched,
    /// It is gone.
    Removed,
}

/// Decides a command. Pure: the working set stays as it is.
pub fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    command: &Command,
    now: Timestamp,
) -> Result<Decision, Error> {
    let caller = &command.caller;
    match &command.intent {
        Intent::Create(create) => create::decide(rulebook, set, create, caller, now),
        Intent::Patch(patch) => patch::decide(rulebook, set, patch, caller, now),
        Intent::Delete(delete) => delete::decide(rulebook, set, delete, caller, now),
        Intent::ForceDelete(force) => force_delete::decide(rulebook, set, force, caller, now),
        Intent::Report(submit) => report::decide(rulebook, set, submit, caller, now),
        Intent::Recompute(ids) => recompute::decide(rulebook, set, ids, now),
    }
}

/// What was answered to a command before, if it is one that comes again. Rights may have changed since: whoever lost
/// those that it takes is told what they would be told without a key, and it is not done again.
pub fn answered(
    rulebook: &Rulebook,
    set: &WorkingSet,
    command: &Command,
    now: Timestamp,
) -> Option<Result<Outcome, Error>> {
    // Whoever only tries does so anew each time.
    let retry = command.retry.as_ref().filter(|_| !command.dry_run)?;
    let sight = &command.caller.sight;
    let verb = match &command.intent {
        Intent::ForceDelete(_) => Verb::ForceDelete,
        _ => Verb::Write,
    };
    let again = |kept: Resource| {
        // It shows what this very caller has been shown before: there is nothing in it to be hidden from them.
        let permitted = sight.permit(verb, &kept);
        if permitted.is_err() {
            decide(rulebook, set, command, now)?;
        }
        permitted.map(|()| Outcome::Again(Box::new(kept)))
    };
    Some(set.answered(&rulebook.catalog, retry)?.and_then(again))
}

/// The resource that a path names, if the caller may do this to it, or the error that names the first part of the
/// path that is not there.
fn find<'a>(
    set: &'a WorkingSet,
    target: &Target,
    caller: &Caller,
    verb: Verb,
) -> Result<&'a Resource, Error> {
    let owner = check_path(set, &target.ancestors, &caller.sight)?;
    let found = seen(set, &target.id, &caller.sight)?
        .filter(|r| target.kind.as_ref().is_none_or(|kind| *kind == r.kind))
        .filter(|r| target.ancestors.is_empty() || r.owner() == owner);
    permitted(found, target, caller, verb)
}

/// The resource with this id, if it exists for the caller. The one way in which a rule comes from an id of a request
/// to a resource.
fn seen<'a>(set: &'a WorkingSet, id: &str, sight: &Sight) -> Result<Option<&'a Resource>, Error> {
    match set.get(id) {
        Some(resource) if sight.sees(resource)? => Ok(Some(resource)),
        _ => Ok(None),
    }
}

fn permitted<'a>(
    found: Option<&'a Resource>,
    target: &Target,
    caller: &Caller,
    verb: Verb,
) -> Result<&'a Resource, Error> {
    let missing = || Error::not_found(target.kind.as_deref().unwrap_or("Resource"), &target.id);
    let found = found.ok_or_else(missing)?;
    caller.sight.permit(verb, found)?;
    Ok(found)
}

/// The resource that a path names, by its own ancestry: nothing but the resource has to be loaded. Which part
/// of a path is wrong it cannot tell.
fn find_alone<'a>(
    set: &'a WorkingSet,
    target: &Target,
    caller: &Caller,
    verb: Verb,
) -> Result<&'a Resource, Error> {
    let named = |r: &&Resource| {
        let owners = r.ancestors.iter().rev().zip(target.ancestors.iter().rev());
        target.kind.as_ref().is_none_or(|kind| *kind == r.kind)
            && r.ancestors.len() >= target.ancestors.len()
            && owners.into_iter().all(|(is, (_, named))| is.to_string() == *named)
    };
    permitted(seen(set, &target.id, &caller.sight)?.filter(named), target, caller, verb)
}

/// Walks the owners that a path names, outermost first, and returns the last one.
fn check_path(
    set: &WorkingSet,
    ancestors: &[(Arc<str>, String)],
    sight: &Sight,
) -> Result<Option<ResourceId>, Error> {
    let mut owner = None;
    for (position, (kind, id)) in ancestors.iter().enumerate() {
        let found =
            seen(set, id, sight)?.filter(|r| r.kind == *kind && (position == 0 || r.owner() == owner));
        owner = Some(found.ok_or_else(|| Error::not_found(kind, id))?.id);
    }
    Ok(owner)
}
