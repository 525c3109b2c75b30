//! How the cost of lists grows: with the size of the fleet, with the depth of a page, and against the read of one
//! resource. The cost of a question is its median with one connection.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::findings::{median, verdict};
use crate::found::Found;
use crate::load::Outcome;
use crate::questions::Question;
use crate::spread::{Better, Measured};

/// How many times its cost in the smallest fleet a daily question may cost in one ten times as large.
const GROWTH: f64 = 2.0;
/// How many times the cost of the first page a page deep down may cost.
const DEPTH: f64 = 1.2;
/// How many times the cost of one resource the answer may cost that nothing is due.
const NOTHING: f64 = 2.0;

/// Resources a second that a scan of a large fleet shall reach.
fn scan_goal(store: &str) -> f64 {
    if store == "sqlite" { 100_000.0 } else { 50_000.0 }
}

/// A question to one fleet, with one number of connections.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) store: &'static str,
    pub(crate) question: Question,
    pub(crate) connections: usize,
    pub(crate) size: usize,
}

#[derive(Debug)]
struct Row {
    place: Place,
    latency: Histogram<u64>,
    rates: Vec<f64>,
    /// The p50 of each round, in milliseconds.
    costs: Vec<f64>,
    errors: u64,
}

/// The scans of one fleet.
#[derive(Debug)]
struct Scan {
    store: &'static str,
    size: usize,
    rates: Vec<f64>,
}

/// What all fleets showed.
#[derive(Debug, Default)]
pub(crate) struct Proportions {
    rows: Vec<Row>,
    scans: Vec<Scan>,
}

impl Proportions {
    /// One more round of a question.
    pub(crate) fn add(&mut self, place: Place, outcome: Outcome) {
        let rate = outcome.rate();
        let cost = outcome.latency.value_at_quantile(0.5) as f64 / 1e3;
        match self.rows.iter_mut().find(|row| row.place == place) {
            Some(row) => {
                row.latency += &outcome.latency;
                row.rates.push(rate);
                row.costs.push(cost);
                row.errors += outcome.errors;
            }
            None => {
                let Outcome { latency, errors, .. } = outcome;
                self.rows.push(Row { place, latency, rates: vec![rate], costs: vec![cost], errors });
                self.rows.sort_by_key(|row| row.place);
            }
        }
    }

    /// One more scan.
    pub(crate) fn add_scan(&mut self, store: &'static str, size: usize, rate: f64) {
        match self.scans.iter_mut().find(|scan| (scan.store, scan.size) == (store, size)) {
            Some(scan) => scan.rates.push(rate),
            None => self.scans.push(Scan { store, size, rates: vec![rate] }),
        }
    }

    fn sizes(&self) -> BTreeSet<usize> {
        self.rows.iter().map(|row| row.place.size).collect()
    }

    fn connections(&self) -> BTreeSet<usize> {
        self.rows.iter().map(|row| row.place.connections).collect()
    }

    fn stores(&self) -> BTreeSet<&'static str> {
        self.rows.iter().map(|row| row.place.store).collect()
    }

    fn row(&self, place: Place) -> Option<&Row> {
        self.rows.iter().find(|row| row.place == place)
    }

    /// The cost in microseconds.
    fn cost(&self, store: &'static str, size: usize, question: Question) -> Option<f64> {
        let connections = *self.connections().first()?;
        let row = self.row(Place { store, size, question, connections })?;
        (row.errors == 0).then(|| row.latency.value_at_quantile(0.5) as f64)
    }

    fn ratio(&self, store: &'static str, of: (usize, Question), to: (usize, Question)) -> Option<f64> {
        Some(self.cost(store, of.0, of.1)? / self.cost(store, to.0, to.1)?)
    }

    /// The ratios that tell of growth, each with what it is and the most it may be.
    fn ratios(&self) -> Vec<(String, f64, f64)> {
        let sizes = self.sizes();
        let (Some(&smallest), Some(&largest)) = (sizes.first(), sizes.last()) else { return Vec::new() };
        let mut ratios = Vec::new();
        for store in self.stores() {
            let mut keep = |what: String, ratio: Option<f64>, most: f64| {
                ratios.extend(ratio.map(|ratio| (format!("{store}: {what}"), ratio, most)));
            };
            for question in Question::ALL.into_iter().filter(|question| question.is_daily()) {
                for &size in sizes.iter().filter(|size| **size > smallest) {
                    let what = format!("{}, {size} / {smallest} clusters", question.name());
                    keep(what, self.ratio(store, (size, question), (smallest, question)), GROWTH);
                }
            }
            let deep = self.ratio(store, (largest, Question::Deep), (largest, Question::Everything));
            keep("page 1000 / page 1".to_owned(), deep, DEPTH);
            let nothing = self.ratio(store, (largest, Question::NothingDue), (largest, Question::Get));
            keep("list nothing due / get by id".to_owned(), nothing, NOTHING);
        }
        ratios
    }
}

