//! Report: an adapter's status of a resource. The contract's table of outcomes decides whether the report is stored
//! and aggregated; the report that completes a deletion removes the resource.

use std::collections::BTreeMap;

use serde_json::Value;

use super::aggregate::{AggregationInput, Recomputed};
use super::facts::{Facts, Latest};
use super::removal::{remaining_children, remove_or_recompute_owners};
use super::{
    Decision, DecisionResult, ResourceKey, Rulebook, WorkingSet, Write, WriteKind, aggregate,
    find_without_owners,
};
use crate::diff::{MAX_PATH, diff};
use crate::json::member;
use crate::{
    Action, Caller, Entry, Error, Fault, FaultKind, Faults, FieldChange, IdSet, MANDATORY, Recorded, Report,
    ReportedCondition, ReportedStatus, Resource, Submission, SubmitReport, Timestamp, Verb,
};

/// The outcome of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    /// The report was stored and changed something.
    Stored(Report),
    /// The report was stored and only moved times.
    Unchanged(Report),
    /// Discarded: the resource has not reached the report's generation.
    FutureGeneration,
    /// Discarded: a newer report is stored.
    Stale,
    /// Discarded: the adapter reports `Available=Unknown` after an earlier definite status.
    Unknown,
}

/// What the contract's table of outcomes does with a report.
enum Disposition {
    Discard(Reported),
    Keep,
    KeepAndAggregate,
}

pub(super) fn decide(
    rulebook: &Rulebook,
    set: &WorkingSet,
    submit: &SubmitReport,
    caller: &Caller,
    now: Timestamp,
) -> Result<Decision, Error> {
    let SubmitReport { target, submission } = submit;
    let current = find_without_owners(set, target, caller, Verb::Report)?;
    let entity = rulebook.entity(&current.kind)?;
    let stored = set.report(current.id, &submission.adapter);
    let aggregates = match disposition(current, stored, submission, now)? {
        Disposition::Discard(discarded) => {
            return Ok(Decision::new(
                Vec::new(),
                DecisionResult::Report(ResourceKey::of(current), discarded),
            ));
        }
        Disposition::Keep => false,
        Disposition::KeepAndAggregate => true,
    };
    let Recorded { report, changes: documents } = submission.record(stored, now);
    let changes_report = stored.is_none_or(|stored| !report.has_same_content(stored));
    rulebook.report_limits.check(entity, &report, set.report_sizes(current.id))?;

    let summary = report.summary();
    let summaries = Latest { stored: set.summaries(current.id), newest: Some(&summary) };
    let children = remaining_children(set, current.id, &IdSet::default());
    let mut entries = Vec::new();
    if changes_report {
        entries.push(entry(stored, &report, documents)?);
    }
    if aggregates && entity.mappings.is_empty() && !rulebook.legacy_conditions {
        let facts = Facts::of(entity, current, summaries, &children, Some(submission), now);
        if let Some(confirmed) =
            aggregate::without_transition(&facts, &current.conditions).filter(|_| !facts.is_removable())
        {
            let changes = changes_report || confirmed.content_changed;
            let resource = current.with_conditions(confirmed.conditions);
            let kind = if changes { WriteKind::Changed } else { WriteKind::TimesOnly };
            let write = Write { resource, kind, entries, failures: Vec::new() };
            return Ok(decision(vec![write], current, report, changes));
        }
    }

    let mut resource = current.clone();
    let recomputed = if aggregates {
        let reports = set.reports(current.id).map(|mut reports| {
            reports.retain(|other| other.adapter != report.adapter);
            reports.push(&report);
            reports.sort_by(|a, b| a.adapter.cmp(&b.adapter));
            reports
        });
        let input =
            AggregationInput { summaries, reports, children: &children, cause: Some(submission), now };
        aggregate::recompute_conditions(rulebook, entity, &mut resource, &input)?
    } else {
        Recomputed::default()
    };

    let changes = changes_report || aggregate::differs_beyond_times(current, &resource)?;
    entries.extend(recomputed.transitions);
    let kind = match (recomputed.is_removable, changes) {
        (true, _) => WriteKind::Removed,
        (false, true) => WriteKind::Changed,
        (false, false) => WriteKind::TimesOnly,
    };
    if recomputed.is_removable {
        entries.push(Entry::new(Action::Deleted, Vec::new()));
    }
    let mut writes = vec![Write { resource, kind, entries, failures: recomputed.failures }];
    if recomputed.is_removable {
        let mut removed = IdSet::from_iter([current.id]);
        remove_or_recompute_owners(rulebook, set, current, now, &mut removed, &mut writes)?;
    }
    Ok(decision(writes, current, report, changes))
}

/// The decision to store a report.
fn decision(writes: Vec<Write>, about: &Resource, report: Report, changes: bool) -> Decision {
    let reported =
        if changes { Reported::Stored(report.clone()) } else { Reported::Unchanged(report.clone()) };
    let result = DecisionResult::Report(ResourceKey::of(about), reported);
    Decision { writes, result, report: Some((about.id, report)) }
}

