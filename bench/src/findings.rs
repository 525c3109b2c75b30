//! What a run found of single requests, as a table for people and as JSON for machines. A missed goal is marked and is
//! no failure: this is a measurement, and it is for a person to say what follows from it.

use std::fmt::{self, Display};
use std::time::Duration;

use serde_json::{Value, json};

use crate::found::Found;
use crate::load::Outcome;
use crate::processor::Cores;
use crate::samples::{Limit, Ran, Samples, limit_of, share};
pub(crate) use crate::spread::median;
use crate::spread::{Better, Measured, Spread};
use crate::workload::Operation;

const MIB: f64 = 1024.0 * 1024.0;
/// How many times its median the slowest hundredth of the reports may take.
const TAIL: f64 = 10.0;
/// By how many percent the memory of a server may grow while it takes reports.
const GROWTH: f64 = 10.0;
/// How much of what it may use the generator may use, before it is the generator that is measured: where that is the
/// limit, all builds are alike.
pub(crate) const BUSY: f64 = 0.9;

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

/// The word for a goal that is reached or not.
pub(crate) fn verdict(reached: bool) -> &'static str {
    if reached { "ok" } else { "MISS" }
}

impl Findings {
    /// One more round of a limit.
    pub(crate) fn add_limit(
        &mut self,
        name: &'static str,
        connections: usize,
        Ran { rate, busy }: Ran,
        cores: Option<Cores>,
    ) {
        let same = |limit: &&mut Limit| limit.name == name && limit.connections == connections;
        match self.limits.iter_mut().find(same) {
            Some(limit) => {
                limit.rates.push(rate);
                limit.busy.push(busy);
                limit.cores.extend(cores);
            }
            None => {
                let (rates, busy, cores) = (vec![rate], vec![busy], cores.into_iter().collect());
                self.limits.push(Limit { name, connections, rates, cores, busy });
            }
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

    /// The limit of a row and the ratio to it in each round, unless the load was at a fixed rate or an answer was
    /// wrong. A round is held against the limit of the same round: what disturbed the machine disturbed both.
    fn ratios(&self, samples: &Samples) -> Option<(&Limit, Vec<f64>)> {
        let limit = self.limit(samples)?;
        let sound = !self.open_loop && samples.errors == 0;
        sound.then(|| {
            (limit, samples.rates.iter().zip(&limit.rates).map(|(rate, limit)| rate / limit).collect())
        })
    }

    /// Rows on SQLite against the same on PostgreSQL, round by round, each with the least it shall be.
    fn on_sqlite(&self) -> Vec<(String, Vec<f64>, f64)> {
        let sound = |samples: &&Samples| samples.errors == 0 && !self.open_loop;
        let pairs =
            self.samples.iter().filter(sound).filter(|samples| samples.store == "sqlite").filter_map(|one| {
                let other = self.samples.iter().filter(sound).find(|other| {
                    (other.store, other.operation, other.connections)
                        == ("postgresql", one.operation, one.connections)
                })?;
                let name = format!("sqlite / postgresql: {} @{}", one.operation.name(), one.connections);
                let ratios = one.rates.iter().zip(&other.rates).map(|(one, other)| one / other).collect();
                Some((name, ratios, one.goal_on_sqlite()?))
            });
        pairs.collect()
    }
}

impl Found for Findings {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn errors(&self) -> u64 {
        self.samples.iter().map(|samples| samples.errors).sum()
    }

    fn json(&self) -> Value {
        let limits = self.limits.iter().map(|limit| {
            json!({
                "name": limit.name, "connections": limit.connections, "rate": limit.rate(), "rounds": limit.rates,
                "generator_share": share(&limit.cores), "generator_us": limit.generator_micros(),
                "busy_cores": limit.busy, "cpu_us": limit.micros(),
            })
        });
        let rows = self.samples.iter().map(|samples| {
            let ratio = self.ratios(samples);
            json!({
                "store": samples.store, "operation": samples.operation.name(), "connections": samples.connections,
                "rate": samples.rate(), "rounds": samples.rates, "errors": samples.errors,
                "p50_us": samples.latency.value_at_quantile(0.5), "p99_us": samples.latency.value_at_quantile(0.99),
                "limit": limit_of(samples.operation),
                "limit_connections": ratio.as_ref().map(|(limit, _)| limit.connections),
                "ratio": ratio.map(|(_, ratios)| median(&ratios)), "goal": samples.goal(),
                "generator_share": share(&samples.cores), "cpu_us": samples.micros(),
                "busy_cores": samples.cores.iter().map(|cores| cores.busy).collect::<Vec<_>>(),
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

    fn measured(&self) -> Vec<Measured> {
        let mut all = Vec::new();
        for limit in &self.limits {
            let name = format!("{} @{}", limit.name, limit.connections);
            all.push(Measured::new(name, "/s", Better::More, &limit.rates));
        }
        for samples in self.samples.iter().filter(|samples| samples.errors == 0) {
            let name = samples.name();
            all.push(Measured::new(&name, "/s", Better::More, &samples.rates));
            all.push(Measured::new(format!("{name} p99"), "ms", Better::Less, &samples.tails));
            if let Some((limit, ratios)) = self.ratios(samples) {
                all.push(Measured::new(format!("{name} / {}", limit.name), "", Better::More, &ratios));
            }
        }
        for (name, ratios, _) in self.on_sqlite() {
            all.push(Measured::new(name, "", Better::More, &ratios));
        }
        for figure in &self.figures {
            all.push(Measured::new(&figure.name, figure.unit, Better::Less, &[figure.value]));
        }
        all
    }
}

impl Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.limits.is_empty() {
            writeln!(
                out,
                "{:<16} {:>5} {:>10} {:>15} {:>6}  generator busy",
                "limit", "conns", "per second", "lowest–highest", "cpu µs"
            )?;
        }
        for limit in &self.limits {
            let spread = Spread::of(&limit.rates);
            let (Limit { name, connections, .. }, micros) = (limit, cell(limit.micros()));
            write!(out, "{name:<16} {connections:>5} {:>10.0} {spread:>15} {micros:>6}", spread.median)?;
            match share(&limit.cores).zip(limit.generator_micros()) {
                Some((share, micros)) => {
                    writeln!(out, "  {:.0} %, {micros:.1} µs a request", share * 100.0)?;
                }
                None => writeln!(out)?,
            }
        }
        if !self.samples.is_empty() {
            writeln!(
                out,
                "\n{:<11} {:<16} {:>5} {:>10} {:>15} {:>9} {:>9} {:>6} {:>5} {:>6}  {:<26} {:>6} {:>11}  goal",
                "store",
                "request",
                "conns",
                "per second",
                "lowest–highest",
                "p50 ms",
                "p99 ms",
                "errors",
                "gen %",
                "cpu µs",
                "limit",
                "ratio",
                "low–high"
            )?;
        }
        for samples in &self.samples {
            self.row(out, samples)?;
        }
        writeln!(out)?;
        for samples in &self.samples {
            steadiness(out, samples)?;
        }
        for (name, ratios, least) in self.on_sqlite() {
            let ratio = median(&ratios);
            writeln!(out, "{name:<48} {ratio:>6.2}  ≥ {least} {}", verdict(ratio >= least))?;
        }
        self.generator(out)?;
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
        let Samples { store, operation, connections, rates, latency, errors, cores, .. } = samples;
        let millis =
            |quantile| Duration::from_micros(latency.value_at_quantile(quantile)).as_secs_f64() * 1e3;
        let spread = Spread::of(rates);
        write!(
            out,
            "{store:<11} {:<16} {connections:>5} {:>10.0} {spread:>15} {:>9.3} {:>9.3} {errors:>6} {:>5.0} {:>6}",
            operation.name(),
            spread.median,
            millis(0.5),
            millis(0.99),
            share(cores).unwrap_or(f64::NAN) * 100.0,
            cell(samples.micros())
        )?;
        if let Some((limit, ratios)) = self.ratios(samples) {
            let Limit { name, connections, .. } = limit;
            let spread = Spread::of(&ratios);
            let ratio = spread.median;
            write!(out, "  {name:<14} @{connections:<4} {:>6.0} {ratio:>6.2} {spread:>11}", limit.rate())?;
            if let Some(goal) = samples.goal() {
                write!(out, "  ≥ {goal} {}", verdict(ratio >= goal))?;
            }
        }
        if *errors > 0 {
            write!(out, "  no result: wrong answers")?;
        }
        writeln!(out)
    }

    /// Whether it was the server that was measured and not the generator: the row that kept it busiest.
    fn generator(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.samples.iter().filter_map(|samples| Some((samples, share(&samples.cores)?)));
        if let Some((samples, share)) = shares.max_by(|(_, one), (_, other)| one.total_cmp(other)) {
            let name = format!("generator at its busiest, {}", samples.name());
            writeln!(out, "{name:<60} {share:>6.2} of its threads  ≤ {BUSY} {}", verdict(share <= BUSY))?;
        }
        Ok(())
    }
}

/// A figure in a table, where there is one.
pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.1}"))
}

/// How even the answers of a row of reports were, and what its server held meanwhile.
fn steadiness(out: &mut fmt::Formatter<'_>, samples: &Samples) -> fmt::Result {
    let Some(held) = samples.held.filter(|_| samples.is_report()) else { return Ok(()) };
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
    use hdrhistogram::Histogram;

    use super::*;
    use crate::memory::Held;
    use crate::reports::Moves;
    use crate::samples::UPDATE;

    fn outcome(answers: u64, errors: u64) -> Outcome {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latency.record_n(500, answers).unwrap();
        let held = Some(Held { start: 100 << 20, end: 130 << 20 });
        let cores = Some(Cores { generator: 0.95, threads: 1, target: Some(0.5), busy: 1.6 });
        Outcome { latency, window: Duration::from_secs(1), errors, first_error: None, held, cores }
    }

    fn findings(errors: u64) -> Findings {
        let mut findings = Findings::default();
        for (clients, rate) in [(1, 300.0), (64, 1000.0), (256, 700.0)] {
            findings.add_limit(UPDATE, clients, Ran { rate, busy: Some(1.8) }, None);
        }
        findings.add("postgresql", Operation::Report(Moves::Content), 256, outcome(800, errors));
        findings
    }

    #[test]
    fn reports_are_held_against_the_best_that_pgbench_can_do() {
        let text = findings(0).to_string();
        assert!(text.contains("pgbench update @64     1000   0.80   0.80–0.80  ≥ 0.9 MISS"), "{text}");
        assert!(text.contains("p99 / p50   1.0 ≤ 10 ok"), "{text}");
        assert!(
            text.contains("1000       1000–1000 1800.0") && text.contains("95 2000.0  pgbench"),
            "{text}"
        );
        assert!(text.contains("100.0 to  130.0 MiB,  +30.0 % ≤ 10 MISS"), "{text}");
    }

    #[test]
    fn a_round_is_held_against_the_limit_of_the_same_round() {
        let mut findings = findings(0);
        findings.add_limit(UPDATE, 64, Ran { rate: 2000.0, busy: Some(1.8) }, None);
        findings.add("postgresql", Operation::Report(Moves::Content), 256, outcome(1600, 0));
        let ratios = findings.ratios(&findings.samples[0]).unwrap().1;
        assert!(ratios.iter().all(|ratio| (ratio - 0.8).abs() < 1e-9), "{ratios:?}");
        let figure = findings.measured().into_iter().find(|figure| figure.name.contains('/')).unwrap();
        assert_eq!(
            (figure.name.as_str(), figure.rounds),
            ("postgresql report changing @256 / pgbench update", ratios)
        );
    }

    #[test]
    fn what_nobody_knows_of_a_limit_is_left_empty() {
        let mut findings = Findings::default();
        findings.add_limit(UPDATE, 64, Ran { rate: 1000.0, busy: None }, None);
        let text = findings.to_string();
        assert!(text.contains("1000–1000       \n"), "{text}");
        // What is known of another round counts.
        findings.add_limit(UPDATE, 64, Ran { rate: 1000.0, busy: Some(1.8) }, None);
        let text = findings.to_string();
        assert!(text.contains("1000–1000 1800.0\n"), "{text}");
    }

    #[test]
    fn a_generator_without_time_to_spare_is_told_of() {
        let text = findings(0).to_string();
        assert!(text.contains("0.95 of its threads  ≤ 0.9 MISS"), "{text}");
    }

    #[test]
    fn rows_on_sqlite_are_held_against_the_same_on_postgresql() {
        let mut findings = findings(0);
        findings.add("sqlite", Operation::Report(Moves::Content), 256, outcome(600, 0));
        let text = findings.to_string();
        assert!(
            text.contains("sqlite / postgresql: report changing @256") && text.contains("0.75  ≥ 0.5 ok"),
            "{text}"
        );
    }

    #[test]
    fn a_row_with_a_wrong_answer_is_no_result() {
        let findings = findings(1);
        let text = findings.to_string();
        let row = text.lines().find(|line| line.starts_with("postgresql")).unwrap();
        assert!(!row.contains("ok") && !row.contains("MISS") && row.contains("no result"), "{text}");
        assert!(findings.measured().iter().all(|figure| !figure.name.starts_with("postgresql")));
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
