//! Children that a deletion waits for. Each is named with the message of its own `Reconciled`, and with the deepest
//! resource below it that blocks. Children that cannot be named are counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Blocker, BlockerKind, ExplainContext, NAMED, RankedBlocker, Remedy, Severity, named};
use crate::rules::facts::join;
use crate::rules::reconciled;
use crate::{Condition, Error, IdMap, Phase, Resource, ResourceId, Timestamp};

/// The remaining resources below, by owner, ordered by deletion time.
struct RemainingByOwner<'a>(IdMap<Vec<&'a Resource>>);

/// The children of a finalizing resource.
pub(super) fn blockers(context: &ExplainContext<'_>) -> Result<Vec<RankedBlocker>, Error> {
    let left = RemainingByOwner::of(&context.related.below);
    let shown = left.owned_by(context.related.resource.id).iter().take(NAMED);
    let mut others = context.related.children.clone();
    let mut found = Vec::new();
    for child in shown {
        if let Some(count) = others.get_mut(&child.kind) {
            *count = count.saturating_sub(1);
        }
        found.push(one(context, &left, child)?);
    }
    others.retain(|_, count| *count > 0);
    found.extend(others.iter().map(|(kind, count)| counted(context, kind, *count)));
    Ok(found)
}

impl<'a> RemainingByOwner<'a> {
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

/// A named child, with the deepest blocker below it.
fn one(
    context: &ExplainContext<'_>,
    left: &RemainingByOwner<'_>,
    child: &Resource,
) -> Result<RankedBlocker, Error> {
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
        let least = if context.related.more_below { "at least " } else { "" };
        let more = format!(" Left below it: {least}{counts}. At the bottom of {path}: {}.", words(bottom)?);
        detail.push_str(&more);
    }
    let href = context.view.href(bottom);
    let explain = (context.requests)(Remedy::Explain, &href);
    let action = format!("Read {explain}, which says what holds it. {}.", context.by_force(&href));
    let blocker = Blocker {
        kind: BlockerKind::Child,
        name: child.name.clone(),
        since: context.deleted(),
        detail,
        action,
    };
    Ok(RankedBlocker { severity: Severity::Unfinished, blocker })
}

/// The message of a resource's own `Reconciled`.
fn words(resource: &Resource) -> Result<String, Error> {
    let conditions = Condition::parse_all(resource.conditions.as_str())?;
    let reconciled = conditions.into_iter().find(|condition| condition.kind == reconciled::TYPE);
    Ok(reconciled.map(|condition| condition.message).unwrap_or_default())
}

/// Children that are not named: out of scope, too many, or of an unknown kind.
fn counted(context: &ExplainContext<'_>, kind: &str, count: usize) -> RankedBlocker {
    let (severity, detail, action) = match context.view.catalog.get(kind) {
        Some(entity) => (
            Severity::Unfinished,
            format!(
                "Left besides those that are named: {kind} ({count}). What you may not read is never named."
            ),
            format!(
                "Read {}, which lists what you may read of them.",
                context.request(Remedy::ListChildren(&entity.plural))
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
    let blocker = Blocker { kind: BlockerKind::Child, name, since: context.deleted(), detail, action };
    RankedBlocker { severity, blocker }
}
