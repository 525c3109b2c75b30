//! What watches were found to do: how soon a change arrives, and what a watcher takes that is told nothing.

use std::fmt::{self, Display};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::findings::{median, verdict};
use crate::found::Found;
use crate::spread::{Better, Measured};

/// How late the slowest hundredth may be before a thousand watchers, in milliseconds.
const LATEST: f64 = 50.0;
/// How much memory an idle watcher may take, in KiB.
const IDLE_KIB: f64 = 32.0;

#[derive(Debug)]
struct Row {
    store: &'static str,
    watchers: usize,
    told: Histogram<u64>,
    /// Changes a second that were really made.
    rates: Vec<f64>,
    /// The p99 of each round, in milliseconds.
    tails: Vec<f64>,
    errors: u64,
}

impl Row {
    /// In milliseconds.
    fn quantile(&self, quantile: f64) -> f64 {
        self.told.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    rows: Vec<Row>,
    /// Store, and bytes for each idle watcher.
    idle: Vec<(&'static str, f64)>,
}

impl Streams {
    /// One more round before some watchers.
    pub(crate) fn add(
        &mut self,
        store: &'static str,
        watchers: usize,
        told: &Histogram<u64>,
        rate: f64,
        errors: u64,
    ) {
        let tail = told.value_at_quantile(0.99) as f64 / 1e3;
        match self.rows.iter_mut().find(|row| (row.store, row.watchers) == (store, watchers)) {
            Some(row) => {
                row.told += told;
                row.rates.push(rate);
                row.tails.push(tail);
                row.errors += errors;
            }
            None => {
                let (told, rates, tails) = (told.clone(), vec![rate], vec![tail]);
                self.rows.push(Row { store, watchers, told, rates, tails, errors });
            }
        }
    }

    /// What an idle watcher takes, in bytes.
    pub(crate) fn add_idle(&mut self, store: &'static str, bytes: f64) {
        self.idle.push((store, bytes));
    }
}

impl Found for Streams {
    fn name(&self) -> &'static str {
        "watch"
    }

    /// Wrong answers, and events that never came.
    fn errors(&self) -> u64 {
        self.rows.iter().map(|row| row.errors).sum()
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "store": row.store, "watchers": row.watchers, "changes_per_second": median(&row.rates),
                "p50_ms": row.quantile(0.5), "p99_ms": row.quantile(0.99), "at_most_ms": LATEST,
                "errors": row.errors,
            })
        });
        let idle = self.idle.iter().map(|(store, bytes)| json!({"store": store, "bytes_per_watcher": bytes}));
        json!({"rows": rows.collect::<Vec<_>>(), "idle": idle.collect::<Vec<_>>()})
    }

    fn measured(&self) -> Vec<Measured> {
        let rows =
            self.rows.iter().filter(|row| row.errors == 0).map(|Row { store, watchers, tails, .. }| {
                Measured::new(format!("{store} watch by {watchers} p99"), "ms", Better::Less, tails)
            });
        let idle = self.idle.iter().map(|(store, bytes)| {
            Measured::new(format!("{store} idle watcher"), "KiB", Better::Less, &[bytes / 1024.0])
        });
        rows.chain(idle).collect()
    }
}

impl Display for Streams {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "{:<11} {:>8} {:>9} {:>8} {:>8}  goal",
            "store", "watchers", "changes/s", "p50 ms", "p99 ms"
        )?;
        for row in &self.rows {
            let (p50, p99) = (row.quantile(0.5), row.quantile(0.99));
            let goal = match row.errors {
                0 => format!("≤ {LATEST} {}", verdict(p99 <= LATEST)),
                _ => "no result: wrong answers".to_owned(),
            };
            let Row { store, watchers, rates, .. } = row;
            writeln!(out, "{store:<11} {watchers:>8} {:>9.0} {p50:>8.1} {p99:>8.1}  {goal}", median(rates))?;
        }
        for (store, bytes) in &self.idle {
            let kib = bytes / 1024.0;
            writeln!(
                out,
                "{store:<11} {kib:.1} KiB per idle watcher  ≤ {IDLE_KIB} {}",
                verdict(kib <= IDLE_KIB)
            )?;
        }
        Ok(())
    }
}
