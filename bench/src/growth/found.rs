//! What the size of a fleet was found to cost: a table, a drawing, and what a later run can go on from.

use std::fmt::{self, Display};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Request;
use crate::found::Found;
use crate::options::STORES;
use crate::plot::{Line, Panel, plot};
use crate::spread::{Better, Measured, median, short};

const MIB: f64 = 1024.0 * 1024.0;

/// The costs of one question in one fleet.
#[derive(Debug)]
struct Cell {
    store: &'static str,
    request: Request,
    size: usize,
    /// The median of each round, in milliseconds.
    costs: Vec<f64>,
}

/// What a fleet takes.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) store: &'static str,
    pub(super) size: usize,
    /// On disk for each cluster, in bytes, after the database was tidied up and before.
    pub(super) stored: f64,
    pub(super) untidied: f64,
    /// Memory of the server at the end, in bytes.
    pub(super) resident: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Growth {
    pub(super) sizes: Vec<usize>,
    cells: Vec<Cell>,
    pub(super) taken: Vec<Taken>,
    pub(super) errors: u64,
}

impl Growth {
    /// Nothing yet, of fleets of these sizes.
    pub(super) fn over(sizes: impl IntoIterator<Item = usize>) -> Self {
        Self { sizes: sizes.into_iter().collect(), ..Self::default() }
    }

    /// Takes what an earlier run found of whole fleets.
    pub(super) fn resume(&mut self, run: &Value) -> Result<()> {
        let rows = run["growth"]["rows"].as_array().context("not a result of growth")?;
        let fleets = run["growth"]["fleets"].as_array().context("not a result of growth")?;
        for fleet in fleets {
            let taken = Taken::parse(fleet).with_context(|| format!("not a fleet: {fleet}"))?;
            let of_it = |row: &&Value| row["store"] == taken.store && row["clusters"] == taken.size;
            for row in rows.iter().filter(of_it) {
                let known = Request::ALL.into_iter().find(|request| row["request"] == request.name());
                let costs = row["rounds"].as_array().into_iter().flatten().filter_map(Value::as_f64);
                let request = known.with_context(|| format!("not a request: {row}"))?;
                costs.for_each(|cost| self.add(taken.store, request, taken.size, cost));
            }
            self.sizes.push(taken.size);
            self.taken.push(taken);
        }
        self.sizes.sort_unstable();
        self.sizes.dedup();
        Ok(())
    }

    /// Forgets a fleet that is measured again.
    pub(super) fn forget(&mut self, store: &str, size: usize) {
        self.cells.retain(|cell| (cell.store, cell.size) != (store, size));
        self.taken.retain(|taken| (taken.store, taken.size) != (store, size));
    }

    /// Whether nothing is left to be asked of a fleet.
    pub(super) fn knows(&self, store: &str, size: usize) -> bool {
        Request::ALL.into_iter().all(|request| self.cost(store, request, size).is_some())
    }

    pub(super) fn add(&mut self, store: &'static str, request: Request, size: usize, cost: f64) {
        let same = |cell: &&mut Cell| (cell.store, cell.request, cell.size) == (store, request, size);
        match self.cells.iter_mut().find(same) {
            Some(cell) => cell.costs.push(cost),
            None => self.cells.push(Cell { store, request, size, costs: vec![cost] }),
        }
    }

    fn cost(&self, store: &str, request: Request, size: usize) -> Option<f64> {
        let same = |cell: &&Cell| (cell.store, cell.request, cell.size) == (store, request, size);
        self.cells.iter().find(same).map(|cell| median(&cell.costs))
    }

    fn stores(&self) -> impl Iterator<Item = &'static str> {
        STORES.into_iter().filter(|store| self.cells.iter().any(|cell| cell.store == *store))
    }

    /// Each question as a line over the sizes.
    pub(super) fn drawn(&self) -> String {
        let panels: Vec<Panel> = self
            .stores()
            .map(|store| {
                let line = |request: Request| Line {
                    name: request.name().to_owned(),
                    points: self
                        .sizes
                        .iter()
                        .filter_map(|size| Some((*size as f64, self.cost(store, request, *size)?)))
                        .collect(),
                };
                Panel { title: store.to_owned(), lines: Request::ALL.map(line).into() }
            })
            .collect();
        plot(
            "Median time of a request against the size of the fleet, one connection (figures: the largest fleet)",
            &panels,
        )
    }
}

impl Taken {
    fn parse(json: &Value) -> Option<Self> {
        Some(Self {
            store: STORES.into_iter().find(|store| json["store"] == *store)?,
            size: usize::try_from(json["clusters"].as_u64()?).ok()?,
            stored: json["bytes_per_cluster"].as_f64()?,
            untidied: json["bytes_per_cluster_before_vacuum"].as_f64()?,
            resident: json["resident"].as_u64()?,
        })
    }
}