/// The first row of the table of outcomes that fits. The caller has checked rows 1 and 2: the body is valid and the
/// resource exists.
fn disposition(
    resource: &Resource,
    stored: Option<&Report>,
    report: &Submission,
    now: Timestamp,
) -> Result<Disposition, Error> {
    if report.observed_generation > resource.generation {
        return Ok(Disposition::Discard(Reported::FutureGeneration));
    }
    if let Some(stored) = stored {
        let same_generation = report.observed_generation == stored.observed_generation;
        // A stored time in the future was written by a wrong clock, and no report would be newer.
        let stored_at = Some(stored.last_report_time).filter(|stored| *stored <= now);
        if report.observed_generation < stored.observed_generation
            || (same_generation && stored_at.is_some_and(|stored| report.time(now) < stored))
        {
            return Ok(Disposition::Discard(Reported::Stale));
        }
    }
    refuse_missing_conditions(report)?;
    if !resource.is_active() && report.is_finalized() {
        return Ok(Disposition::KeepAndAggregate);
    }
    Ok(match (report.available(), stored) {
        (Some(ReportedStatus::Unknown), Some(_)) => Disposition::Discard(Reported::Unknown),
        (Some(ReportedStatus::Unknown), None) => Disposition::Keep,
        _ => Disposition::KeepAndAggregate,
    })
}

fn refuse_missing_conditions(report: &Submission) -> Result<(), Error> {
    let missing: Vec<&str> = MANDATORY.into_iter().filter(|kind| report.status(kind).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("conditions must hold {}; missing: {}", MANDATORY.join(", "), missing.join(", "));
    let fault = Fault::new(FaultKind::Value, "conditions", message).rule("required").allowed(MANDATORY);
    Err(Faults::one(fault).into_error())
}

/// The timeline entry of a report.
fn entry(before: Option<&Report>, after: &Report, documents: Vec<FieldChange>) -> Result<Entry, Error> {
    let mut changes = Vec::new();
    let generation = before.map(|report| report.observed_generation);
    if generation != Some(after.observed_generation) {
        let (from, to) = (generation.map(Value::from), Some(after.observed_generation.into()));
        changes.push(FieldChange { path: "observed_generation".to_owned(), from, to });
    }
    changes.extend(condition_changes(before.map_or(&[], |report| &report.conditions), &after.conditions));
    changes.extend(documents);
    if let (Some(removed), None) = (before.and_then(|report| report.metadata.as_ref()), &after.metadata) {
        changes.push(FieldChange { path: "metadata".to_owned(), from: Some(removed.parse()?), to: None });
    }
    Ok(Entry { adapter: Some(after.adapter.clone()), ..Entry::new(Action::ReportChanged, changes) })
}

/// The differences between two lists of conditions, by type and member.
fn condition_changes(before: &[ReportedCondition], after: &[ReportedCondition]) -> Vec<FieldChange> {
    if before.iter().map(|c| &c.kind).eq(after.iter().map(|c| &c.kind)) {
        return before.iter().zip(after).flat_map(|(before, after)| changes_of_one(before, after)).collect();
    }
    let by_type = |list: &[ReportedCondition]| -> Value {
        let by_type: BTreeMap<_, _> = list.iter().map(|c| (c.kind.to_string(), condition_value(c))).collect();
        Value::Object(by_type.into_iter().collect())
    };
    diff("conditions", &by_type(before), &by_type(after))
}

/// The differences between two conditions of one type, equal to those of their JSON values.
fn changes_of_one(before: &ReportedCondition, after: &ReportedCondition) -> Vec<FieldChange> {
    if (before.status, &before.reason, &before.message) == (after.status, &after.reason, &after.message) {
        return Vec::new();
    }
    let path = member("conditions", &before.kind);
    if path.len() > MAX_PATH {
        return diff(&path, &condition_value(before), &condition_value(after));
    }
    let change = |name: &str, from: Option<&str>, to: Option<&str>| {
        let value = |text: Option<&str>| text.map(Value::from);
        (from != to).then(|| FieldChange { path: member(&path, name), from: value(from), to: value(to) })
    };
    let changes = [
        change("status", Some(before.status.name()), Some(after.status.name())),
        change("reason", before.reason.as_deref(), after.reason.as_deref()),
        change("message", before.message.as_deref(), after.message.as_deref()),
    ];
    let (there, new): (Vec<_>, Vec<_>) =
        changes.into_iter().flatten().partition(|change| change.from.is_some());
    there.into_iter().chain(new).collect()
}

fn condition_value(condition: &ReportedCondition) -> Value {
    let mut members = serde_json::Map::new();
    members.insert("status".into(), condition.status.name().into());
    members.extend(condition.reason.as_deref().map(|reason| ("reason".into(), reason.into())));
    members.extend(condition.message.as_deref().map(|message| ("message".into(), message.into())));
    Value::Object(members)
}
