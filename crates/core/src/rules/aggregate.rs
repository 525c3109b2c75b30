//! Puts the conditions of a resource together, and says what flipped. Each condition has a file of its own;
//! here are only their order and what is common to all recomputations.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::{Facts, Latest, Standings};
use super::{Rulebook, WorkingSet, last_known, legacy, mapped, reconciled, successful};
use crate::{
    Action, Condition, Entity, Entry, Error, FieldChange, MappingFailure, RawJson, Report, Resource, Status,
    Submission, Timestamp, condition,
};

/// What is known around a resource when its conditions are computed.
pub(super) struct Known<'a> {
    /// Where its adapters stand.
    pub(super) standings: Latest<'a>,
    /// The whole reports, which only mapped conditions look at.
    pub(super) reports: Vec<&'a Report>,
    /// The children that are left, by kind.
    pub(super) children: &'a BTreeMap<Arc<str>, usize>,
    /// The report that is the reason for computing.
    pub(super) cause: Option<&'a Submission>,
    /// The present.
    pub(super) now: Timestamp,
}

impl<'a> Known<'a> {
    /// What is known of a resource that is just being made.
    pub(super) fn nothing(now: Timestamp) -> Self {
        static NO_STANDINGS: Standings = Standings::new();
        static NO_CHILDREN: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        Self {
            standings: Latest { stored: &NO_STANDINGS, newest: None },
            reports: Vec::new(),
            children: &NO_CHILDREN,
            cause: None,
            now,
        }
    }

    /// What the working set knows of `resource`, when something else than a report is the reason.
    pub(super) fn of(
        set: &'a WorkingSet,
        resource: &Resource,
        children: &'a BTreeMap<Arc<str>, usize>,
        now: Timestamp,
    ) -> Self {
        Self {
            standings: Latest { stored: set.standings(resource.id), newest: None },
            reports: set.reports(resource.id).collect(),
            children,
            cause: None,
            now,
        }
    }
}

/// What came of computing the conditions anew.
#[derive(Debug, Default)]
pub(super) struct Refreshed {
    /// One entry per flipped condition.
    pub(super) flips: Vec<Entry>,
    /// Mapped conditions that could not be computed.
    pub(super) failures: Vec<MappingFailure>,
    /// Whether a finalizing resource has nothing left to wait for.
    pub(super) gone: bool,
}

/// Recomputes the conditions of `resource` in place.
pub(super) fn refresh(
    rulebook: &Rulebook,
    entity: &Entity,
    resource: &mut Resource,
    known: &Known<'_>,
) -> Result<Refreshed, Error> {
    let before: Vec<Condition> = resource.conditions.parse()?;
    let previous = |kind: &str| before.iter().find(|c| c.kind == kind);
    let facts = Facts::of(entity, resource, known.standings, known.children, known.cause, known.now);
    let gone = facts.is_gone();

    let claim = reconciled::claim(&facts);
    let mut conditions = vec![facts.condition(reconciled::TYPE, previous(reconciled::TYPE), claim)];
    let claim = last_known::claim(&facts, previous(last_known::TYPE));
    conditions.push(facts.condition(last_known::TYPE, previous(last_known::TYPE), claim));
    if rulebook.legacy_conditions {
        conditions.extend(legacy::conditions(&facts, previous));
    }
    conditions.extend(successful::conditions(&facts, previous));
    let mapped = if entity.mappings.is_empty() {
        mapped::Mapped::default()
    } else {
        mapped::conditions(rulebook, entity, resource, &conditions, &facts, &known.reports, previous)?
    };
    conditions.extend(mapped.conditions);

    let flips = conditions.iter().filter_map(|now| flip(previous(&now.kind)?, now, known.cause)).collect();
    resource.pending_since = pending_since(&conditions[0]);
    resource.conditions = RawJson::from_value(&conditions);
    Ok(Refreshed { flips, failures: mapped.failures, gone })
}

/// Whether two states of a resource differ in more than when their conditions were confirmed.
pub(super) fn says_something_new(before: &Resource, after: &Resource) -> Result<bool, Error> {
    let times = condition::last_updated_times(&after.conditions)?;
    Ok(condition::with_last_updated_times(before.conditions.as_str(), times) != after.conditions)
}

/// Since when the world does not match the wish.
fn pending_since(reconciled: &Condition) -> Option<Timestamp> {
    (reconciled.status == Status::False).then_some(reconciled.last_transition_time)
}

/// The entry of a condition that flipped, with the adapter whose report did it.
fn flip(before: &Condition, now: &Condition, cause: Option<&Submission>) -> Option<Entry> {
    (before.status != now.status).then(|| {
        let change = FieldChange {
            path: format!("status.conditions.{}", now.kind),
            from: Some(before.status.name().into()),
            to: Some(now.status.name().into()),
        };
        Entry {
            adapter: cause.map(|report| report.adapter.clone()),
            condition: Some(now.kind.clone()),
            ..Entry::new(Action::ConditionChanged, vec![change])
        }
    })
}