impl Found for Growth {
    fn name(&self) -> &'static str {
        "growth"
    }

    fn errors(&self) -> u64 {
        self.errors
    }

    fn json(&self) -> Value {
        let cells = self.cells.iter().map(|Cell { store, request, size, costs }| {
            json!({
                "store": store, "request": request.name(), "clusters": size, "p50_ms": median(costs), "rounds": costs,
            })
        });
        let taken = self.taken.iter().map(|Taken { store, size, stored, untidied, resident }| {
            json!({
                "store": store, "clusters": size, "bytes_per_cluster": stored,
                "bytes_per_cluster_before_vacuum": untidied, "resident": resident,
            })
        });
        json!({"rows": cells.collect::<Vec<_>>(), "fleets": taken.collect::<Vec<_>>()})
    }

    fn measured(&self) -> Vec<Measured> {
        let cells = self.cells.iter().map(|Cell { store, request, size, costs }| {
            Measured::new(format!("{store} {} of {size}", request.name()), "ms", Better::Less, costs)
        });
        let taken = self.taken.iter().flat_map(|Taken { store, size, stored, untidied, resident }| {
            let less = |name, unit, value| Measured::new(name, unit, Better::Less, &[value]);
            [
                less(format!("{store} stored per cluster of {size}"), "B", *stored),
                less(format!("{store} stored before VACUUM per cluster of {size}"), "B", *untidied),
                less(format!("{store} memory with {size}"), "MiB", *resident as f64 / MIB),
            ]
        });
        cells.chain(taken).collect()
    }
}

impl Display for Growth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:<11} {:<24}", "store", "median ms, clusters")?;
        for size in &self.sizes {
            write!(out, " {size:>9}")?;
        }
        writeln!(out, "  largest / smallest")?;
        for store in self.stores() {
            for request in Request::ALL {
                write!(out, "{store:<11} {:<24}", request.name())?;
                for size in &self.sizes {
                    let cost = self.cost(store, request, *size);
                    write!(out, " {:>9}", cost.map_or_else(String::new, |cost| format!("{cost:.3}")))?;
                }
                // A store may not have been asked with all of them.
                let costs: Vec<f64> =
                    self.sizes.iter().filter_map(|size| self.cost(store, request, *size)).collect();
                let ends = costs.last().zip(costs.first());
                writeln!(out, "  {:.2}", ends.map_or(f64::NAN, |(large, small)| large / small))?;
            }
        }
        writeln!(out)?;
        for Taken { store, size, stored, untidied, resident } in &self.taken {
            // Only PostgreSQL is tidied up.
            let before = if untidied == stored {
                String::new()
            } else {
                format!(" ({} before VACUUM)", short(*untidied))
            };
            writeln!(
                out,
                "{store:<11} {size:>9} clusters: {} bytes on disk for each{before}, {:.1} MiB of memory",
                short(*stored),
                *resident as f64 / MIB
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_a_drawing_show_each_cost_against_the_size() {
        let mut growth = Growth::over([1_000, 10_000]);
        for (size, costs) in [(1_000, [0.4, 0.2]), (10_000, [0.6, 0.6])] {
            costs.into_iter().for_each(|cost| growth.add("sqlite", Request::Get, size, cost));
        }
        let (stored, untidied, resident) = (4096.0, 5000.0, 20 << 20);
        growth.taken.push(Taken { store: "sqlite", size: 1_000, stored, untidied, resident });
        let text = growth.to_string();
        assert!(text.contains("0.300     0.600  2.00"), "{text}");
        assert!(
            text.contains("1000 clusters: 4096 bytes on disk for each (5000 before VACUUM), 20.0 MiB"),
            "{text}"
        );
        let drawn = growth.drawn();
        assert!(drawn.contains(">sqlite<") && drawn.contains(">get, 0.600 ms<"), "{drawn}");
        assert_eq!(growth.measured().len(), 5);
    }

    #[test]
    fn a_run_goes_on_from_the_fleets_that_an_earlier_one_has_finished() {
        let mut earlier = Growth::over([1_000, 10_000]);
        for request in Request::ALL {
            earlier.add("sqlite", request, 1_000, 0.5);
        }
        // This one was cut short.
        earlier.add("sqlite", Request::Get, 10_000, 0.5);
        for size in [1_000, 10_000] {
            earlier.taken.push(Taken { store: "sqlite", size, stored: 1.5, untidied: 2.0, resident: 3 });
        }
        let mut growth = Growth::over([100_000]);
        growth.resume(&json!({"growth": earlier.json()})).unwrap();
        assert_eq!(growth.sizes, [1_000, 10_000, 100_000]);
        assert!(growth.knows("sqlite", 1_000));
        assert!(!growth.knows("sqlite", 10_000) && !growth.knows("postgresql", 1_000));
        growth.forget("sqlite", 10_000);
        assert_eq!((growth.cost("sqlite", Request::Get, 10_000), growth.taken.len()), (None, 1));
        assert!(growth.resume(&json!({"requests": {}})).is_err());
    }
}
