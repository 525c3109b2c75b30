//! What a run has found, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::availability::{Measured, Row, UNREADY_LIMIT, table};
use crate::checks::{Check, Findings};
use crate::faults::Kind;
use crate::history::{Action, History, Operation, Outcome};

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) measured: Vec<Measured>,
    /// How long no write was acknowledged in the quiet times between faults.
    pub(crate) quiet: Vec<Duration>,
    pub(crate) findings: Findings,
    pub(crate) counts: Counts,
}

/// How much was recorded.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    operations: usize,
    acknowledged: usize,
    unknown: usize,
    increments: usize,
    reports: usize,
    changes: usize,
    watches: usize,
    events: usize,
    walks: usize,
    /// Answers by their status; 0 for those that did not come.
    answers: BTreeMap<u16, u64>,
}

impl Counts {
    /// Adds the history of one load, and the changes that it made.
    pub(crate) fn add(&mut self, history: &History, changes: usize) {
        let count = |is_so: fn(&Operation) -> bool| history.operations.iter().filter(|it| is_so(it)).count();
        self.operations += history.operations.len();
        self.acknowledged += count(Operation::is_acknowledged);
        self.unknown += count(|it| it.outcome == Outcome::Unknown);
        self.increments += count(|it| matches!(it.action, Action::Increment { .. }) && it.is_acknowledged());
        self.reports += history.reports.len();
        self.changes += changes;
        self.watches += history.watches.len();
        self.events += history.watches.iter().map(|watch| watch.events.len()).sum::<usize>();
        self.walks += history.walks.len();
        for (status, count) in &history.answers {
            *self.answers.entry(*status).or_default() += count;
        }
    }
}

impl Report {
    pub(crate) fn missed(&self) -> usize {
        self.measured.iter().filter(|measured| measured.is_missed()).count()
    }

    pub(crate) fn json(&self) -> Value {
        let faults = self.measured.iter().map(|measured| {
            json!({
                "fault": measured.fault.to_string(),
                "kind": measured.fault.kind.name(),
                "at_seconds": measured.at as f64 / 1e6,
                "stood_still_seconds": measured.gap.as_secs_f64(),
                "limit_seconds": measured.limit.map(|limit| limit.as_secs_f64()),
                "unready_seconds": measured.unready.map(|unready| unready.as_secs_f64()),
                "missed": measured.is_missed(),
            })
        });
        let checks = Check::ALL.map(|check| (check.promise().to_owned(), self.findings.count(check).into()));
        let violations = self.findings.violations.iter();
        let violations = violations.map(|(check, what)| json!({"promise": check.promise(), "what": what}));
        let counts = &self.counts;
        let answers = counts.answers.iter().map(|(status, count)| (status.to_string(), (*count).into()));
        json!({
            "seed": self.seed,
            "operations": counts.operations,
            "acknowledged": counts.acknowledged,
            "unknown": counts.unknown,
            "increments": counts.increments,
            "reports": counts.reports,
            "changes": counts.changes,
            "watches": counts.watches,
            "events": counts.events,
            "walks": counts.walks,
            "answers": answers.collect::<Map<_, _>>(),
            "faults": faults.collect::<Vec<_>>(),
            "quiet_seconds": self.quiet.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "checks": checks.into_iter().collect::<Map<_, _>>(),
            "violations": violations.collect::<Vec<_>>(),
        })
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        writeln!(
            out,
            "\n{} writes ({} acknowledged, {} unknown), {} reports, {} changes, {} watches with {} events, {} walks",
            counts.operations,
            counts.acknowledged,
            counts.unknown,
            counts.reports,
            counts.changes,
            counts.watches,
            counts.events,
            counts.walks
        )?;
        let answers = counts.answers.iter().map(|(status, count)| match status {
            0 => format!("{count} × none"),
            status => format!("{count} × {status}"),
        });
        writeln!(out, "answers: {}\n", answers.collect::<Vec<_>>().join(", "))?;
        writeln!(
            out,
            "{:<20}{:>6}{:>10}{:>10}  limit",
            "writes stood still", "count", "median s", "longest s"
        )?;
        for Row { kind, gaps, missed } in table(&self.measured) {
            let limit = match (kind, kind.limit()) {
                (_, None) => "none".to_owned(),
                (Kind::PostgresFast | Kind::PostgresImmediate, Some(beside)) => {
                    format!("its restart + {}", limit(beside, missed))
                }
                (_, Some(whole)) => limit(whole, missed),
            };
            line(out, &kind.name(), gaps, &limit)?;
        }
        line(out, "without a fault", self.quiet.clone(), "none")?;
        let unready: Vec<Duration> = self.measured.iter().filter_map(|one| one.unready).collect();
        if !unready.is_empty() {
            let late = self.measured.iter().filter(|one| one.is_unready_late()).count();
            writeln!(out)?;
            line(out, "unready when cut off", unready, &limit(UNREADY_LIMIT, late))?;
        }
        writeln!(out)?;
        for check in Check::ALL {
            let result = match self.findings.count(check) {
                0 => "holds".to_owned(),
                count => format!("VIOLATED {count} times"),
            };
            writeln!(out, "{:<52}{result}", check.promise())?;
        }
        let mut violations: Vec<_> = self.findings.violations.iter().collect();
        violations.sort_by_key(|(check, _)| *check);
        for (check, what) in violations {
            writeln!(out, "VIOLATION ({}): {what}", check.promise())?;
        }
        Ok(())
    }
}

fn limit(limit: Duration, missed: usize) -> String {
    let seconds = limit.as_secs_f64();
    if missed == 0 { format!("{seconds} s, met") } else { format!("{seconds} s, MISSED {missed} times") }
}

/// A line of the table: count, median and longest.
fn line(out: &mut fmt::Formatter<'_>, name: &str, mut gaps: Vec<Duration>, limit: &str) -> fmt::Result {
    gaps.sort_unstable();
    let seconds = |place: usize| gaps.get(place).map_or(0.0, Duration::as_secs_f64);
    let (count, median, longest) =
        (gaps.len(), seconds(gaps.len() / 2), seconds(gaps.len().saturating_sub(1)));
    writeln!(out, "{name:<20}{count:>6}{median:>10.3}{longest:>10.3}  {limit}")
}
