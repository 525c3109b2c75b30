//! Report: what an adapter says about a resource. The table of outcomes decides whether it is kept and whether
//! it counts; the report that completes a deletion removes the resource.

use std::collections::BTreeMap;

use serde_json::Value;

use super::aggregate::{Known, Refreshed};
use super::facts::{Facts, Latest};
use super::removal::{children_left, settle_owners};
use super::{Answered, Decision, Fate, Rulebook, Subject, WorkingSet, Write, aggregate, confirm, find_alone};
use crate::diff::{MAX_PATH, diff};
use crate::json::member;
use crate::{
    Action, Caller, Entry, Error, Fault, FaultKind, Faults, FieldChange, IdSet, MANDATORY, Recorded, Report,
    ReportedCondition, ReportedStatus, Resource, Submission, SubmitReport, Timestamp, Verb,
};

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reported {
    /// It said something new.
    Stored(Report),
    /// It only moved times.
    Unchanged(Report),
    /// It speaks of a generation that the resource has not reached.
    FutureGeneration,
    /// Something newer is stored.
    Stale,
    /// The adapter cannot tell, and once could.
    Unknown,
}

/// What the table of outcomes says.
enum Verdict {
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
    let current = find_alone(set, target, caller, Verb::Report)?;
    let entity = rulebook.entity(&current.kind)?;
    let stored = set.report(current.id, &submission.adapter);
    let aggregates = match judge(current, stored, submission)? {
        Verdict::Discard(discarded) => {
            return Ok(Decision::new(Vec::new(), Answered::Report(Subject::of(current), discarded)));
        }
        Verdict::Keep => false,
        Verdict::KeepAndAggregate => true,
    };
    let Recorded { report, changes: documents } = submission.record(stored);
    let says_more = stored.is_none_or(|stored| !report.says_the_same(stored));

    let standing = report.standing();
    let standings = Latest { stored: set.standings(current.id), newest: Some(&standing) };
    let children = children_left(set, current.id, &IdSet::default());
    let mut entries = Vec::new();
    if says_more {
        entries.push(entry(stored, &report, documents)?);
    }
    if aggregates && entity.mappings.is_empty() && !rulebook.legacy_conditions {
        let facts = Facts::of(entity, current, standings, &children, Some(submission), now);
        if let Some(confirmed) = confirm::confirmed(&facts, &current.conditions).filter(|_| !facts.is_gone())
        {
            let changes = says_more || confirmed.says_more;
            let resource = current.with_conditions(confirmed.conditions);
            let fate = if changes { Fate::Kept } else { Fate::Touched };
            let write = Write { resource, fate, entries, failures: Vec::new() };
            return Ok(decision(vec![write], current, report, changes));
        }
    }

    let mut resource = current.clone();
    let refreshed = if aggregates {
        let others = set.reports(current.id).filter(|other| other.adapter != report.adapter);
        let mut reports: Vec<&Report> = others.chain([&report]).collect();
        reports.sort_by(|a, b| a.adapter.cmp(&b.adapter));
        let known = Known { standings, reports, children: &children, cause: Some(submission), now };
        aggregate::refresh(rulebook, entity, &mut resource, &known)?
    } else {
        Refreshed::default()
    };

    let changes = says_more || aggregate::says_something_new(current, &resource)?;
    entries.extend(refreshed.flips);
    let fate = match (refreshed.gone, changes) {
        (true, _) => Fate::Removed,
        (false, true) => Fate::Kept,
        (false, false) => Fate::Touched,
    };
    if refreshed.gone {
        entries.push(Entry::new(Action::Deleted, Vec::new()));
    }
    let mut writes = vec![Write { resource, fate, entries, failures: refreshed.failures }];
    if refreshed.gone {
        let mut gone = IdSet::from_iter([current.id]);
        settle_owners(rulebook, set, current, now, &mut gone, &mut writes)?;
    }
    Ok(decision(writes, current, report, changes))
}

