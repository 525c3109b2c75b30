//! The rules: what a command does, decided on a working set in memory.
//!
//! A rule reads the working set and returns a [`Decision`]; it changes nothing itself. So a
//! command that is refused, or whose rule panics, leaves no trace, and many commands can share
//! one commit. Both stores load the set that [`Needs`] names and persist what [`WorkingSet`]
//! ends up with.

mod aggregate;
mod create;
mod delete;
mod force_delete;
mod needs;
mod patch;
mod removal;
mod working_set;

use crate::{Catalog, Command, Entry, Error, Intent, Resource, SpecSchemas, Target, Timestamp};

pub use needs::Needs;
pub use working_set::{Outcome, WorkingSet};

/// What every rule may look at besides the working set.
#[derive(Debug)]
pub struct Rulebook {
    /// The configured kinds.
    pub catalog: std::sync::Arc<Catalog>,
    /// Their spec schemas.
    pub schemas: SpecSchemas,
    /// The largest spec that may be stored, in bytes; labels and references may be as large each.
    pub max_member_bytes: usize,
}

/// What a command leads to.
#[derive(Debug)]
pub struct Decision {
    /// The resources that change, in the order of their versions.
    writes: Vec<Write>,
    /// What the caller is told. An index into `writes`, or a resource that stays as it is.
    answer: Answered,
}

#[derive(Debug)]
enum Answered {
    Write(usize),
    Unchanged(Box<Resource>),
}

/// One changed resource: its new state (the version comes when it is applied) and its history.
#[derive(Debug)]
struct Write {
    resource: Resource,
    fate: Fate,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Removed,
}

/// Decides a command. Pure: the working set stays as it is.
pub fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    command: &Command,
    now: Timestamp,
) -> Result<Decision, Error> {
    let actor = &command.caller.actor;
    match &command.intent {
        Intent::Create(create) => create::decide(rulebook, set, create, actor, now),
        Intent::Patch(patch) => patch::decide(rulebook, set, patch, actor, now),
        Intent::Delete(delete) => delete::decide(rulebook, set, delete, actor, now),
        Intent::ForceDelete(force) => force_delete::decide(rulebook, set, force, actor, now),
    }
}

/// The resource that a path names, or the error that names the first part of the path that is
/// not there.
fn find<'a>(set: &'a WorkingSet, target: &Target) -> Result<&'a Resource, Error> {
    let owner = check_path(set, &target.ancestors)?;
    let found = set
        .get(&target.id)
        .filter(|r| target.kind.as_ref().is_none_or(|kind| *kind == r.kind))
        .filter(|r| target.ancestors.is_empty() || r.owner() == owner);
    found.ok_or_else(|| Error::not_found(target.kind.as_deref().unwrap_or("Resource"), &target.id))
}

/// Walks the owners that a path names, outermost first, and returns the last one.
fn check_path(
    set: &WorkingSet,
    ancestors: &[(std::sync::Arc<str>, String)],
) -> Result<Option<crate::ResourceId>, Error> {
    let mut owner = None;
    for (position, (kind, id)) in ancestors.iter().enumerate() {
        let found = set.get(id).filter(|r| r.kind == *kind && (position == 0 || r.owner() == owner));
        owner = Some(found.ok_or_else(|| Error::not_found(kind, id))?.id);
    }
    Ok(owner)
}
