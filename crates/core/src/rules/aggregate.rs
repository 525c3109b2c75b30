//! Computes the conditions of a resource, and the timeline entries of those whose status changed. Each condition has a file of
//! its own; here are their order and what all recomputations share.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::{ConditionContent, Facts, Latest, ReportSummaries};
use super::{
    Rulebook, WorkingSet, adapter_conditions, last_known_reconciled, legacy_conditions, mapped_conditions,
    reconciled,
};
use crate::condition::ConditionRef;
use crate::{
    Action, Condition, Entity, Entry, Error, FieldChange, MappingFailure, RawJson, Report, Resource, Status,
    Submission, Timestamp, condition,
};

/// The input of a recomputation besides the resource.
pub(super) struct AggregationInput<'a> {
    /// The summaries of its adapters.
    pub(super) summaries: Latest<'a>,
    /// The whole reports, which only mapped conditions look at; `None` if they are too large to be read.
    pub(super) reports: Option<Vec<&'a Report>>,
    /// The children that are left, by kind.
    pub(super) children: &'a BTreeMap<Arc<str>, usize>,
    /// The report that is the reason for computing.
    pub(super) cause: Option<&'a Submission>,
    /// The present.
    pub(super) now: Timestamp,
}

impl<'a> AggregationInput<'a> {
    /// The input for a resource that is being created.
    pub(super) fn nothing(now: Timestamp) -> Self {
        static NO_SUMMARIES: ReportSummaries = ReportSummaries::new();
        static NO_CHILDREN: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        Self {
            summaries: Latest { stored: &NO_SUMMARIES, newest: None },
            reports: Some(Vec::new()),
            children: &NO_CHILDREN,
            cause: None,
            now,
        }
    }

    /// The input from the working set, when the cause is not a report.
    pub(super) fn of(
        set: &'a WorkingSet,
        resource: &Resource,
        children: &'a BTreeMap<Arc<str>, usize>,
        now: Timestamp,
    ) -> Self {
        Self {
            summaries: Latest { stored: set.summaries(resource.id), newest: None },
            reports: set.reports(resource.id),
            children,
            cause: None,
            now,
        }
    }
}

/// What came of computing the conditions anew.
#[derive(Debug, Default)]
pub(super) struct Recomputed {
    /// One entry for each condition whose status changed.
    pub(super) transitions: Vec<Entry>,
    /// Mapped conditions that could not be computed.
    pub(super) failures: Vec<MappingFailure>,
    /// Whether a finalizing resource has nothing left to wait for.
    pub(super) is_removable: bool,
}

/// Recomputes the conditions of `resource` in place.
pub(super) fn recompute_conditions(
    rulebook: &Rulebook,
    entity: &Entity,
    resource: &mut Resource,
    input: &AggregationInput<'_>,
) -> Result<Recomputed, Error> {
    let before = Condition::parse_all(resource.conditions.as_str())?;
    let previous = |kind: &str| before.iter().find(|c| c.kind == kind);
    let facts = Facts::of(entity, resource, input.summaries, input.children, input.cause, input.now);
    let is_removable = facts.is_removable();

    let content = reconciled::content(&facts);
    let mut conditions = vec![facts.condition(reconciled::TYPE, previous(reconciled::TYPE), content)];
    let content = last_known_reconciled::content(&facts, previous(last_known_reconciled::TYPE));
    conditions.push(facts.condition(
        last_known_reconciled::TYPE,
        previous(last_known_reconciled::TYPE),
        content,
    ));
    if rulebook.legacy_conditions {
        conditions.extend(legacy_conditions::conditions(&facts, previous));
    }
    conditions.extend(adapter_conditions::conditions(&facts, previous));
    let mapped = if entity.mappings.is_empty() {
        mapped_conditions::Mapped::default()
    } else {
        mapped_conditions::conditions(
            rulebook,
            entity,
            resource,
            &conditions,
            &facts,
            input.reports.as_deref(),
            previous,
        )?
    };
    conditions.extend(mapped.conditions);

    let transitions = conditions
        .iter()
        .filter_map(|now| transition_entry(previous(&now.kind)?, now, input.cause))
        .collect();
    resource.pending_since = pending_since(&conditions[0]);
    resource.conditions = RawJson::from_value(&conditions);
    Ok(Recomputed { transitions, failures: mapped.failures, is_removable })
}

