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
mod bare;
mod findings;
mod fleet;
mod listing;
mod load;
mod memory;
mod pgbench;
mod proportions;
mod questions;
mod random;
mod reporting;
mod reports;
mod streams;
mod subject;
mod toll;
mod watching;
mod workload;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use hyperfleet_testkit::{Launch, Store};

use crate::access::Access;
use crate::bare::Bare;
use crate::findings::{BARE_LIST, BARE_ONE, Figure, Findings, SELECT, UPDATE, median};
use crate::listing::{Listing, Wanted};
use crate::load::{Load, Outcome};
use crate::pgbench::Pgbench;
use crate::reporting::Reporting;
use crate::reports::{ADAPTERS, Moves};
use crate::subject::Subject;
use crate::watching::Watching;
use crate::workload::{Operation, Target, Verb, Workload};

/// The server's own allocator, so that the bare handler is held to the same.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MIB: f64 = 1024.0 * 1024.0;
const IDLE_MEMORY_MIB: f64 = 30.0;
const START_MILLIS: f64 = 300.0;
const BINARY_MB: f64 = 40.0;
const STORES: [&str; 2] = ["sqlite", "postgresql"];
/// Clients of PostgreSQL besides those of pgbench: the pools of ten servers.
const POOLS: usize = 660;
/// Connections that the cost of access control is measured with, unless told otherwise.
const ACCESS_CONNECTIONS: [u16; 1] = [32];

/// Measure HyperFleet on SQLite and PostgreSQL against the limits of this machine.
#[derive(Debug, Parser)]
#[command(name = "hyperfleet-bench", version)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// The server to measure [default: `hyperfleet` beside this program]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Length of one measured window
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Windows per row; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Clusters that are there before anything but create is measured
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(20..))]
    clusters: u32,
    /// Numbers of connections [default: 1,32, and for reports 1,32,256]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    connections: Vec<u16>,
    /// Open loop: this many requests per second, however slow the answers are
    #[arg(long)]
    rate: Option<f64>,
    /// Measure only rows whose `store request` contains this, such as `postgresql get`, `report`, `list`, `access` or `watch`
    #[arg(long, default_value = "")]
    only: String,
    /// Measure lists in a fleet of 1,000,000 too, which takes minutes to make
    #[arg(long)]
    million: bool,
    /// A setting of the server, such as HYPERFLEET_LOGGING_LEVEL=warn; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    environment: Vec<String>,
    /// Also write the result to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve bodies of these sizes, the limit that reads are held against
    #[command(hide = true)]
    Bare { one: usize, list: usize },
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    match options.command {
        Some(Command::Bare { one, list }) => bare::serve(one, list).await,
        None => measure(&options).await,
    }
}

async fn measure(options: &Options) -> Result<()> {
    let binary = match &options.binary {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("hyperfleet"),
    };
    let size = fs::metadata(&binary)
        .with_context(|| format!("{} is not there: run `make bench`", binary.display()))?
        .len();
    let mut launch = Launch::new(fs::canonicalize(&binary)?).discard_logs();
    for setting in &options.environment {
        let (name, value) =
            setting.split_once('=').with_context(|| format!("--env {setting}: not NAME=VALUE"))?;
        launch = launch.env(name, value);
    }

    let clusters = usize::try_from(options.clusters)?;
    let counts = options.counts();
    let guarded = options.guarded();
    let most = counts
        .last()
        .copied()
        .max(options.lists().map(|_| 1))
        .max(guarded.first().map(|_| 1))
        .max(options.watched().first().map(|_| 1));
    let most = most.with_context(|| format!("--only {}: no such row", options.only))?;
    let pairs = clusters * ADAPTERS.len();
    if options.measures_anywhere(&Operation::reports()) {
        let most = options.connections(Operation::Report(Moves::Time)).iter().copied().max().unwrap_or(1);
        ensure!(pairs >= most.into(), "--clusters {clusters}: too few for reports over {most} connections");
    }
    let postgres = pgbench::postgres(most + POOLS).await?;
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
            options.limits(&mut findings, bare.as_ref(), &pgbench, connections)?;
            for subject in &subjects {
                options.clusters(&mut findings, subject, connections)?;
            }
            for reporting in &reporting {
                options.reports(&mut findings, reporting, connections).await?;
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
        figures(&mut findings, subject).await?;
    }
    findings.figures.push(Figure {
        name: "release binary".into(),
        value: size as f64 / 1e6,
        unit: "MB",
        at_most: Some(BINARY_MB),
    });

    let lists = listing.map(|listing| listing.found).unwrap_or_default();
    if let Some(file) = &options.json {
        let mut json = findings.json();
        json["lists"] = lists.json();
        json["access"] = access.found.json();
        json["watch"] = watching.found.json();
        fs::write(file, format!("{json:#}\n")).with_context(|| file.display().to_string())?;
    }
    println!("{findings}\n{lists}\n{}\n{}", access.found, watching.found);
    let errors = findings.errors() + lists.errors() + access.found.errors() + watching.found.errors();
    ensure!(errors == 0, "{errors} wrong answers: this run is no result");
    Ok(())
}

impl Options {
    /// Whether one of these is to be measured on a store.
    fn measures(&self, store: &str, operations: &[Operation]) -> bool {
        operations.iter().any(|operation| format!("{store} {}", operation.name()).contains(&self.only))
    }

    /// Whether one of these is to be measured on any store.
    fn measures_anywhere(&self, operations: &[Operation]) -> bool {
        STORES.iter().any(|store| self.measures(store, operations))
    }

