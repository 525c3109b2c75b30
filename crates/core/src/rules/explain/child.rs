//! Children that a deletion waits for. Each says what it waits for itself, in the words of its own `Reconciled`, and
//! so does whatever is at the bottom of what is left below it. Those that cannot be named are counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Blocker, BlockerKind, Case, Found, NAMED, Severity, by_force, named};
use crate::rules::facts::join;
use crate::rules::reconciled;
use crate::{Condition, Error, IdMap, Phase, Resource, ResourceId, Timestamp};

/// What is left below, by owner; those that go for longest first.
struct Left<'a>(IdMap<Vec<&'a Resource>>);

/// The children of a finalizing resource.
pub(super) fn blockers(case: &Case<'_>) -> Result<Vec<Found>, Error> {
    let left = Left::of(&case.around.below);
    let shown = left.owned_by(case.around.resource.id).iter().take(NAMED);
    let mut others = case.around.children.clone();
    let mut found = Vec::new();
    for child in shown {
        if let Some(count) = others.get_mut(&child.kind) {
            *count = count.saturating_sub(1);
        }
        found.push(one(case, &left, child)?);
    }
    others.retain(|_, count| *count > 0);
    found.extend(others.iter().map(|(kind, count)| counted(case, kind, *count)));
    Ok(found)
}

impl<'a> Left<'a> {
    fn of(below: &'a [Resource]) -> Self {
        let mut owned: IdMap<Vec<&Resource>> = IdMap::default();
        for resource in below {
            if let Some(owner) = resource.owner() {
                owned.entry(owner).or_default().push(resource);
            }
        }
        owned
            .values_mut()
            .for_each(|siblings| siblings.sort_by_key(|r| (deleted(r), &r.kind, &r.name, r.id)));
        Self(owned)
    }

    fn owned_by(&self, owner: ResourceId) -> &[&'a Resource] {
        self.0.get(&owner).map_or(&[], Vec::as_slice)
    }

    /// How much is below `owner`, by kind.
    fn count_below(&self, owner: ResourceId, counts: &mut BTreeMap<Arc<str>, usize>) {
        for child in self.owned_by(owner) {
            *counts.entry(child.kind.clone()).or_default() += 1;
            self.count_below(child.id, counts);
        }
    }
}

fn deleted(resource: &Resource) -> Option<Timestamp> {
    match &resource.phase {
        Phase::Active => None,
        Phase::Finalizing(deleted) => Some(deleted.at),
    }
}

/// A child by name, with what is at the bottom of it.
fn one(case: &Case<'_>, left: &Left<'_>, child: &Resource) -> Result<Found, Error> {
    let mut bottom = child;
    let mut path = named(child);
    while let Some(next) = left.owned_by(bottom.id).first() {
        bottom = next;
        path.push_str(&format!(" > {}", named(next)));
    }
    let mut detail = format!("{} is not finalized: {}.", named(child), words(child)?);
    if bottom.id != child.id {
        let mut counts = BTreeMap::new();
        left.count_below(child.id, &mut counts);
        let counts = join(counts.iter().map(|(kind, count)| format!("{kind} ({count})")));
        let least = if case.around.more_below { "at least " } else { "" };
        let more = format!(" Left below it: {least}{counts}. At the bottom of {path}: {}.", words(bottom)?);
        detail.push_str(&more);
    }
    let href = case.view.href(bottom);
    let action = format!("Read GET {href}/explain, which says what holds it. {}.", by_force(&href));
    let blocker =
        Blocker { kind: BlockerKind::Child, name: child.name.clone(), since: case.deleted(), detail, action };
    Ok(Found { severity: Severity::Unfinished, blocker })
}

/// What a resource itself says that it waits for.
fn words(resource: &Resource) -> Result<String, Error> {
    let conditions: Vec<Condition> = resource.conditions.parse()?;
    let reconciled = conditions.into_iter().find(|condition| condition.kind == reconciled::TYPE);
    Ok(reconciled.map(|condition| condition.message).unwrap_or_default())
}

/// Children that are not named: out of sight, too many, or of a kind that nobody knows.
fn counted(case: &Case<'_>, kind: &str, count: usize) -> Found {
    let (severity, detail, action) = match case.view.catalog.get(kind) {
        Some(entity) => (
            Severity::Unfinished,
            format!(
                "Left besides those that are named: {kind} ({count}). What you may not read is never named."
            ),
            format!(
                "Read GET {}/{}?showDeleted=true, which lists what you may read of them.",
                case.href, entity.plural
            ),
        ),
        None => (
            Severity::Lasting,
            format!(
                "Left of a kind that is not configured any more, so that nobody can report on it: {kind} ({count})."
            ),
            format!("Put kind {kind} back into the configuration until these are gone."),
        ),
    };
    let name = format!("{kind} ({count})");
    let blocker = Blocker { kind: BlockerKind::Child, name, since: case.deleted(), detail, action };
    Found { severity, blocker }
}