/// Whether two states of a resource differ in more than when their conditions were confirmed.
pub(super) fn differs_beyond_times(before: &Resource, after: &Resource) -> Result<bool, Error> {
    let times = condition::last_updated_times(&after.conditions)?;
    Ok(condition::with_last_updated_times(before.conditions.as_str(), times) != after.conditions)
}

/// Since when the resource is not reconciled.
fn pending_since(reconciled: &Condition) -> Option<Timestamp> {
    (reconciled.status == Status::False).then_some(reconciled.last_transition_time)
}

/// The entry of a condition whose status changed, with the adapter whose report did it.
fn transition_entry(before: &Condition, now: &Condition, cause: Option<&Submission>) -> Option<Entry> {
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

/// The conditions after a report that changes no status, as nearly all do.
pub(super) struct Confirmed {
    pub(super) conditions: RawJson,
    /// Whether one of them says something else than before.
    pub(super) content_changed: bool,
}

/// Computes the conditions when none changes its status. `None` if one does; [`recompute_conditions`] then computes all.
pub(super) fn without_transition(facts: &Facts<'_>, conditions: &RawJson) -> Option<Confirmed> {
    let condition_refs = ConditionRef::parse_all(conditions.as_str())?;
    let [reconciled, last_known, adapters @ ..] = condition_refs.as_slice() else { return None };
    let reported = facts.adapters.iter().filter_map(|adapter| Some((adapter.condition, adapter.summary?)));
    if reported.clone().count() != adapters.len() {
        return None;
    }
    let mut list = PrintedConditions {
        text: Vec::with_capacity(conditions.as_str().len() + 256),
        content_changed: false,
    };
    list.add(reconciled, reconciled::TYPE, &reconciled::content(facts))?;
    let before = condition(last_known)?;
    list.add(last_known, last_known_reconciled::TYPE, &last_known_reconciled::content(facts, Some(&before)))?;
    for ((kind, summary), condition_ref) in reported.zip(adapters) {
        list.add(condition_ref, kind, &adapter_conditions::content(summary))?;
    }
    list.text.push(b']');
    let conditions = RawJson::from_stored(String::from_utf8(list.text).ok()?);
    Some(Confirmed { conditions, content_changed: list.content_changed })
}

/// The conditions as far as they are printed.
struct PrintedConditions {
    text: Vec<u8>,
    content_changed: bool,
}

impl PrintedConditions {
    /// Adds what `content` makes of a condition whose status it does not change.
    fn add(&mut self, before: &ConditionRef<'_>, kind: &str, content: &ConditionContent<'_>) -> Option<()> {
        if before.kind != kind || before.status != content.status {
            return None;
        }
        let at = content.last_updated_time;
        self.text.push(if self.text.is_empty() { b'[' } else { b',' });
        if before.reason == content.reason
            && before.message == content.message
            && before.observed_generation == content.observed_generation
        {
            before.write_with_time(at, &mut self.text);
        } else {
            self.content_changed = true;
            let words = (&*content.reason, &*content.message);
            before.write_with_words(words, content.observed_generation, at, &mut self.text);
        }
        Some(())
    }
}

/// The parts of the next condition by which a change is recognised.
fn condition(condition_ref: &ConditionRef<'_>) -> Option<Condition> {
    let time = condition_ref.last_updated_time()?;
    Some(Condition {
        kind: String::new(),
        status: condition_ref.status,
        reason: String::new(),
        message: String::new(),
        observed_generation: condition_ref.observed_generation,
        created_time: time,
        last_updated_time: time,
        last_transition_time: time,
    })
}