    /// What is to be measured of lists, if anything.
    fn lists(&self) -> Option<Wanted<'_>> {
        let wanted = Wanted { only: &self.only, million: self.million };
        STORES.iter().any(|store| wanted.lists(store)).then_some(wanted)
    }

    /// The stores on which the cost of access control is to be measured.
    fn guarded(&self) -> Vec<&'static str> {
        STORES.into_iter().filter(|store| access::wanted(&self.only, store)).collect()
    }

    /// The stores on which watches are to be measured.
    fn watched(&self) -> Vec<&'static str> {
        STORES.into_iter().filter(|store| watching::wanted(&self.only, store)).collect()
    }

    fn access_connections(&self) -> &[u16] {
        if self.connections.is_empty() { &ACCESS_CONNECTIONS } else { &self.connections }
    }

    /// How many connections an operation is measured with.
    fn connections(&self, operation: Operation) -> &[u16] {
        match operation {
            _ if !self.connections.is_empty() => &self.connections,
            Operation::Cluster(_) => &[1, 32],
            Operation::Report(_) => &[1, 32, 256],
        }
    }

    fn measures_with(&self, store: &str, operation: Operation, connections: usize) -> bool {
        self.measures(store, &[operation])
            && self.connections(operation).iter().any(|&count| usize::from(count) == connections)
    }

    /// All numbers of connections that something is measured with, the limits included.
    fn counts(&self) -> BTreeSet<usize> {
        let operations = Operation::on_clusters().into_iter().chain(Operation::reports());
        let measured = operations.filter(|operation| self.measures_anywhere(&[*operation]));
        let mut counts: BTreeSet<usize> =
            measured.flat_map(|operation| self.connections(operation)).map(|&count| count.into()).collect();
        if self.measures_anywhere(&Operation::reports()) {
            counts.extend(pgbench::CLIENTS);
        }
        counts
    }

    fn load(&self, connections: usize, rate: Option<f64>) -> Load {
        let window = Duration::from_secs(self.seconds);
        Load { connections, warm_up: window / 3, window, rate }
    }

    /// For lists, of which there are many to measure and each is short.
    fn short_load(&self, connections: usize) -> Load {
        let window = Duration::from_secs(self.seconds) / 3;
        Load { connections, warm_up: window / 3, window, rate: self.rate }
    }

    /// One round of the limits that rows with as many connections need, or reports with any.
    fn limits(
        &self,
        findings: &mut Findings,
        bare: Option<&Bare>,
        pgbench: &Pgbench<'_>,
        connections: usize,
    ) -> Result<()> {
        let rows = self.connections(Operation::Cluster(Verb::Get)).iter();
        let bare = bare.filter(|_| rows.map(|&count| usize::from(count)).any(|count| count == connections));
        if bare.is_some() || self.measures_anywhere(&Operation::reports()) {
            findings.add_limit(UPDATE, connections, pgbench.update(connections, self.seconds)?);
        }
        let Some(bare) = bare else { return Ok(()) };
        findings.add_limit(SELECT, connections, pgbench.select(connections, self.seconds)?);
        for (name, path) in [(BARE_ONE, bare::ONE), (BARE_LIST, bare::LIST)] {
            let target = Target { address: bare.address, process: None, workload: Workload::Path(path) };
            let outcome = self.load(connections, None).run(&target)?;
            ensure!(outcome.errors == 0, "the bare handler: {}", outcome.first_error.unwrap_or_default());
            findings.add_limit(name, connections, outcome.rate());
        }
        Ok(())
    }

    /// One round of the rows on clusters of one store.
    fn clusters(&self, findings: &mut Findings, subject: &Subject, connections: usize) -> Result<()> {
        for verb in Verb::ALL {
            let operation = Operation::Cluster(verb);
            if self.measures_with(subject.store, operation, connections) {
                let outcome = self.load(connections, self.rate).run(&subject.target(verb)?)?;
                keep(findings, subject.store, operation, connections, outcome);
            }
        }
        Ok(())
    }

    /// One round of the rows on reports of one store.
    async fn reports(
        &self,
        findings: &mut Findings,
        reporting: &Reporting,
        connections: usize,
    ) -> Result<()> {
        for moves in Moves::ALL {
            let operation = Operation::Report(moves);
            if self.measures_with(reporting.store, operation, connections) {
                let before = reporting.views().await;
                let mut outcome = self.load(connections, self.rate).run(&reporting.target(moves)?)?;
                let faults = match before {
                    Ok(before) => reporting.faults(moves, &before).await,
                    Err(fault) => vec![format!("{fault:#}")],
                };
                faults.into_iter().for_each(|fault| outcome.fail(fault));
                keep(findings, reporting.store, operation, connections, outcome);
            }
        }
        Ok(())
    }
}

/// Adds one round to the findings, and says at once what went wrong in it.
fn keep(
    findings: &mut Findings,
    store: &'static str,
    operation: Operation,
    connections: usize,
    outcome: Outcome,
) {
    if let Some(error) = &outcome.first_error {
        eprintln!("{store} {}, first of {} errors: {error}", operation.name(), outcome.errors);
    }
    findings.add(store, operation, connections, outcome);
}

/// Memory and start of one store's server.
async fn figures(findings: &mut Findings, subject: &mut Subject) -> Result<()> {
    let store = subject.store;
    let mut figure = |what: &str, value, unit, at_most| {
        findings.figures.push(Figure { name: format!("{store}: {what}"), value, unit, at_most });
    };
    figure("peak memory under load", subject.peak_memory()? as f64 / MIB, "MiB", None);
    let idle = subject.idle().await?;
    figure("idle memory after start", idle.resident as f64 / MIB, "MiB", Some(IDLE_MEMORY_MIB));
    let starts: Vec<f64> = idle.starts.iter().map(|start| start.as_secs_f64() * 1e3).collect();
    figure("start to ready, existing database", median(&starts), "ms", Some(START_MILLIS));
    Ok(())
}