/// The decision to keep a report.
fn decision(writes: Vec<Write>, about: &Resource, report: Report, changes: bool) -> Decision {
    let answer = if changes { Reported::Stored(report.clone()) } else { Reported::Unchanged(report.clone()) };
    let answer = Answered::Report(Subject::of(about), answer);
    Decision { writes, answer, report: Some((about.id, report)) }
}

/// The table of outcomes: the first row that fits. Rows 1 and 2 are behind us: the body is valid, and the
/// resource is there.
fn judge(resource: &Resource, stored: Option<&Report>, report: &Submission) -> Result<Verdict, Error> {
    if report.observed_generation > resource.generation {
        return Ok(Verdict::Discard(Reported::FutureGeneration));
    }
    if let Some(stored) = stored {
        let same_generation = report.observed_generation == stored.observed_generation;
        if report.observed_generation < stored.observed_generation
            || (same_generation && report.observed_time < stored.last_report_time)
        {
            return Ok(Verdict::Discard(Reported::Stale));
        }
    }
    refuse_missing_conditions(report)?;
    if !resource.is_active() && report.is_finalized() {
        return Ok(Verdict::KeepAndAggregate);
    }
    Ok(match (report.available(), stored) {
        (Some(ReportedStatus::Unknown), Some(_)) => Verdict::Discard(Reported::Unknown),
        (Some(ReportedStatus::Unknown), None) => Verdict::Keep,
        _ => Verdict::KeepAndAggregate,
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

/// What the timeline tells of a report.
fn entry(before: Option<&Report>, after: &Report, documents: Vec<FieldChange>) -> Result<Entry, Error> {
    let mut changes = Vec::new();
    let generation = before.map(|report| report.observed_generation);
    if generation != Some(after.observed_generation) {
        let (from, to) = (generation.map(Value::from), Some(after.observed_generation.into()));
        changes.push(FieldChange { path: "observed_generation".to_owned(), from, to });
    }
    changes.extend(condition_changes(before.map_or(&[], |report| &report.conditions), &after.conditions));
    changes.extend(documents);
    if let (Some(gone), None) = (before.and_then(|report| report.metadata.as_ref()), &after.metadata) {
        changes.push(FieldChange { path: "metadata".to_owned(), from: Some(gone.parse()?), to: None });
    }
    Ok(Entry { adapter: Some(after.adapter.clone()), ..Entry::new(Action::ReportChanged, changes) })
}

/// What differs between two lists of conditions, by type and member.
fn condition_changes(before: &[ReportedCondition], after: &[ReportedCondition]) -> Vec<FieldChange> {
    if before.iter().map(|c| &c.kind).eq(after.iter().map(|c| &c.kind)) {
        return before.iter().zip(after).flat_map(|(before, after)| changes_of_one(before, after)).collect();
    }
    let by_type = |list: &[ReportedCondition]| -> Value {
        let by_type: BTreeMap<_, _> = list.iter().map(|c| (c.kind.to_string(), said(c))).collect();
        Value::Object(by_type.into_iter().collect())
    };
    diff("conditions", &by_type(before), &by_type(after))
}

/// What differs between two conditions of one type, as it would be told of them as values.
fn changes_of_one(before: &ReportedCondition, after: &ReportedCondition) -> Vec<FieldChange> {
    if (before.status, &before.reason, &before.message) == (after.status, &after.reason, &after.message) {
        return Vec::new();
    }
    let path = member("conditions", &before.kind);
    if path.len() > MAX_PATH {
        return diff(&path, &said(before), &said(after));
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

fn said(condition: &ReportedCondition) -> Value {
    let mut said = serde_json::Map::new();
    said.insert("status".into(), condition.status.name().into());
    said.extend(condition.reason.as_deref().map(|reason| ("reason".into(), reason.into())));
    said.extend(condition.message.as_deref().map(|message| ("message".into(), message.into())));
    Value::Object(said)
}