impl Found for Proportions {
    fn name(&self) -> &'static str {
        "lists"
    }

    fn errors(&self) -> u64 {
        self.rows.iter().map(|row| row.errors).sum()
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|Row { place, latency, rates, errors, .. }| {
            json!({
                "store": place.store, "clusters": place.size, "question": place.question.name(),
                "connections": place.connections, "rate": median(rates), "rounds": rates, "errors": errors,
                "p50_us": latency.value_at_quantile(0.5), "p99_us": latency.value_at_quantile(0.99),
            })
        });
        let ratios = self
            .ratios()
            .into_iter()
            .map(|(name, ratio, most)| json!({"name": name, "ratio": ratio, "at_most": most}));
        let scans = self.scans.iter().map(|Scan { store, size, rates }| {
            json!({
                "store": store, "clusters": size, "rate": median(rates), "rounds": rates,
                "at_least": scan_goal(store),
            })
        });
        json!({
            "rows": rows.collect::<Vec<_>>(),
            "ratios": ratios.collect::<Vec<_>>(),
            "scans": scans.collect::<Vec<_>>(),
        })
    }

    fn measured(&self) -> Vec<Measured> {
        let rows = self.rows.iter().filter(|row| row.errors == 0).map(|Row { place, costs, .. }| {
            let Place { store, question, connections, size } = place;
            let name = format!("{store} {} @{connections} of {size}", question.name());
            Measured::new(name, "ms", Better::Less, costs)
        });
        let scans = self.scans.iter().map(|Scan { store, size, rates }| {
            Measured::new(format!("{store} scan of {size}"), "/s", Better::More, rates)
        });
        let ratios = self.ratios().into_iter();
        let ratios = ratios.map(|(name, ratio, _)| Measured::new(name, "", Better::Less, &[ratio]));
        rows.chain(scans).chain(ratios).collect()
    }
}

impl Display for Proportions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.rows.is_empty() {
            writeln!(
                out,
                "{:<11} {:<20} {:>9} {:>5} {:>10} {:>10} {:>10} {:>6}",
                "store", "question", "clusters", "conns", "per second", "p50 ms", "p99 ms", "errors"
            )?;
        }
        for Row { place, latency, rates, errors, .. } in &self.rows {
            let millis = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
            writeln!(
                out,
                "{:<11} {:<20} {:>9} {:>5} {:>10.0} {:>10.3} {:>10.3} {errors:>6}{}",
                place.store,
                place.question.name(),
                place.size,
                place.connections,
                median(rates),
                millis(0.5),
                millis(0.99),
                if *errors > 0 { "  no result: wrong answers" } else { "" }
            )?;
        }
        writeln!(out)?;
        for (name, ratio, most) in self.ratios() {
            writeln!(out, "{name:<58} {ratio:>6.2}  ≤ {most} {}", verdict(ratio <= most))?;
        }
        for Scan { store, size, rates } in &self.scans {
            let (name, rate) = (format!("{store}: scan of {size} clusters"), median(rates));
            let goal = scan_goal(store);
            writeln!(out, "{name:<58} {rate:>6.0} per second  ≥ {goal} {}", verdict(rate >= goal))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(micros: u64, errors: u64) -> Outcome {
        let mut latency = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        latency.record_n(micros, 100).unwrap();
        Outcome {
            latency,
            window: Duration::from_secs(1),
            errors,
            first_error: None,
            held: None,
            cores: None,
        }
    }

    fn proportions(errors: u64) -> Proportions {
        let mut all = Proportions::default();
        let mut add = |size, question, micros, errors| {
            let place = Place { store: "sqlite", size, question, connections: 1 };
            all.add(place, outcome(micros, errors));
        };
        add(10_000, Question::Everything, 400, 0);
        add(100_000, Question::Everything, 440, errors);
        add(100_000, Question::Deep, 660, 0);
        add(100_000, Question::NothingDue, 150, 0);
        add(100_000, Question::Get, 100, 0);
        all.add_scan("sqlite", 100_000, 90_000.0);
        all
    }

    #[test]
    fn costs_are_held_against_the_smaller_fleet_the_first_page_and_one_resource() {
        let text = proportions(0).to_string();
        for expected in [
            "sqlite: list everything, 100000 / 10000 clusters             1.10  ≤ 2 ok",
            "sqlite: page 1000 / page 1                                   1.50  ≤ 1.2 MISS",
            "sqlite: list nothing due / get by id                         1.50  ≤ 2 ok",
            "sqlite: scan of 100000 clusters                             90000 per second  ≥ 100000 MISS",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_question_with_a_wrong_answer_has_no_ratio() {
        let text = proportions(1).to_string();
        assert!(!text.contains("page 1000 /") && text.contains("no result"), "{text}");
        assert_eq!(proportions(1).errors(), 1);
    }
}
