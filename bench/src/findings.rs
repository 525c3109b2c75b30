//! What a run found, as a table for people and as JSON for machines. A missed goal is marked and is no failure: this
//! is a measurement, and it is for a person to say what follows from it.

use std::fmt::{self, Display};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::load::Outcome;
use crate::memory::Held;
use crate::reports::Moves;
use crate::workload::{Operation, Verb};

const MIB: f64 = 1024.0 * 1024.0;
/// From this many connections on, reports have goals.
const MANY: usize = 256;
/// How many times its median the slowest hundredth of the reports may take.
const TAIL: f64 = 10.0;
/// By how many percent the memory of a server may grow while it takes reports.
const GROWTH: f64 = 10.0;

/// The rounds of one row of the table.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) store: &'static str,
    pub(crate) operation: Operation,
    pub(crate) connections: usize,
    rates: Vec<f64>,
    latency: Histogram<u64>,
    errors: u64,
    /// From the end of the first warm-up to the end of the last round.
    held: Option<Held>,
}

impl Samples {
    pub(crate) fn new(store: &'static str, operation: Operation, connections: usize, first: Outcome) -> Self {
        Self {
            store,
            operation,
            connections,
            rates: vec![first.rate()],
            errors: first.errors,
            held: first.held,
            latency: first.latency,
        }
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.rates.push(outcome.rate());
        self.errors += outcome.errors;
        self.latency += &outcome.latency;
        if let (Some(held), Some(newest)) = (&mut self.held, outcome.held) {
            held.end = newest.end;
        }
    }

    /// How many times the median the slowest hundredth takes.
    fn tail(&self) -> f64 {
        self.latency.value_at_quantile(0.99) as f64 / self.latency.value_at_quantile(0.5) as f64
    }

    fn is_report_at_many(&self) -> bool {
        matches!(self.operation, Operation::Report(_)) && self.connections >= MANY
    }
}

/// The rounds of one limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) connections: usize,
    pub(crate) rates: Vec<f64>,
}

impl Limit {
    fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

/// Names of the limits.
pub(crate) const UPDATE: &str = "pgbench update";
pub(crate) const SELECT: &str = "pgbench select";
pub(crate) const BARE_ONE: &str = "bare get";
pub(crate) const BARE_LIST: &str = "bare list";

/// The limit that an operation is held against. SQLite's writes too: it has no pgbench of its own, and the question
/// is the same, what a durable write costs here.
fn limit_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Cluster(Verb::Create | Verb::Patch) | Operation::Report(_) => UPDATE,
        Operation::Cluster(Verb::Get) => BARE_ONE,
        Operation::Cluster(Verb::List) => BARE_LIST,
    }
}

/// The part of its limit that an operation shall reach, where there is a goal.
fn goal_of(samples: &Samples) -> Option<f64> {
    let goal = match samples.operation {
        Operation::Cluster(Verb::Create | Verb::Patch) => Some(0.5),
        Operation::Cluster(Verb::Get) => (samples.connections >= 32).then_some(0.5),
        Operation::Cluster(Verb::List) => None,
        Operation::Report(Moves::Content) => (samples.connections >= MANY).then_some(0.6),
        Operation::Report(Moves::Time) => (samples.connections >= MANY).then_some(1.0),
    };
    goal.filter(|_| samples.store == "postgresql")
}

/// A figure that is not a rate, with the most it may be.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) at_most: Option<f64>,
}

/// All of one run.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) limits: Vec<Limit>,
    pub(crate) samples: Vec<Samples>,
    pub(crate) figures: Vec<Figure>,
    /// Whether requests came at a fixed rate, so that rates say nothing about limits.
    pub(crate) open_loop: bool,
}

/// The middle of some values; the mean of the middle two of an even number.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => f64::midpoint(sorted[length / 2 - 1], sorted[length / 2]),
    }
}

/// The word for a goal that is reached or not.
pub(crate) fn verdict(reached: bool) -> &'static str {
    if reached { "ok" } else { "MISS" }
}

