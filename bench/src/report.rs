//! What a run found, as a table for people and as JSON for machines. A missed goal is marked and is no failure: this
//! is a measurement, and it is for a person to say what follows from it.

use std::fmt::{self, Display};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::load::Outcome;
use crate::workload::Operation;

/// The rounds of one row of the table.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) store: &'static str,
    pub(crate) operation: Operation,
    pub(crate) connections: usize,
    rates: Vec<f64>,
    latency: Histogram<u64>,
    errors: u64,
}

impl Samples {
    pub(crate) fn new(store: &'static str, operation: Operation, connections: usize, first: Outcome) -> Self {
        Self {
            store,
            operation,
            connections,
            rates: vec![first.rate()],
            errors: first.errors,
            latency: first.latency,
        }
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.rates.push(outcome.rate());
        self.errors += outcome.errors;
        self.latency += &outcome.latency;
    }
}

/// The rounds of one limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) connections: usize,
    pub(crate) rates: Vec<f64>,
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
        Operation::Create | Operation::Patch => UPDATE,
        Operation::Get => BARE_ONE,
        Operation::List => BARE_LIST,
    }
}

/// The part of its limit that an operation shall reach, where there is a goal.
fn goal_of(samples: &Samples) -> Option<f64> {
    let goal = match samples.operation {
        Operation::Create | Operation::Patch => true,
        Operation::Get => samples.connections >= 32,
        Operation::List => false,
    };
    (goal && samples.store == "postgresql").then_some(0.5)
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
pub(crate) struct Report {
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

fn verdict(reached: bool) -> &'static str {
    if reached { "ok" } else { "MISS" }
}

impl Report {
    /// The rate of the limit of a row, and the ratio to it, unless the load was at a fixed rate.
    fn ratio(&self, samples: &Samples) -> Option<(f64, f64)> {
        let name = limit_of(samples.operation);
        let same = |limit: &&Limit| limit.name == name && limit.connections == samples.connections;
        let limit = median(&self.limits.iter().find(same)?.rates);
        (!self.open_loop).then(|| (limit, median(&samples.rates) / limit))
    }

    /// The same as JSON, with the rates of every round.
    pub(crate) fn json(&self) -> Value {
        let limits = self.limits.iter().map(|limit| {
            json!({"name": limit.name, "connections": limit.connections, "rate": median(&limit.rates), "rounds": limit.rates})
        });
        let rows = self.samples.iter().map(|samples| {
            let ratio = self.ratio(samples);
            json!({
                "store": samples.store, "operation": samples.operation.name(), "connections": samples.connections,
                "rate": median(&samples.rates), "rounds": samples.rates, "errors": samples.errors,
                "p50_us": samples.latency.value_at_quantile(0.5), "p99_us": samples.latency.value_at_quantile(0.99),
                "limit": limit_of(samples.operation), "ratio": ratio.map(|(_, ratio)| ratio), "goal": goal_of(samples),
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

impl Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:<16} {:>5} {:>10}", "limit", "conns", "per second")?;
        for limit in &self.limits {
            writeln!(out, "{:<16} {:>5} {:>10.0}", limit.name, limit.connections, median(&limit.rates))?;
        }
        writeln!(
            out,
            "\n{:<11} {:<8} {:>5} {:>10} {:>10} {:>10} {:>6}  {:<21} {:>6}  goal",
            "store", "request", "conns", "per second", "p50 ms", "p99 ms", "errors", "limit", "ratio"
        )?;
        for samples in &self.samples {
            self.row(out, samples)?;
        }
        writeln!(out)?;
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

impl Report {
    fn row(&self, out: &mut fmt::Formatter<'_>, samples: &Samples) -> fmt::Result {
        let Samples { store, operation, connections, rates, latency, errors } = samples;
        let millis =
            |quantile| Duration::from_micros(latency.value_at_quantile(quantile)).as_secs_f64() * 1e3;
        write!(
            out,
            "{store:<11} {:<8} {connections:>5} {:>10.0} {:>10.3} {:>10.3} {errors:>6}",
            operation.name(),
            median(rates),
            millis(0.5),
            millis(0.99)
        )?;
        if let Some((limit, ratio)) = self.ratio(samples) {
            write!(out, "  {:<14} {limit:>6.0} {ratio:>6.2}", limit_of(*operation))?;
            if let Some(goal) = goal_of(samples) {
                write!(out, "  ≥ {goal} {}", verdict(ratio >= goal))?;
            }
        }
        writeln!(out)
    }
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
}
