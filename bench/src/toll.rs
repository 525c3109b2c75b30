//! What access control was found to cost: the rate that is left of a request, and how much longer others wait beside
//! one who asks too much.

use std::fmt::{self, Display};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::findings::{median, verdict};
use crate::found::Found;
use crate::load::Outcome;
use crate::spread::{Better, Measured};

/// The part of its rate that a request shall keep when everything is checked.
const KEPT: f64 = 0.85;
/// How many times their p99 others may wait beside one who asks too much.
const DISTURBED: f64 = 1.5;

/// What is asked of both doors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asked {
    Get,
    Report,
}

impl Asked {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Report => "report changing",
        }
    }
}

#[derive(Debug)]
struct Row {
    store: &'static str,
    asked: Asked,
    connections: usize,
    /// Without and with checks.
    rates: [Vec<f64>; 2],
    errors: u64,
}

impl Row {
    fn rate(&self, guarded: bool) -> f64 {
        median(&self.rates[usize::from(guarded)])
    }

    fn kept(&self) -> f64 {
        self.rate(true) / self.rate(false)
    }
}

#[derive(Debug)]
struct Neighbours {
    store: &'static str,
    alone: Histogram<u64>,
    beside: Histogram<u64>,
    /// Answers a second to the one who asks too much, refusals included.
    noise: Vec<f64>,
    errors: u64,
}

impl Neighbours {
    fn disturbed(&self) -> f64 {
        p99(&self.beside) / p99(&self.alone)
    }
}

/// In milliseconds.
fn p99(latency: &Histogram<u64>) -> f64 {
    latency.value_at_quantile(0.99) as f64 / 1e3
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    rows: Vec<Row>,
    neighbours: Vec<Neighbours>,
}

impl Toll {
    /// One more round at one of the doors.
    pub(crate) fn add(
        &mut self,
        store: &'static str,
        asked: Asked,
        connections: usize,
        guarded: bool,
        outcome: &Outcome,
    ) {
        let same = |row: &Row| (row.store, row.asked, row.connections) == (store, asked, connections);
        let place = self.rows.iter().position(same).unwrap_or_else(|| {
            self.rows.push(Row { store, asked, connections, rates: Default::default(), errors: 0 });
            self.rows.len() - 1
        });
        let row = &mut self.rows[place];
        row.rates[usize::from(guarded)].push(outcome.rate());
        row.errors += outcome.errors;
    }

    /// One more round of neighbours.
    pub(crate) fn add_neighbours(
        &mut self,
        store: &'static str,
        alone: &Outcome,
        beside: &Outcome,
        noise: &Outcome,
    ) {
        let errors = alone.errors + beside.errors + noise.errors;
        match self.neighbours.iter_mut().find(|row| row.store == store) {
            Some(row) => {
                row.alone += &alone.latency;
                row.beside += &beside.latency;
                row.noise.push(noise.rate());
                row.errors += errors;
            }
            None => self.neighbours.push(Neighbours {
                store,
                alone: alone.latency.clone(),
                beside: beside.latency.clone(),
                noise: vec![noise.rate()],
                errors,
            }),
        }
    }
}