impl Findings {
    /// One more round of a limit.
    pub(crate) fn add_limit(&mut self, name: &'static str, connections: usize, rate: f64) {
        let same = |limit: &&mut Limit| limit.name == name && limit.connections == connections;
        match self.limits.iter_mut().find(same) {
            Some(limit) => limit.rates.push(rate),
            None => self.limits.push(Limit { name, connections, rates: vec![rate] }),
        }
    }

    /// One more round of a row.
    pub(crate) fn add(
        &mut self,
        store: &'static str,
        operation: Operation,
        connections: usize,
        outcome: Outcome,
    ) {
        let row = |row: &&mut Samples| {
            (row.store, row.operation, row.connections) == (store, operation, connections)
        };
        match self.samples.iter_mut().find(row) {
            Some(row) => row.add(&outcome),
            None => self.samples.push(Samples::new(store, operation, connections, outcome)),
        }
    }

    /// Wrong answers of all rows; with a single one, the run is no result.
    pub(crate) fn errors(&self) -> u64 {
        self.samples.iter().map(|samples| samples.errors).sum()
    }

    /// The limit of a row: with as many connections as the row; for reports with as many as were best for it, since
    /// the more of them wait, the more share a commit, and it shall not be the limit that suffers from the crowd.
    fn limit(&self, samples: &Samples) -> Option<&Limit> {
        let name = limit_of(samples.operation);
        let mut limits = self.limits.iter().filter(|limit| limit.name == name);
        match samples.operation {
            Operation::Cluster(_) => limits.find(|limit| limit.connections == samples.connections),
            Operation::Report(_) => limits.max_by(|one, other| one.rate().total_cmp(&other.rate())),
        }
    }

    /// The limit of a row and the ratio to it, unless the load was at a fixed rate or an answer was wrong.
    fn ratio(&self, samples: &Samples) -> Option<(&Limit, f64)> {
        let limit = self.limit(samples)?;
        let sound = !self.open_loop && samples.errors == 0;
        sound.then(|| (limit, median(&samples.rates) / limit.rate()))
    }

    /// The same as JSON, with the rates of every round.
    pub(crate) fn json(&self) -> Value {
        let limits = self.limits.iter().map(|limit| {
            json!({"name": limit.name, "connections": limit.connections, "rate": limit.rate(), "rounds": limit.rates})
        });
        let rows = self.samples.iter().map(|samples| {
            let ratio = self.ratio(samples);
            json!({
                "store": samples.store, "operation": samples.operation.name(), "connections": samples.connections,
                "rate": median(&samples.rates), "rounds": samples.rates, "errors": samples.errors,
                "p50_us": samples.latency.value_at_quantile(0.5), "p99_us": samples.latency.value_at_quantile(0.99),
                "limit": limit_of(samples.operation), "limit_connections": ratio.map(|(limit, _)| limit.connections),
                "ratio": ratio.map(|(_, ratio)| ratio), "goal": goal_of(samples),
                "memory_start": samples.held.map(|held| held.start), "memory_end": samples.held.map(|held| held.end),
            })
        });
        let figures = self.figures.iter().map(|figure| {
            json!({"name": figure.name, "value": figure.value, "unit": figure.unit, "at_most": figure.at_most})
        });
        json!({
            "limits": limits.collect::<Vec<_>>(),
            "rows": rows.collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
        })
    }
}

impl Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:<16} {:>5} {:>10}", "limit", "conns", "per second")?;
        for limit in &self.limits {
            writeln!(out, "{:<16} {:>5} {:>10.0}", limit.name, limit.connections, limit.rate())?;
        }
        writeln!(
            out,
            "\n{:<11} {:<16} {:>5} {:>10} {:>10} {:>10} {:>6}  {:<26} {:>6}  goal",
            "store", "request", "conns", "per second", "p50 ms", "p99 ms", "errors", "limit", "ratio"
        )?;
        for samples in &self.samples {
            self.row(out, samples)?;
        }
        writeln!(out)?;
        for samples in &self.samples {
            steadiness(out, samples)?;
        }
        for Figure { name, value, unit, at_most } in &self.figures {
            write!(out, "{name:<36} {value:>9.1} {unit:<4}")?;
            match at_most {
                Some(most) => writeln!(out, " ≤ {most} {unit} {}", verdict(value <= most))?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    }
}

