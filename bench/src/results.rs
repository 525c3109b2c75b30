//! What a run measured: rows of named columns, each column with one value per round.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use crate::load::Outcome;
use crate::stats::{median, number, spread};

/// Rounds by the name `row: column`, such as `postgresql get @32: p99 ms`.
pub(crate) type Figures = BTreeMap<String, Vec<f64>>;

/// All rows in the order in which they were first measured.
#[derive(Debug, Default)]
pub(crate) struct Results {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    columns: Vec<(String, Vec<f64>)>,
    errors: u64,
}

impl Results {
    /// Adds one round of a column.
    pub(crate) fn add(&mut self, row: &str, column: &str, value: f64) {
        if !value.is_finite() {
            return self.fail(row, 1, &format!("no value of {column}"));
        }
        let row = self.row(row);
        match row.columns.iter_mut().find(|(name, _)| name == column) {
            Some((_, rounds)) => rounds.push(value),
            None => row.columns.push((column.to_owned(), vec![value])),
        }
    }

    /// Adds one window of load.
    pub(crate) fn add_load(&mut self, row: &str, outcome: &Outcome) {
        if outcome.errors > 0 {
            self.fail(row, outcome.errors, outcome.first_error.as_deref().unwrap_or_default());
        }
        if outcome.latency.is_empty() {
            return self.fail(row, 1, "no right answer in the window");
        }
        let rate = outcome.rate();
        self.add(row, "/s", rate);
        self.add(row, "p50 ms", outcome.quantile(0.5));
        self.add(row, "p99 ms", outcome.quantile(0.99));
        if let Some(cores) = outcome.cores {
            self.add(row, "CPU µs", cores.busy / rate * 1e6);
            self.add(row, "generator", cores.generator);
        }
        if let Some(bytes) = outcome.memory {
            self.add(row, "MiB", mebibytes(bytes));
        }
    }

    /// Counts wrong answers: a row with a single one has no figures.
    pub(crate) fn fail(&mut self, row: &str, errors: u64, first: &str) {
        eprintln!("{row}: {errors} errors, the first: {first}");
        self.row(row).errors += errors;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.rows.iter().map(|row| row.errors).sum()
    }

    /// The figures of all rows without wrong answers.
    pub(crate) fn figures(&self) -> Figures {
        let sound = self.rows.iter().filter(|row| row.errors == 0);
        let figures = sound.flat_map(|row| {
            row.columns.iter().map(|(column, rounds)| (format!("{}: {column}", row.name), rounds.clone()))
        });
        figures.collect()
    }

    fn row(&mut self, name: &str) -> &mut Row {
        let place = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name: name.to_owned(), columns: Vec::new(), errors: 0 });
            self.rows.len() - 1
        });
        &mut self.rows[place]
    }
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

/// Medians, the first column with its lowest and highest round. A heading stands wherever the columns change.
impl Display for Results {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let mut heading = Vec::new();
        for row in &self.rows {
            let names: Vec<&str> = row.columns.iter().map(|(name, _)| name.as_str()).collect();
            if names != heading && row.errors == 0 {
                write!(out, "\n{:<width$}", "")?;
                for (place, name) in names.iter().enumerate() {
                    let size = if place == 0 { 28 } else { cell_width(name) };
                    write!(out, " {name:>size$}")?;
                }
                writeln!(out)?;
                heading = names;
            }
            write!(out, "{:<width$}", row.name)?;
            if row.errors > 0 {
                writeln!(out, " no result: {} wrong answers", row.errors)?;
                continue;
            }
            for (place, (name, rounds)) in row.columns.iter().enumerate() {
                let value = number(median(rounds));
                match place {
                    0 => write!(out, " {value:>9} {:>18}", format!("({})", spread(rounds)))?,
                    _ => write!(out, " {value:>0$}", cell_width(name))?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

fn cell_width(name: &str) -> usize {
    name.chars().count().max(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_wrong_answer_in_any_round_has_no_figures() {
        let mut results = Results::default();
        results.add("get", "/s", 100.0);
        results.add("patch", "/s", 10.0);
        results.fail("get", 2, "500");
        results.add("get", "/s", 300.0);
        assert_eq!(results.figures(), Figures::from([("patch: /s".to_owned(), vec![10.0])]));
        assert_eq!(results.errors(), 2);
        let text = results.to_string();
        assert!(text.contains("get   no result: 2 wrong answers") && !text.contains("300"), "{text}");
    }

    #[test]
    fn a_window_without_any_right_answer_is_an_error() {
        let mut results = Results::default();
        results.add_load("get", &Outcome::new(std::time::Duration::from_secs(1)));
        assert!(results.errors() > 0 && results.figures().is_empty());
    }
}
