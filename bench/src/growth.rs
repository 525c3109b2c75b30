//! What a request costs in small and in large fleets. Each question goes to the fleets of all sizes in turn, over one
//! connection, so that whatever disturbs the machine disturbs them alike; its cost is the median of its answers.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use hyperfleet_testkit::Postgres;
use serde_json::{Value, json};

use crate::found::Found;
use crate::lives::Plan;
use crate::load::Load;
use crate::options::{Options, STORES};
use crate::pgbench;
use crate::plot::{Line, Panel, plot};
use crate::premises::Premises;
use crate::questions::{Asked, FEW};
use crate::reports::ADAPTERS;
use crate::result::Conclusion;
use crate::spread::{Better, Measured, median, short};
use crate::watching::{Crowd, newest};
use crate::workload::{Verb, Workload};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const MILLION: usize = 1_000_000;
/// Connections that fill a fleet.
const LOADERS: usize = 64;
/// Clients of PostgreSQL: the pools of all servers, and ourselves.
const POOLS: usize = 300;
/// Changes a second while somebody watches.
const WATCHED: f64 = 100.0;
const MIB: f64 = 1024.0 * 1024.0;

/// What is grown.
#[derive(Clone, Debug, Args)]
pub(crate) struct Grown {
    /// How many clusters the fleets have [default: 1000,10000,100000, and with --million 1000000]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Also draw it in this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Stores, `postgresql` or `sqlite` [default: both]
    #[arg(long, value_delimiter = ',', value_parser = ["sqlite", "postgresql"])]
    stores: Vec<String>,
}

/// What is asked of each fleet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Request {
    Get,
    Page,
    SearchMany,
    SearchFew,
    Report,
    Patch,
    Watch,
}

impl Request {
    const ALL: [Self; 7] =
        [Self::Get, Self::Page, Self::SearchMany, Self::SearchFew, Self::Report, Self::Patch, Self::Watch];

    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Page => "page of 20",
            Self::SearchMany => "search, a quarter fits",
            Self::SearchFew => "search, ten fit",
            Self::Report => "report",
            Self::Patch => "patch",
            Self::Watch => "change to event",
        }
    }

    fn workload(self, premises: &Premises<'_>, ids: &Arc<[String]>) -> Workload {
        let search = |search: &str, total: usize| Workload::Asked([Asked::list(search, 1, total, "")].into());
        let verb = |verb| Workload::Clusters { verb, ids: Arc::clone(ids) };
        match self {
            Self::Get => verb(Verb::Get),
            Self::Page => verb(Verb::List),
            Self::SearchMany => search("labels.environment='production'", ids.len().div_ceil(4)),
            Self::SearchFew => search("labels.team='few'", FEW),
            Self::Report => Workload::Lives(Arc::clone(&premises.lives)),
            Self::Patch | Self::Watch => verb(Verb::Patch),
        }
    }
}

/// Measures, draws, prints and compares.
pub(crate) async fn run(options: &Options, grown: &Grown) -> Result<()> {
    let mut sizes: BTreeSet<usize> = grown.sizes.iter().copied().collect();
    if sizes.is_empty() {
        sizes.extend(SIZES);
        sizes.extend(options.million.then_some(MILLION));
    }
    let fits = |size: &usize| *size >= LOADERS && size.is_multiple_of(FEW);
    ensure!(sizes.iter().all(fits), "--sizes: at least {LOADERS}, and a multiple of {FEW}");
    let is_wanted =
        |store: &str| grown.stores.is_empty() || grown.stores.iter().any(|wanted| wanted == store);
    let postgres = pgbench::postgres(POOLS).await?;
    let conclusion = Conclusion::prepare(options, &postgres)?;
    let mut found = Growth { sizes: sizes.into_iter().collect(), ..Growth::default() };
    for store in STORES.into_iter().filter(|store| is_wanted(store)) {
        found.grow(store, options, &postgres).await?;
    }
    if let Some(file) = &grown.svg {
        fs::write(file, found.drawn()).with_context(|| file.display().to_string())?;
    }
    conclusion.draw(&[&found])
}

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
struct Taken {
    store: &'static str,
    size: usize,
    /// On disk for each cluster, in bytes.
    stored: f64,
    /// Memory of the server at the end, in bytes.
    resident: u64,
}

/// What was found.
#[derive(Debug, Default)]
struct Growth {
    sizes: Vec<usize>,
    cells: Vec<Cell>,
    taken: Vec<Taken>,
    errors: u64,
}

