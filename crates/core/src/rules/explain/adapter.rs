//! Required adapters that are in the way. The cases are those of the table of `Reconciled`, told by what the adapter
//! itself has said; adapters that are not required never appear.

use super::{Blocker, BlockerKind, Case, Found, Severity, by_force};
use crate::rules::facts::Adapter;
use crate::{Report, ReportedCondition, ReportedStatus, Timestamp, echo};

/// One for each required adapter that is in the way, in configured order.
pub(super) fn blockers(case: &Case<'_>) -> Vec<Found> {
    case.facts.adapters.iter().filter_map(|adapter| blocker(case, adapter)).collect()
}

fn blocker(case: &Case<'_>, adapter: &Adapter<'_>) -> Option<Found> {
    let generation = case.facts.generation;
    let report = case.around.reports.iter().find(|report| *report.adapter == *adapter.name);
    let verdict = match report.filter(|_| adapter.is_at(generation)) {
        None => silent(case, adapter, report),
        Some(report) if case.facts.finalizing => unfinished(case, adapter, report)?,
        Some(report) => failing(case, adapter, report)?,
    };
    let Verdict { severity, since, detail, mut action } = verdict;
    if case.facts.finalizing {
        action.push_str(&format!(" {}.", by_force(&case.href)));
    }
    let (kind, name) = (BlockerKind::Adapter, adapter.name.to_owned());
    Some(Found { severity, blocker: Blocker { kind, name, since, detail, action } })
}

struct Verdict {
    severity: Severity,
    since: Timestamp,
    detail: String,
    action: String,
}

/// It has not reported on the present generation.
fn silent(case: &Case<'_>, adapter: &Adapter<'_>, report: Option<&Report>) -> Verdict {
    let (name, generation) = (adapter.name, case.facts.generation);
    let running = format!("Check that adapter {name} is running and that its logs speak of this resource");
    let (since, detail, action) = match (report, adapter.snapshot) {
        (None, _) => (
            case.pending_since,
            "Has never reported on this resource".to_owned(),
            format!("{running}; it may not know of kind {}.", case.facts.kind),
        ),
        (Some(report), None) => (
            case.pending_since,
            format!(
                "Has looked at generation {} of {generation} and cannot tell yet: {}",
                report.observed_generation,
                said(report, &["Available"])
            ),
            format!("Wait for its next report, or read the logs of adapter {name}."),
        ),
        (Some(report), Some(_)) => (
            // Its generation was the present one up to a moment between its last report and the last change.
            case.pending_since.max(report.last_report_time).min(case.facts.changed),
            format!(
                "Silent since {}, behind by {}: its last report is on generation {} of {generation}{}",
                report.last_report_time,
                generations(generation.saturating_sub(report.observed_generation)),
                report.observed_generation,
                complaints(report).map(|said| format!(" and says {said}")).unwrap_or_default(),
            ),
            format!(
                "{running} and generation {generation}; reports with Available=Unknown are not kept once it has \
                 reported."
            ),
        ),
    };
    let (since, awaited) = match case.facts.finalizing {
        true => (case.deleted(), format!("Finalized=True at generation {generation}")),
        false => (since, format!("a report on generation {generation}")),
    };
    Verdict { severity: Severity::Silent, since, detail: format!("{detail}; {awaited} is awaited."), action }
}

/// It has reported on the present generation of a finalizing resource.
fn unfinished(case: &Case<'_>, adapter: &Adapter<'_>, report: &Report) -> Option<Verdict> {
    let (name, generation) = (adapter.name, case.facts.generation);
    if adapter.has_finalized(generation) {
        return None;
    }
    let since = case.deleted();
    let detail = format!("Has not reported Finalized=True at generation {generation}");
    // Whatever is taken down is not available, so that alone is no complaint here.
    if says(report, "Health", ReportedStatus::False).is_some() {
        let detail = format!("{detail}, and is unhealthy: {}.", said(report, &["Finalized", "Health"]));
        let action = format!("Look into the logs of adapter {name} for what keeps it from cleaning up.");
        return Some(Verdict { severity: Severity::Failing, since, detail, action });
    }
    let why = said(report, &["Finalized"]);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let detail = format!("{detail}{why}; last heard of at {}.", report.last_report_time);
    let action = format!("Give it time to clean up, or look into the logs of adapter {name}.");
    Some(Verdict { severity: Severity::Unfinished, since, detail, action })
}

/// It has reported on the present generation of an active resource.
fn failing(case: &Case<'_>, adapter: &Adapter<'_>, report: &Report) -> Option<Verdict> {
    let (name, generation) = (adapter.name, case.facts.generation);
    let statuses = format!("GET {}/statuses", case.href);
    if let Some(available) = says(report, "Available", ReportedStatus::False) {
        return Some(Verdict {
            severity: Severity::Failing,
            since: available.last_transition_time,
            detail: format!("Reports at generation {generation}: {}.", complaints(report)?),
            action: format!(
                "Read {statuses} and the logs of adapter {name}; if the wish is at fault, PATCH {}.",
                case.href
            ),
        });
    }
    let health = says(report, "Health", ReportedStatus::False)?;
    Some(Verdict {
        severity: Severity::Failing,
        since: health.last_transition_time,
        detail: format!(
            "Unhealthy at generation {generation}, though available: {}.",
            said(report, &["Health"])
        ),
        action: format!("Read {statuses} and look after adapter {name} itself."),
    })
}

/// The condition of this type, if it has this status.
fn says<'a>(report: &'a Report, kind: &str, status: ReportedStatus) -> Option<&'a ReportedCondition> {
    report.conditions.iter().find(|condition| *condition.kind == *kind && condition.status == status)
}

/// What it says against the resource or itself.
fn complaints(report: &Report) -> Option<String> {
    let against = |kind: &&str| says(report, kind, ReportedStatus::False).is_some();
    let kinds: Vec<&str> = crate::MANDATORY.into_iter().filter(against).collect();
    (!kinds.is_empty()).then(|| said(report, &kinds))
}

/// Its words on these types.
fn said(report: &Report, kinds: &[&str]) -> String {
    let words =
        kinds.iter().filter_map(|kind| report.conditions.iter().find(|c| *c.kind == **kind)).map(|c| {
            let part = |text: Option<&str>, before: &str, after: &str| {
                let text = text.map(echo).filter(|text| !text.trim().is_empty());
                text.map(|text| format!("{before}{text}{after}")).unwrap_or_default()
            };
            let reason = part(c.reason.as_deref(), " (", ")");
            let message = part(c.message.as_deref(), ", '", "'");
            format!("{}={}{reason}{message}", c.kind, c.status.name())
        });
    words.collect::<Vec<_>>().join("; ")
}

fn generations(number: i64) -> String {
    format!("{number} generation{}", if number == 1 { "" } else { "s" })
}
