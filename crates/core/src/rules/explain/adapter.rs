//! Required adapters that block a resource. The cases are those of the table of `Reconciled`, in the words of the
//! adapter's report; adapters that are not required never appear.

use super::{Blocker, BlockerKind, ExplainContext, RankedBlocker, Remedy, Severity};
use crate::rules::facts::Adapter;
use crate::{Report, ReportedCondition, ReportedStatus, Timestamp, echo};

/// One blocker for each required adapter that blocks, in configured order.
pub(super) fn blockers(context: &ExplainContext<'_>) -> Vec<RankedBlocker> {
    context.facts.adapters.iter().filter_map(|adapter| blocker(context, adapter)).collect()
}

fn blocker(context: &ExplainContext<'_>, adapter: &Adapter<'_>) -> Option<RankedBlocker> {
    let generation = context.facts.generation;
    let report = context.related.reports.iter().find(|report| *report.adapter == *adapter.name);
    let diagnosis = match report.filter(|_| adapter.is_at(generation)) {
        None => silent(context, adapter, report),
        Some(report) if context.facts.finalizing => unfinished(context, adapter, report)?,
        Some(report) => failing(context, adapter, report)?,
    };
    let Diagnosis { severity, since, detail, mut action } = diagnosis;
    if context.facts.finalizing {
        action.push_str(&format!(" {}.", context.by_force(&context.href)));
    }
    let (kind, name) = (BlockerKind::Adapter, adapter.name.to_owned());
    Some(RankedBlocker { severity, blocker: Blocker { kind, name, since, detail, action } })
}

struct Diagnosis {
    severity: Severity,
    since: Timestamp,
    detail: String,
    action: String,
}

/// The adapter has not reported on the present generation.
fn silent(context: &ExplainContext<'_>, adapter: &Adapter<'_>, report: Option<&Report>) -> Diagnosis {
    let (name, generation) = (adapter.name, context.facts.generation);
    let running = format!("Check that adapter {name} is running and that its logs mention this resource");
    let (since, detail, action) = match (report, adapter.summary) {
        (None, _) => (
            context.pending_since,
            "Has never reported on this resource".to_owned(),
            format!("{running}; it may not handle kind {}.", context.facts.kind),
        ),
        (Some(report), None) => (
            context.pending_since,
            format!(
                "Has looked at generation {} of {generation} and cannot tell yet: {}",
                report.observed_generation,
                conditions_text(report, &["Available"])
            ),
            format!("Wait for its next report, or read the logs of adapter {name}."),
        ),
        (Some(report), Some(_)) => (
            // Its generation was the current one until some time between its last report and the last change.
            context.pending_since.max(report.last_report_time).min(context.facts.changed),
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
    let (since, awaited) = match context.facts.finalizing {
        true => (context.deleted(), format!("Finalized=True at generation {generation}")),
        false => (since, format!("a report on generation {generation}")),
    };
    Diagnosis {
        severity: Severity::Silent,
        since,
        detail: format!("{detail}; {awaited} is awaited."),
        action,
    }
}

/// The adapter has reported on the present generation of a finalizing resource.
fn unfinished(context: &ExplainContext<'_>, adapter: &Adapter<'_>, report: &Report) -> Option<Diagnosis> {
    let (name, generation) = (adapter.name, context.facts.generation);
    if adapter.has_finalized(generation) {
        return None;
    }
    let since = context.deleted();
    let detail = format!("Has not reported Finalized=True at generation {generation}");
    // In a deletion `Available=False` is expected, so it alone is no failure.
    if says(report, "Health", ReportedStatus::False).is_some() {
        let detail =
            format!("{detail}, and is unhealthy: {}.", conditions_text(report, &["Finalized", "Health"]));
        let action = format!("Look into the logs of adapter {name} for what keeps it from cleaning up.");
        return Some(Diagnosis { severity: Severity::Failing, since, detail, action });
    }
    let why = conditions_text(report, &["Finalized"]);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let detail = format!("{detail}{why}; last heard of at {}.", report.last_report_time);
    let action = format!("Give it time to clean up, or look into the logs of adapter {name}.");
    Some(Diagnosis { severity: Severity::Unfinished, since, detail, action })
}

/// The adapter has reported on the present generation of an active resource.
fn failing(context: &ExplainContext<'_>, adapter: &Adapter<'_>, report: &Report) -> Option<Diagnosis> {
    let (name, generation) = (adapter.name, context.facts.generation);
    let reports = context.request(Remedy::ReadReports);
    if let Some(available) = says(report, "Available", ReportedStatus::False) {
        return Some(Diagnosis {
            severity: Severity::Failing,
            since: available.last_transition_time,
            detail: format!("Reports at generation {generation}: {}.", complaints(report)?),
            action: format!(
                "Read {reports} and the logs of adapter {name}; if the spec is wrong, {}.",
                context.request(Remedy::Patch)
            ),
        });
    }
    let health = says(report, "Health", ReportedStatus::False)?;
    Some(Diagnosis {
        severity: Severity::Failing,
        since: health.last_transition_time,
        detail: format!(
            "Unhealthy at generation {generation}, though available: {}.",
            conditions_text(report, &["Health"])
        ),
        action: format!("Read {reports} and look after adapter {name} itself."),
    })
}

/// The condition of this type, if it has this status.
fn says<'a>(report: &'a Report, kind: &str, status: ReportedStatus) -> Option<&'a ReportedCondition> {
    report.conditions.iter().find(|condition| *condition.kind == *kind && condition.status == status)
}

/// The conditions that the adapter reports as `False`.
fn complaints(report: &Report) -> Option<String> {
    let against = |kind: &&str| says(report, kind, ReportedStatus::False).is_some();
    let kinds: Vec<&str> = crate::MANDATORY.into_iter().filter(against).collect();
    (!kinds.is_empty()).then(|| conditions_text(report, &kinds))
}

/// The report's conditions of these types as text.
fn conditions_text(report: &Report, kinds: &[&str]) -> String {
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