impl Growth {
    /// All sizes on one store.
    async fn grow(&mut self, store: &'static str, options: &Options, postgres: &Postgres) -> Result<()> {
        let mut fleets = Vec::new();
        for &clusters in &self.sizes {
            let adapters = ADAPTERS.map(str::to_owned).to_vec();
            let plan = Plan { clusters, adapters, connections: LOADERS, calm: true };
            let premises = Premises::start(store, &options.launch()?, postgres, &plan).await?;
            let ids: Arc<[String]> = premises.lives.ids().into();
            let stored = premises.taken()? as f64 / clusters as f64;
            self.taken.push(Taken { store, size: clusters, stored, resident: 0 });
            fleets.push((clusters, premises, ids));
        }
        for round in 1..=options.rounds {
            eprintln!("{store}: round {round} of {}", options.rounds);
            for request in Request::ALL {
                for (size, premises, ids) in &fleets {
                    let cost = self.ask(request, options, premises, ids).await?;
                    self.add(store, request, *size, cost);
                }
            }
        }
        for (size, premises, _) in &fleets {
            let resident = premises.resident()?;
            let taken = self.taken.iter_mut().find(|taken| (taken.store, taken.size) == (store, *size));
            taken.context("a fleet without its size")?.resident = resident;
        }
        Ok(())
    }

    /// One window of one question; its cost in milliseconds.
    async fn ask(
        &mut self,
        request: Request,
        options: &Options,
        premises: &Premises<'_>,
        ids: &Arc<[String]>,
    ) -> Result<f64> {
        let target = premises.target(request.workload(premises, ids))?;
        let load = options.load(1, None);
        let (outcome, latency) = if request == Request::Watch {
            let load = Load { rate: Some(WATCHED), ..load };
            let crowd = Crowd::gather(premises.address()?, 1, newest(&premises.api()).await?).await?;
            let mut outcome = load.run(&target)?;
            if let Err(fault) = crowd.wait(outcome.latency.len()).await {
                outcome.fail(format!("{fault:#}"));
            }
            (outcome, crowd.dismiss()?)
        } else {
            let outcome = load.run(&target)?;
            let latency = outcome.latency.clone();
            (outcome, latency)
        };
        if let Some(error) = &outcome.first_error {
            eprintln!("{} {}, first of {} errors: {error}", premises.store, request.name(), outcome.errors);
        }
        self.errors += outcome.errors;
        Ok(latency.value_at_quantile(0.5) as f64 / 1e3)
    }

    fn add(&mut self, store: &'static str, request: Request, size: usize, cost: f64) {
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
    fn drawn(&self) -> String {
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
        plot("Median time of a request against the size of the fleet, one connection", &panels)
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
        let taken = self.taken.iter().map(|Taken { store, size, stored, resident }| {
            json!({"store": store, "clusters": size, "bytes_per_cluster": stored, "resident": resident})
        });
        json!({"rows": cells.collect::<Vec<_>>(), "fleets": taken.collect::<Vec<_>>()})
    }

    fn measured(&self) -> Vec<Measured> {
        let cells = self.cells.iter().map(|Cell { store, request, size, costs }| {
            Measured::new(format!("{store} {} of {size}", request.name()), "ms", Better::Less, costs)
        });
        let taken = self.taken.iter().flat_map(|Taken { store, size, stored, resident }| {
            let memory = *resident as f64 / MIB;
            [
                Measured::new(format!("{store} stored per cluster of {size}"), "B", Better::Less, &[*stored]),
                Measured::new(format!("{store} memory with {size}"), "MiB", Better::Less, &[memory]),
            ]
        });
        cells.chain(taken).collect()
    }
}

impl Display for Growth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(smallest), Some(largest)) = (self.sizes.first(), self.sizes.last()) else { return Ok(()) };
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
                let ends = self.cost(store, request, *largest).zip(self.cost(store, request, *smallest));
                writeln!(out, "  {:.2}", ends.map_or(f64::NAN, |(large, small)| large / small))?;
            }
        }
        writeln!(out)?;
        for Taken { store, size, stored, resident } in &self.taken {
            writeln!(
                out,
                "{store:<11} {size:>9} clusters: {} bytes on disk for each, {:.1} MiB of memory",
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
        let mut growth = Growth { sizes: vec![1_000, 10_000], ..Growth::default() };
        for (size, costs) in [(1_000, [0.4, 0.2]), (10_000, [0.6, 0.6])] {
            costs.into_iter().for_each(|cost| growth.add("sqlite", Request::Get, size, cost));
        }
        growth.taken.push(Taken { store: "sqlite", size: 1_000, stored: 4096.0, resident: 20 << 20 });
        let text = growth.to_string();
        assert!(text.contains("0.300     0.600  2.00"), "{text}");
        assert!(text.contains("1000 clusters: 4096 bytes on disk for each, 20.0 MiB"), "{text}");
        let drawn = growth.drawn();
        assert!(drawn.contains(">sqlite<") && drawn.contains(">get, 0.600 ms<"), "{drawn}");
        assert_eq!(growth.measured().len(), 4);
    }
}
