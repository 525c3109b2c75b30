//! What a request costs in small and in large fleets. Each question goes to the fleets of all sizes in turn, over one
//! connection, so that whatever disturbs the machine disturbs them alike; its cost is the median of its answers.

mod found;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use hyperfleet_testkit::Postgres;
use serde_json::{Value, json};

use crate::lives::Plan;
use crate::load::Load;
use crate::options::{Options, STORES};
use crate::pgbench;
use crate::premises::Premises;
use crate::questions::{Asked, FEW};
use crate::reports::ADAPTERS;
use crate::result::Conclusion;
use crate::watching::{Crowd, newest};
use crate::workload::{Verb, Workload};
use found::{Growth, Taken};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const MILLION: usize = 1_000_000;
/// Connections that fill a fleet.
const LOADERS: usize = 256;
/// Clients of PostgreSQL: the pools of all servers, and ourselves.
const POOLS: usize = 300;
/// Changes a second while somebody watches.
const WATCHED: f64 = 100.0;

/// What is grown.
#[derive(Clone, Debug, Args)]
pub(crate) struct Grown {
    /// How many clusters the fleets have [default: 1000,10000,100000, and with --million 1000000]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// The result of an earlier run to go on from: what it knows of these fleets is not measured again
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
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
    /// What leaves the fleet as reconciled as it is comes first, in all rounds: a report on a cluster that was patched
    /// meanwhile is another one, and the smaller the fleet, the more of it was.
    const PARTS: [&[Self]; 2] = [
        &[Self::Get, Self::Page, Self::SearchMany, Self::SearchFew, Self::Report],
        &[Self::Patch, Self::Watch],
    ];

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
    let mut found = Growth::over(sizes);
    let mut resumed = Value::Null;
    if let Some(file) = &grown.resume {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).with_context(name)?;
        let run: Value = serde_json::from_str(&text).with_context(name)?;
        found.resume(&run).with_context(name)?;
        // What it found was found on that machine, by that build.
        resumed = json!({"machine": run["machine"], "settings": run["settings"]});
    }
    let postgres = pgbench::postgres(options, POOLS).await?;
    let conclusion =
        Conclusion::prepare(options, &postgres, json!({"sizes": found.sizes, "resumed": resumed}))?;
    for store in STORES.into_iter().filter(|store| is_wanted(store)) {
        grow(&mut found, store, options, &postgres).await?;
        conclusion.keep(&[&found])?;
        if let Some(file) = &grown.svg {
            fs::write(file, found.drawn()).with_context(|| file.display().to_string())?;
        }
    }
    conclusion.draw(&[&found])
}

/// All sizes on one store, as far as they are not known.
async fn grow(found: &mut Growth, store: &'static str, options: &Options, postgres: &Postgres) -> Result<()> {
    let mut fleets = Vec::new();
    let sizes: Vec<usize> = found.sizes.iter().copied().filter(|size| !found.knows(store, *size)).collect();
    for clusters in sizes {
        found.forget(store, clusters);
        let adapters = ADAPTERS.map(str::to_owned).to_vec();
        let plan = Plan { clusters, adapters, connections: LOADERS, calm: true };
        let premises = Premises::start(store, &options.launch()?, postgres, &plan).await?;
        let ids: Arc<[String]> = premises.lives.ids().into();
        fleets.push((clusters, premises, ids));
    }
    if fleets.is_empty() {
        return Ok(());
    }
    for requests in Request::PARTS {
        for round in 1..=options.rounds {
            eprintln!("{store}: round {round} of {}, {}", options.rounds, requests[0].name());
            for &request in requests {
                for (size, premises, ids) in &fleets {
                    let cost = ask(found, request, options, premises, ids).await?;
                    found.add(store, request, *size, cost);
                }
            }
        }
    }
    for (size, premises, _) in &fleets {
        let each = |bytes: u64| bytes as f64 / *size as f64;
        found.taken.push(Taken {
            store,
            size: *size,
            stored: each(premises.tidied),
            untidied: each(premises.untidied),
            resident: premises.resident()?,
        });
    }
    Ok(())
}

/// One window of one question; its cost in milliseconds.
async fn ask(
    found: &mut Growth,
    request: Request,
    options: &Options,
    premises: &Premises<'_>,
    ids: &Arc<[String]>,
) -> Result<f64> {
    let target = premises.target(request.workload(premises, ids))?;
    let load = Load { rate: None, ..options.short_load(1) };
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
    found.errors += outcome.errors;
    Ok(latency.value_at_quantile(0.5) as f64 / 1e3)
}