impl Found for Toll {
    fn name(&self) -> &'static str {
        "access"
    }

    fn errors(&self) -> u64 {
        let rows = self.rows.iter().map(|row| row.errors);
        rows.chain(self.neighbours.iter().map(|row| row.errors)).sum()
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "store": row.store, "operation": row.asked.name(), "connections": row.connections,
                "rate_open": row.rate(false), "rate_guarded": row.rate(true), "rounds": row.rates,
                "ratio": row.kept(), "goal": KEPT, "errors": row.errors,
            })
        });
        let neighbours = self.neighbours.iter().map(|row| {
            json!({
                "store": row.store, "p99_ms_alone": p99(&row.alone), "p99_ms_beside": p99(&row.beside),
                "noise_per_second": median(&row.noise), "ratio": row.disturbed(), "at_most": DISTURBED,
                "errors": row.errors,
            })
        });
        json!({"rows": rows.collect::<Vec<_>>(), "neighbours": neighbours.collect::<Vec<_>>()})
    }

    fn measured(&self) -> Vec<Measured> {
        let rows = self.rows.iter().filter(|row| row.errors == 0).map(|row| {
            let [off, on] = &row.rates;
            let kept: Vec<f64> = on.iter().zip(off).map(|(on, off)| on / off).collect();
            let name = format!("{} access to {} @{}", row.store, row.asked.name(), row.connections);
            Measured::new(name, "", Better::More, &kept)
        });
        let well = self.neighbours.iter().filter(|row| row.errors == 0);
        let neighbours = well.map(|row| {
            let name = format!("{} neighbours p99, beside / alone", row.store);
            Measured::new(name, "", Better::Less, &[row.disturbed()])
        });
        rows.chain(neighbours).collect()
    }
}

impl Display for Toll {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let goal = |errors: u64, sign: char, goal: f64, reached: bool| match errors {
            0 => format!("{sign} {goal} {}", verdict(reached)),
            _ => "no result: wrong answers".to_owned(),
        };
        writeln!(
            out,
            "{:<11} {:<16} {:>5} {:>10} {:>10} {:>6}  goal",
            "store", "access to", "conns", "all off /s", "all on /s", "ratio"
        )?;
        for row in &self.rows {
            let Row { store, asked, connections, errors, .. } = row;
            let (off, on, kept) = (row.rate(false), row.rate(true), row.kept());
            let goal = goal(*errors, '≥', KEPT, kept >= KEPT);
            writeln!(
                out,
                "{store:<11} {:<16} {connections:>5} {off:>10.0} {on:>10.0} {kept:>6.2}  {goal}",
                asked.name()
            )?;
        }
        writeln!(
            out,
            "\n{:<11} {:>13} {:>14} {:>9} {:>6}  goal",
            "neighbours", "p99 alone ms", "p99 beside ms", "noise /s", "ratio"
        )?;
        for row in &self.neighbours {
            let Neighbours { store, alone, beside, noise, errors } = row;
            let (alone, beside, noise, ratio) = (p99(alone), p99(beside), median(noise), row.disturbed());
            let goal = goal(*errors, '≤', DISTURBED, ratio <= DISTURBED);
            writeln!(out, "{store:<11} {alone:>13.3} {beside:>14.3} {noise:>9.0} {ratio:>6.2}  {goal}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(answers: u64, micros: u64, errors: u64) -> Outcome {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latency.record_n(micros, answers).unwrap();
        Outcome {
            latency,
            window: Duration::from_secs(1),
            errors,
            first_error: None,
            held: None,
            cores: None,
        }
    }

    fn toll(errors: u64) -> Toll {
        let mut toll = Toll::default();
        toll.add("sqlite", Asked::Get, 32, false, &outcome(1000, 500, 0));
        toll.add("sqlite", Asked::Get, 32, true, &outcome(900, 500, errors));
        toll.add_neighbours(
            "sqlite",
            &outcome(10, 500, 0),
            &outcome(10, 1000, errors),
            &outcome(5000, 100, 0),
        );
        toll
    }

    #[test]
    fn what_is_left_of_a_rate_and_how_much_longer_others_wait_are_held_against_their_goals() {
        let text = toll(0).to_string();
        assert!(text.contains("1000        900   0.90  ≥ 0.85 ok"), "{text}");
        assert!(text.contains("0.500          1.000      5000   2.00  ≤ 1.5 MISS"), "{text}");
    }

    #[test]
    fn a_wrong_answer_is_no_result() {
        let text = toll(1).to_string();
        assert!(!text.contains("ok") && !text.contains("MISS"), "{text}");
        assert_eq!(toll(1).errors(), 2);
    }
}
