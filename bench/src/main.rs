//! `hyperfleet-bench`: how fast the server is, as a part of what this machine can do at all.
//!
//! Everything that is compared is measured in the same run, in turns, on the same machine: a ratio then means the
//! same on a laptop and on a large server. See `bench/README.md` for how to read the result.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program: results to stdout, progress to stderr"
)]

mod access;
mod aside;
mod bare;
mod compare;
mod events;
mod findings;
mod fleet;
mod found;
mod goals;
mod growth;
mod listing;
mod lives;
mod load;
mod machine;
mod memory;
mod options;
mod pgbench;
mod play;
mod plot;
mod premises;
mod processor;
mod promises;
mod proportions;
mod questions;
mod ramp;
mod random;
mod reporting;
mod reports;
mod requests;
mod result;
mod samples;
mod spread;
mod streams;
mod subject;
mod toll;
mod turns;
mod watching;
mod wording;
mod workload;

use std::fs;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use hyperfleet_testkit::Store;
use serde_json::json;

use crate::access::Access;
use crate::bare::Bare;
use crate::findings::{Figure, Findings};
use crate::listing::Listing;
use crate::options::{Command, Options, STORES};
use crate::pgbench::Pgbench;
use crate::reporting::Reporting;
use crate::reports::{ADAPTERS, Moves};
use crate::result::Conclusion;
use crate::subject::Subject;
use crate::watching::Watching;
use crate::workload::{Operation, Verb};

/// The server's own allocator, so that the bare handler is held to the same.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BINARY_MB: f64 = 40.0;
/// Clients of PostgreSQL besides those of pgbench: the pools of ten servers.
const POOLS: usize = 660;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(
        options.against.is_none() || options.command.is_none(),
        "--against: builds take turns in single requests, not in fleet, growth or goals"
    );
    match &options.command {
        Some(Command::Bare { one, list }) => bare::serve(*one, *list).await,
        Some(Command::Pubsub) => pubsub().await,
        Some(Command::Fleet(played)) => play::run(&options, played).await,
        Some(Command::Goals(asked)) => goals::run(asked, options.json.as_deref()),
        Some(Command::Growth(grown)) => growth::run(&options, grown).await,
        None => match &options.against {
            Some(other) => turns::run(&options, other).await,
            None => measure(&options).await,
        },
    }
}

/// Serves the stand-in of Pub/Sub until whoever started it has gone.
async fn pubsub() -> Result<()> {
    aside::tell(hyperfleet_pubsub_stand_in::launch()?)?;
    aside::until_alone().await;
    Ok(())
}

async fn measure(options: &Options) -> Result<()> {
    let launch = options.launch()?;
    let clusters = usize::try_from(options.clusters)?;
    let counts = options.counts();
    let guarded = options.guarded();
    let most = counts
        .last()
        .copied()
        .max(options.lists().map(|_| 1))
        .max(guarded.first().map(|_| 1))
        .max(options.watched().first().map(|_| 1))
        .max(events::wanted(&options.only).then_some(1));
    let most = most.with_context(|| format!("--only {}: no such row", options.only))?;
    let pairs = clusters * ADAPTERS.len();
    options.ensure_enough_for_reports()?;
    let postgres = pgbench::postgres(options, most + POOLS).await?;
    let settings = json!({"clusters": clusters, "rate": options.rate, "only": options.only});
    let conclusion = Conclusion::prepare(options, &postgres, settings)?;
    let (loaded, empty, reported) =
        (postgres.database().await, postgres.database().await, postgres.database().await);
    let (mut subjects, mut reporting) = (Vec::new(), Vec::new());
    let databases = [&loaded, &empty, &reported].map(|database| Store::Postgres(database.url()));
    for (store, [first, second, third]) in
        STORES.into_iter().zip([[Store::Sqlite, Store::Sqlite, Store::Sqlite], databases])
    {
        if options.measures(store, &Operation::on_clusters()) {
            eprintln!("{store}: loading {clusters} clusters");
            subjects.push(Subject::start(store, &launch, [first, second], clusters).await?);
        }
        if options.measures(store, &Operation::reports()) {
            eprintln!("{store}: loading {clusters} clusters and {pairs} reports");
            reporting.push(Reporting::start(store, &launch, third, clusters).await?);
        }
    }
    let bare = subjects.first().map(|subject| Bare::start(subject.one, subject.list)).transpose()?;
    pgbench::execute(&postgres, &loaded, "VACUUM ANALYZE")?;
    pgbench::execute(&postgres, &reported, "VACUUM ANALYZE")?;
    let pgbench = Pgbench::prepare(&postgres, clusters).await?;
    let mut listing = match options.lists() {
        Some(wanted) => Some(Listing::start(wanted, &STORES, &launch, &postgres).await?),
        None => None,
    };
    let mut access = Access::start(&guarded, &launch, &postgres).await?;
    let watched = options.watched();
    let mut watching = Watching::start(&watched, &launch, &postgres).await?;

    let mut findings = Findings { open_loop: options.rate.is_some(), ..Findings::default() };
    for round in 1..=options.rounds {
        for &connections in &counts {
            eprintln!("round {round} of {}, {connections} connections", options.rounds);
            requests::limits(options, &mut findings, bare.as_ref(), &pgbench, connections)?;
            for (subject, verb) in subjects.iter().flat_map(|subject| Verb::ALL.map(|verb| (subject, verb))) {
                requests::clusters(options, &mut findings, subject, verb, connections)?;
            }
            for (reporting, moves) in reporting.iter().flat_map(|one| Moves::ALL.map(|moves| (one, moves))) {
                requests::reports(options, &mut findings, reporting, moves, connections).await?;
            }
        }
        if let Some(listing) = &mut listing {
            eprintln!("round {round} of {}, lists", options.rounds);
            for &connections in options.connections(Operation::Cluster(Verb::List)) {
                listing.round(&options.short_load(connections.into()))?;
            }
            listing.scan().await?;
        }
        if !guarded.is_empty() {
            eprintln!("round {round} of {}, access", options.rounds);
            for &connections in options.access_connections() {
                access.round(&options.load(connections.into(), None))?;
            }
            access.neighbours(&options.load(1, None))?;
        }
        if !watched.is_empty() {
            eprintln!("round {round} of {}, watches", options.rounds);
            watching.round(&options.load(1, None)).await?;
        }
    }
    watching.idle().await?;
    for subject in &mut subjects {
        requests::figures(&mut findings, subject).await?;
    }
    findings.figures.push(Figure {
        name: "server binary".into(),
        value: fs::metadata(options.server()?)?.len() as f64 / 1e6,
        unit: "MB",
        at_most: Some(BINARY_MB),
    });

    let events = events::measure(options, &launch, &postgres).await?;
    let lists = listing.map(|listing| listing.found).unwrap_or_default();
    conclusion.draw(&[&findings, &lists, &access.found, &watching.found, &events])
}
