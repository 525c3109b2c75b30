//! Compares one resource with what it must be by its reports, children and references, and by the rules.

use std::collections::BTreeSet;

use hyperfleet_core::rules::{Rulebook, WorkingSet, mismatches};
use hyperfleet_core::{Condition, References, ReportSummary, Resource, ResourceId, Timestamp};
use hyperfleet_store::{TextRow, updated_after_of};

use crate::findings::Findings;
use crate::stored::{Cells, StoredReport, StoredResource};

/// How far a time may be ahead of the database, because clocks of callers may be.
const TOLERANCE: i64 = 300_000_000;

/// What is stored about a resource in other tables.
pub(crate) struct ExpectedState<'a> {
    /// The rows of its references: type and target.
    pub(crate) references: BTreeSet<(String, String)>,
    /// Its reports by adapter, as far as they can be read.
    pub(crate) reports: Vec<(String, Result<StoredReport, String>)>,
    /// The settings by which its conditions were computed.
    pub(crate) settings: Option<&'a str>,
    /// The present of the database.
    pub(crate) now: Timestamp,
}

/// The present of the database. Without it, which no database leaves out, no time is ahead.
pub(crate) fn present(rows: Vec<TextRow>) -> Timestamp {
    let now = rows.into_iter().next().and_then(|row| Cells::of(row).time().ok());
    now.unwrap_or(Timestamp::from_micros(i64::MAX - TOLERANCE))
}

pub(crate) fn check_time(
    findings: &mut Findings,
    table: &'static str,
    id: impl std::fmt::Display,
    (column, time): (&str, Timestamp),
    now: Timestamp,
) {
    if time.micros() > now.micros() + TOLERANCE {
        findings.note("times", table, &id, format!("{column} not after {now}"), time.to_string());
    }
}

/// Checks a resource. The working set must have its number of children. Returns what had to be left out, and why.
pub(crate) fn check_resource(
    rulebook: &Rulebook,
    set: &mut WorkingSet,
    stored: StoredResource,
    expected_state: ExpectedState<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let StoredResource { resource, owner, updated_after, report_times, .. } = stored;
    let id = resource.id;
    if resource.owner() != owner {
        let name = |owner: Option<ResourceId>| owner.map_or_else(|| "none".to_owned(), |id| id.to_string());
        findings.note(
            "references",
            "resources",
            &id,
            format!("owner_id {}", name(resource.owner())),
            name(owner),
        );
    }
    check_references(&resource, &expected_state.references, findings);
    for (column, time) in [("created_time", resource.created.at), ("updated_time", resource.updated.at)] {
        check_time(findings, "resources", id, (column, time), expected_state.now);
    }
    let Ok(conditions) = Condition::parse_all(resource.conditions.as_str()) else {
        findings.note("rows", "resource_status", &id, "readable", "conditions that are none");
        return None;
    };
    let times = conditions.iter().flat_map(|c| [c.created_time, c.last_updated_time, c.last_transition_time]);
    if let Some(latest) = times.chain(resource.pending_since).max() {
        check_time(findings, "resource_status", id, ("conditions", latest), expected_state.now);
    }
    let computed = updated_after_of(&resource).ok().flatten();
    if computed != updated_after {
        let name = |time: Option<Timestamp>| time.map_or_else(|| "none".to_owned(), |time| time.to_string());
        let expected = format!("updated_after {}", name(computed));
        findings.note("conditions", "resource_status", &id, expected, name(updated_after));
    }

    let reads = rulebook.catalog.reads_reports(&resource.kind);
    let size: i64 =
        expected_state.reports.iter().flat_map(|(_, report)| report).map(StoredReport::size).sum();
    let mut is_complete = true;
    for (adapter, report) in expected_state.reports {
        let place = format!("{id} {adapter}");
        let StoredReport { mut report, mut summary, bytes, .. } = match report {
            Ok(stored) => stored,
            Err(cause) => {
                is_complete = false;
                findings.note("rows", "reports", &place, "readable", cause);
                continue;
            }
        };
        if bytes.is_some_and(|bytes| bytes != report.printed_size() as i64) {
            let (expected, found) = (report.printed_size(), bytes.unwrap_or_default());
            findings.note("rows", "reports", &place, format!("bytes {expected}"), found.to_string());
        }
        if said(&report.summary()) != said(&summary) {
            findings.note("rows", "reports", &place, said(&report.summary()), said(&summary));
        }
        let kept = report_times.get(&adapter).map(|time| Timestamp::from_micros(*time));
        summary.time = kept.map_or(summary.time, |kept| kept.max(summary.time));
        check_time(findings, "reports", &place, ("last_report_time", summary.time), expected_state.now);
        report.last_report_time = summary.time;
        if reads && size <= rulebook.report_limits.bytes as i64 {
            set.load_report(id, report);
        } else if reads {
            set.load_oversized(id);
        }
        set.load_summary(id, summary);
    }
    let entity = rulebook.catalog.get(&resource.kind)?;
    if expected_state.settings != Some(&*rulebook.condition_settings(entity)) {
        return Some(format!(
            "conditions of {}: this configuration computes others than were stored, or they are being computed anew",
            resource.kind
        ));
    }
    set.load(resource);
    match mismatches(rulebook, set, id) {
        _ if !is_complete => {}
        Ok(found) => {
            for mismatch in found {
                let place = format!("{id} {}", mismatch.part);
                findings.note("conditions", "resource_status", &place, mismatch.expected, mismatch.found);
            }
        }
        Err(error) => findings.note("conditions", "resource_status", &id, "computable", error.chain()),
    }
    None
}

/// What the columns of a report say of its body.
fn said(summary: &ReportSummary) -> String {
    let ReportSummary { available, finalized, reason, message, .. } = summary;
    format!("available {}, finalized {finalized}, reason '{reason}', message '{message}'", available.name())
}

/// The references of a resource and their rows.
fn check_references(resource: &Resource, found: &BTreeSet<(String, String)>, findings: &mut Findings) {
    let id = resource.id;
    let references = match resource.references.parse::<References>() {
        Ok(references) => references,
        Err(error) => return findings.note("rows", "resources", &id, "readable references", error.chain()),
    };
    let targets = |(kind, targets): (String, Vec<ResourceId>)| {
        targets.into_iter().map(move |target| (kind.clone(), target.to_string()))
    };
    let expected: BTreeSet<_> = references.into_iter().flat_map(targets).collect();
    for (kind, target) in expected.difference(found) {
        findings.note("references", "resource_references", &id, format!("{kind} {target}"), "none");
    }
    for (kind, target) in found.difference(&expected) {
        findings.note("references", "resource_references", &id, "none", format!("{kind} {target}"));
    }
}
