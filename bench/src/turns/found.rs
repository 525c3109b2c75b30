//! What two builds were found to do in turns: for each row, how many times the other's rate this one's is.

use std::fmt::{self, Display};

use serde_json::{Value, json};

use crate::findings::{BUSY, Findings, cell, verdict};
use crate::found::Found;
use crate::samples::{Samples, share};
use crate::spread::{Better, Measured, Spread, median};

/// Windows that each has in a round: the first and the last, or the two between.
const WINDOWS: usize = 2;

/// All rounds of both.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) other: Findings,
    pub(super) this: Findings,
}

/// One row of both.
struct Pair<'a> {
    other: &'a Samples,
    this: &'a Samples,
}

impl Pair<'_> {
    fn errors(&self) -> u64 {
        self.other.errors + self.this.errors
    }

    /// Round by round, this one's to the other's.
    fn ratios(&self, figures: impl Fn(&Samples) -> &[f64]) -> Vec<f64> {
        let rounds = figures(self.this).chunks(WINDOWS).zip(figures(self.other).chunks(WINDOWS));
        rounds.map(|(this, other)| this.iter().sum::<f64>() / other.iter().sum::<f64>()).collect()
    }
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.pairs().next().is_none()
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        self.this.samples.iter().filter_map(|this| {
            let same = |other: &&Samples| other.name() == this.name();
            Some(Pair { other: self.other.samples.iter().find(same)?, this })
        })
    }
}

impl Found for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn errors(&self) -> u64 {
        self.other.errors() + self.this.errors()
    }

    fn json(&self) -> Value {
        json!({"other": self.other.json()["rows"], "this": self.this.json()["rows"]})
    }

    fn measured(&self) -> Vec<Measured> {
        let mut all = Vec::new();
        for pair in self.pairs().filter(|pair| pair.errors() == 0) {
            let name = format!("{}, this build to the other", pair.this.name());
            let (rates, tails) =
                (pair.ratios(|samples| &samples.rates), pair.ratios(|samples| &samples.tails));
            all.push(Measured::new(format!("{name}, p99"), "", Better::Less, &tails));
            all.push(Measured::new(name, "", Better::More, &rates));
        }
        all
    }
}

impl Display for Turns {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:<35} {:<35} {:<35} this / other", "", "the other build", "this build")?;
        write!(out, "{:<11} {:<17} {:>5}", "store", "request", "conns")?;
        for _ in 0..2 {
            write!(out, " {:>10} {:>9} {:>7} {:>6}", "per second", "p99 ms", "cpu µs", "gen %")?;
        }
        writeln!(out, "   rate    low–high    p99")?;
        for pair in self.pairs() {
            let Samples { store, operation, connections, .. } = pair.this;
            write!(out, "{store:<11} {:<17} {connections:>5}", operation.name())?;
            for samples in [pair.other, pair.this] {
                let (rate, tail, micros) = (samples.rate(), median(&samples.tails), cell(samples.micros()));
                let busy = share(&samples.cores).unwrap_or(f64::NAN) * 100.0;
                write!(out, " {rate:>10.0} {tail:>9.3} {micros:>7} {busy:>6.0}")?;
            }
            let rates = Spread::of(&pair.ratios(|samples| &samples.rates));
            let tail = median(&pair.ratios(|samples| &samples.tails));
            match pair.errors() {
                0 => writeln!(out, " {:>6.2} {rates:>11} {tail:>6.2}", rates.median)?,
                _ => writeln!(
                    out,
                    " no result: {} wrong answers of the other, {} of this",
                    pair.other.errors, pair.this.errors
                )?,
            }
        }
        let shares = self.pairs().flat_map(|pair| [share(&pair.other.cores), share(&pair.this.cores)]);
        if let Some(share) = shares.flatten().max_by(f64::total_cmp) {
            let word = verdict(share <= BUSY);
            writeln!(out, "\ngenerator at its busiest {share:.2} of its threads  ≤ {BUSY} {word}")?;
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
    use crate::processor::Cores;
    use crate::workload::{Operation, Verb};

    fn outcome(answers: u64, errors: u64) -> Outcome {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latency.record_n(500, answers).unwrap();
        let (window, cores) =
            (Duration::from_secs(1), Cores { generator: 0.95, threads: 1, target: None, busy: 1.6 });
        Outcome { latency, window, errors, first_error: None, held: None, cores: Some(cores) }
    }

    fn turns(other: &[u64], this: &[u64], errors: u64) -> Turns {
        let mut turns = Turns::default();
        for (findings, windows) in [(&mut turns.other, other), (&mut turns.this, this)] {
            for &answers in windows {
                findings.add("sqlite", Operation::Cluster(Verb::Get), 32, outcome(answers, errors));
            }
        }
        turns
    }

    fn ratio(other: &[u64], this: &[u64]) -> Vec<f64> {
        let figure = turns(other, this, 0).measured().pop().unwrap();
        assert_eq!(figure.name, "sqlite get @32, this build to the other");
        figure.rounds
    }

    #[test]
    fn the_windows_of_a_round_are_held_against_each_other() {
        assert_eq!(ratio(&[100, 100, 50, 30], &[120, 80, 80, 80]), [1.0, 2.0]);
    }

    #[test]
    fn a_machine_that_gets_slower_favours_nobody() {
        // The other, this, this and the other, each a tenth of the first less than the one before.
        assert_eq!(ratio(&[100, 70], &[90, 80]), [1.0]);
    }

    #[test]
    fn both_are_shown_with_what_they_cost_and_whether_it_was_the_generator() {
        let text = turns(&[100, 100], &[110, 130], 0).to_string();
        assert!(text.contains("100     0.500 16000.0     95        120     0.500"), "{text}");
        assert!(text.contains("  1.20   1.20–1.20   1.00\n"), "{text}");
        assert!(text.ends_with("0.95 of its threads  ≤ 0.9 MISS\n"), "{text}");
    }

    #[test]
    fn a_row_with_a_wrong_answer_is_no_result() {
        let turns = turns(&[100, 100], &[100, 100], 1);
        assert!(turns.to_string().contains("no result: 2 wrong answers of the other, 2 of this"));
        assert!(turns.measured().is_empty() && !turns.is_empty());
        assert_eq!(turns.errors(), 4);
    }
}