impl Findings {
    fn row(&self, out: &mut fmt::Formatter<'_>, samples: &Samples) -> fmt::Result {
        let Samples { store, operation, connections, rates, latency, errors, .. } = samples;
        let millis =
            |quantile| Duration::from_micros(latency.value_at_quantile(quantile)).as_secs_f64() * 1e3;
        write!(
            out,
            "{store:<11} {:<16} {connections:>5} {:>10.0} {:>10.3} {:>10.3} {errors:>6}",
            operation.name(),
            median(rates),
            millis(0.5),
            millis(0.99)
        )?;
        if let Some((limit, ratio)) = self.ratio(samples) {
            let Limit { name, connections, .. } = limit;
            write!(out, "  {name:<14} @{connections:<4} {:>6.0} {ratio:>6.2}", limit.rate())?;
            if let Some(goal) = goal_of(samples) {
                write!(out, "  ≥ {goal} {}", verdict(ratio >= goal))?;
            }
        }
        if *errors > 0 {
            write!(out, "  no result: wrong answers")?;
        }
        writeln!(out)
    }
}

/// How even the answers of a row were, and what its server held meanwhile, where that was watched.
fn steadiness(out: &mut fmt::Formatter<'_>, samples: &Samples) -> fmt::Result {
    let Some(held) = &samples.held else { return Ok(()) };
    let goal = |value: f64, most: f64| {
        if !samples.is_report_at_many() {
            String::new()
        } else if samples.errors > 0 {
            "no result".to_owned()
        } else {
            format!("≤ {most} {}", verdict(value <= most))
        }
    };
    writeln!(
        out,
        "{:<11} {:<16} {:>5}  p99 / p50 {:>5.1} {:<10} memory {:>6.1} to {:>6.1} MiB, {:>+6.1} % {}",
        samples.store,
        samples.operation.name(),
        samples.connections,
        samples.tail(),
        goal(samples.tail(), TAIL),
        held.start as f64 / MIB,
        held.end as f64 / MIB,
        held.growth(),
        goal(held.growth(), GROWTH),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_middle_two() {
        assert!((median(&[3.0, 100.0, 1.0]) - 3.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 9.0]) - 3.0).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
    }
    fn outcome(answers: u64, errors: u64) -> Outcome {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latency.record_n(500, answers).unwrap();
        let held = Some(Held { start: 100 << 20, end: 130 << 20 });
        Outcome { latency, window: Duration::from_secs(1), errors, first_error: None, held }
    }

    fn findings(errors: u64) -> Findings {
        let mut findings = Findings::default();
        for (clients, rate) in [(1, 300.0), (64, 1000.0), (256, 700.0)] {
            findings.add_limit(UPDATE, clients, rate);
        }
        findings.add("postgresql", Operation::Report(Moves::Content), 256, outcome(800, errors));
        findings
    }

    #[test]
    fn reports_are_held_against_the_best_that_pgbench_can_do() {
        let text = findings(0).to_string();
        assert!(text.contains("pgbench update @64     1000   0.80  ≥ 0.6 ok"), "{text}");
        assert!(text.contains("p99 / p50   1.0 ≤ 10 ok"), "{text}");
        assert!(text.contains("100.0 to  130.0 MiB,  +30.0 % ≤ 10 MISS"), "{text}");
    }

    #[test]
    fn a_row_with_a_wrong_answer_is_no_result() {
        let text = findings(1).to_string();
        assert!(!text.contains("ok") && !text.contains("MISS") && text.contains("no result"), "{text}");
    }

    #[test]
    fn memory_counts_from_the_first_round_to_the_last() {
        let mut findings = findings(0);
        let mut later = outcome(1, 0);
        later.held = Some(Held { start: 150 << 20, end: 104 << 20 });
        findings.add("postgresql", Operation::Report(Moves::Content), 256, later);
        let text = findings.to_string();
        assert!(text.contains("100.0 to  104.0 MiB,   +4.0 % ≤ 10 ok"), "{text}");
    }
}
