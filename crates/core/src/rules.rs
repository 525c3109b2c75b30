//! The rules: what a command does, decided on a working set in memory.
//!
//! A rule reads the working set and returns a [`Decision`] without changing anything. So a refused command, or one
//! whose rule panics, leaves no trace, and many commands can share one commit. Both stores load the rows that
//! [`LoadPlan`] names and persist the differences of the [`WorkingSet`].

mod adapter_conditions;
mod aggregate;
mod by_adapter;
mod create;
mod delete;
pub mod explain;
mod facts;
mod force_delete;
mod last_known_reconciled;
mod legacy_conditions;
mod load_plan;
mod mapped_conditions;
mod mismatches;
mod patch;
mod recompute;
mod reconciled;
mod removal;
mod report;
mod report_limits;
mod working_set;

use std::sync::Arc;

use serde_json::Value;

use crate::{
    AccessScope, Caller, Catalog, Command, Contract, Entity, Entry, Error, Intent, MappingFailure, Report,
    Resource, ResourceId, ResourcePath, SpecSchemas, Timestamp, Verb, View,
};

pub use load_plan::LoadPlan;
pub use mismatches::{Mismatch, mismatches};
pub use report::Reported;
pub use report_limits::ReportLimits;
pub use working_set::{Outcome, ResourceKey, SkippedCondition, WorkingSet};

/// Increased when the rules compute other conditions from the same reports than before.
const RULES: u32 = 1;

/// The configuration that every rule reads besides the working set.
#[derive(Debug)]
pub struct Rulebook {
    /// The configured kinds.
    pub catalog: Arc<Catalog>,
    /// Their spec schemas.
    pub schemas: SpecSchemas,
    /// The largest spec that may be stored, in bytes; labels and references may be as large each.
    pub max_member_bytes: usize,
    /// The bounds of the reports on one resource.
    pub report_limits: ReportLimits,
    /// The API contract in force.
    pub contract: Contract,
    /// Whether the conditions of the first API revision are computed too.
    pub legacy_conditions: bool,
    /// Whether tenants are isolated from each other.
    pub tenancy: bool,
    /// The prefix of every `href`.
    pub href_prefix: &'static str,
}

impl Rulebook {
    /// How the API shows resources.
    pub fn view(&self) -> View<'_> {
        View {
            catalog: &self.catalog,
            contract: self.contract,
            tenancy: self.tenancy,
            href_prefix: self.href_prefix,
        }
    }

    /// A text that changes whenever the configuration computes the conditions of a kind differently.
    pub fn condition_settings(&self, entity: &Entity) -> String {
        let mappings: Vec<String> = entity.mappings.iter().map(crate::Mapping::source).collect();
        serde_json::json!({
            "required_adapters": entity.required_adapters,
            "conditions": mappings,
            "legacy_conditions": self.legacy_conditions,
            "nested_hrefs": self.contract.nests_children(),
            "rules": RULES,
        })
        .to_string()
    }

    /// The entity of a stored resource, whose kind is always configured: others are not loaded.
    fn entity(&self, kind: &str) -> Result<&Arc<Entity>, Error> {
        self.catalog.get(kind).ok_or_else(|| Error::internal("unknown kind in the store"))
    }
}

/// What a command does.
#[derive(Debug)]
pub struct Decision {
    /// The resources that change, in the order of their versions.
    writes: Vec<Write>,
    /// What the caller gets.
    result: DecisionResult,
    /// A report to store, unless its resource is removed.
    report: Option<(ResourceId, Report)>,
}

#[derive(Debug)]
enum DecisionResult {
    /// The resource of a write, by its index.
    Write(usize),
    /// A resource that does not change.
    Unchanged(Box<Resource>),
    /// The outcome of a report on a resource.
    Report(ResourceKey, Reported),
    /// A spec of this kind, which takes long to check.
    SpecToCheck(Arc<str>, Value),
    /// The caller needs no more than the completion.
    Nothing,
}

impl Decision {
    fn new(writes: Vec<Write>, result: DecisionResult) -> Self {
        Self { writes, result, report: None }
    }

