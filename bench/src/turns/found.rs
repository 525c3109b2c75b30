//! What two builds were found to do in turns: for each row, how many times the other's rate this one's is.

use std::fmt::{self, Display};

use serde_json::{Value, json};

use crate::findings::{Findings, cell};
use crate::found::Found;
use crate::samples::Samples;
use crate::spread::{Better, Measured, Spread};

/// All rounds of both, the other build first.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) findings: [Findings; 2],
}

/// One row of both.
struct Pair<'a> {
    other: &'a Samples,
    this: &'a Samples,
}

impl Pair<'_> {
    /// Round by round: what disturbed the machine for a while disturbed both.
    fn ratios(&self) -> Vec<f64> {
        self.this.rates.iter().zip(&self.other.rates).map(|(this, other)| this / other).collect()
    }
}

impl Turns {
    fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        let [others, these] = &self.findings;
        these.samples.iter().filter_map(|this| {
            let same = |other: &&Samples| other.name() == this.name();
            Some(Pair { other: others.samples.iter().find(same)?, this })
        })
    }
}

impl Found for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn errors(&self) -> u64 {
        self.findings.iter().map(Found::errors).sum()
    }

    fn json(&self) -> Value {
        let [other, this] = &self.findings;
        json!({"other": other.json()["rows"], "this": this.json()["rows"]})
    }

    fn measured(&self) -> Vec<Measured> {
        let sound = self.pairs().filter(|pair| pair.this.errors + pair.other.errors == 0);
        sound
            .map(|pair| {
                let name = format!("{}, this build to the other", pair.this.name());
                Measured::new(name, "", Better::More, &pair.ratios())
            })
            .collect()
    }
}

impl Display for Turns {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:<11} {:<16} {:>5} {:>10} {:>15} {:>6} {:>10} {:>15} {:>6} {:>6} {:>11}",
            "store",
            "request",
            "conns",
            "other, /s",
            "lowest–highest",
            "cpu µs",
            "this, /s",
            "lowest–highest",
            "cpu µs",
            "ratio",
            "low–high"
        )?;
        for pair in self.pairs() {
            let Samples { store, operation, connections, .. } = pair.this;
            write!(out, "{store:<11} {:<16} {connections:>5}", operation.name())?;
            for samples in [pair.other, pair.this] {
                let (spread, micros) = (Spread::of(&samples.rates), cell(samples.micros()));
                write!(out, " {:>10.0} {spread:>15} {micros:>6}", spread.median)?;
            }
            let spread = Spread::of(&pair.ratios());
            match pair.this.errors + pair.other.errors {
                0 => writeln!(out, " {:>6.2} {spread:>11}", spread.median)?,
                _ => writeln!(out, " no result: wrong answers")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;

    use super::*;
    use crate::load::Outcome;
    use crate::workload::{Operation, Verb};

    fn outcome(answers: u64, errors: u64) -> Outcome {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latency.record_n(500, answers).unwrap();
        let window = Duration::from_secs(1);
        Outcome { latency, window, errors, first_error: None, held: None, cores: None }
    }

    fn turns(errors: u64) -> Turns {
        let mut turns = Turns::default();
        for (who, rounds) in [[100, 50, 200], [110, 60, 180]].into_iter().enumerate() {
            for answers in rounds {
                turns.findings[who].add(
                    "sqlite",
                    Operation::Cluster(Verb::Get),
                    32,
                    outcome(answers, errors),
                );
            }
        }
        turns
    }

    #[test]
    fn a_window_is_held_against_the_one_beside_it() {
        let text = turns(0).to_string();
        assert!(text.ends_with("  1.10   0.90–1.20\n"), "{text}");
        let measured = turns(0).measured();
        assert_eq!(measured[0].name, "sqlite get @32, this build to the other");
        assert_eq!(measured[0].rounds, [1.1, 1.2, 0.9]);
    }

    #[test]
    fn a_row_with_a_wrong_answer_is_no_result() {
        let turns = turns(1);
        assert!(turns.to_string().contains("no result") && turns.measured().is_empty());
        assert_eq!(turns.errors(), 6);
    }
}