    /// Nothing changes.
    fn unchanged(resource: &Resource) -> Self {
        Self::new(Vec::new(), DecisionResult::Unchanged(Box::new(resource.clone())))
    }
}

/// One changed resource: its new state, without the version that `apply` assigns, and its timeline entries.
#[derive(Debug)]
struct Write {
    resource: Resource,
    kind: WriteKind,
    entries: Vec<Entry>,
    failures: Vec<MappingFailure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteKind {
    /// The resource gets a new version and a change row.
    Changed,
    /// Only times of conditions moved, so there is no version and no change row.
    TimesOnly,
    /// The resource is removed.
    Removed,
}

/// Decides a command without changing the working set.
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

/// Replays the recorded response of a command with an idempotency key. If the caller has lost the right since, the
/// command is decided again for its error, and never executed twice.
pub fn replay(
    rulebook: &Rulebook,
    set: &WorkingSet,
    command: &Command,
    now: Timestamp,
) -> Option<Result<Outcome, Error>> {
    // A dry run records nothing, so there is nothing to replay.
    let idempotency = command.idempotency.as_ref().filter(|_| !command.dry_run)?;
    let scope = &command.caller.scope;
    let verb = match &command.intent {
        Intent::ForceDelete(_) => Verb::ForceDelete,
        _ => Verb::Write,
    };
    let replay = |recorded: Resource| {
        // The same caller has seen this response before, so read access is not checked again.
        let permitted = scope.permit(verb, &recorded);
        if permitted.is_err() {
            decide(rulebook, set, command, now)?;
        }
        permitted.map(|()| Outcome::Replayed(Box::new(recorded)))
    };
    Some(set.recorded_response(&rulebook.catalog, idempotency)?.and_then(replay))
}

/// The resource at a path, if the caller may apply `verb` to it. The error names the first part of the path that
/// does not exist.
fn find<'a>(
    set: &'a WorkingSet,
    target: &ResourcePath,
    caller: &Caller,
    verb: Verb,
) -> Result<&'a Resource, Error> {
    let owner = check_path(set, &target.ancestors, &caller.scope)?;
    let found = visible(set, &target.id, &caller.scope)?
        .filter(|r| target.kind.as_ref().is_none_or(|kind| *kind == r.kind))
        .filter(|r| target.ancestors.is_empty() || r.owner() == owner);
    permitted(found, target, caller, verb)
}

/// The resource with this id, if it is in the caller's access scope. Every rule looks up ids of a request here.
fn visible<'a>(set: &'a WorkingSet, id: &str, scope: &AccessScope) -> Result<Option<&'a Resource>, Error> {
    match set.get(id) {
        Some(resource) if scope.sees(resource)? => Ok(Some(resource)),
        _ => Ok(None),
    }
}

fn permitted<'a>(
    found: Option<&'a Resource>,
    target: &ResourcePath,
    caller: &Caller,
    verb: Verb,
) -> Result<&'a Resource, Error> {
    let missing = || Error::not_found(target.kind.as_deref().unwrap_or("Resource"), &target.id);
    let found = found.ok_or_else(missing)?;
    caller.scope.permit(verb, found)?;
    Ok(found)
}

/// The resource at a path, checked against its own ancestors, so that no owner has to be loaded. The error cannot
/// name the part of the path that is wrong.
fn find_without_owners<'a>(
    set: &'a WorkingSet,
    target: &ResourcePath,
    caller: &Caller,
    verb: Verb,
) -> Result<&'a Resource, Error> {
    let found = visible(set, &target.id, &caller.scope)?.filter(|resource| target.names(resource));
    permitted(found, target, caller, verb)
}

/// Walks the owners that a path names, outermost first, and returns the last one.
fn check_path(
    set: &WorkingSet,
    ancestors: &[(Arc<str>, String)],
    scope: &AccessScope,
) -> Result<Option<ResourceId>, Error> {
    let mut owner = None;
    for named in ancestors {
        owner = Some(ResourcePath::check_owner(named, owner, visible(set, &named.1, scope)?)?);
    }
    Ok(owner)
}
