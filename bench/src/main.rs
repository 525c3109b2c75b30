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

mod bare;
mod load;
mod pgbench;
mod report;
mod subject;
mod workload;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use hyperfleet_testkit::{Launch, Postgres, Store};

use crate::bare::Bare;
use crate::load::Load;
use crate::pgbench::Pgbench;
use crate::report::{BARE_LIST, BARE_ONE, Figure, Limit, Report, SELECT, Samples, UPDATE, median};
use crate::subject::Subject;
use crate::workload::{Operation, Workload};

/// The server's own allocator, so that the bare handler is held to the same.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MIB: f64 = 1024.0 * 1024.0;
const IDLE_MEMORY_MIB: f64 = 30.0;
const START_MILLIS: f64 = 300.0;
const BINARY_MB: f64 = 40.0;

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
    /// Clusters that are there before get, patch and list are measured
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(20..))]
    clusters: u32,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32], value_parser = clap::value_parser!(u16).range(1..))]
    connections: Vec<u16>,
    /// Open loop: this many requests per second, however slow the answers are
    #[arg(long)]
    rate: Option<f64>,
    /// Measure only rows whose `store request` contains this, such as `postgresql get`
    #[arg(long, default_value = "")]
    only: String,
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
    let postgres = Postgres::durable().await?;
    let (loaded, empty) = (postgres.database().await, postgres.database().await);
    let mut subjects = Vec::new();
    for (store, stores) in [
        ("sqlite", [Store::Sqlite, Store::Sqlite]),
        ("postgresql", [Store::Postgres(loaded.url()), Store::Postgres(empty.url())]),
    ] {
        if Operation::ALL.iter().any(|operation| options.measures(store, *operation)) {
            eprintln!("{store}: loading {clusters} clusters");
            subjects.push(Subject::start(store, &launch, stores, clusters).await?);
        }
    }
    let first = subjects.first().with_context(|| format!("--only {}: no such row", options.only))?;
    let bare = Bare::start(first.one, first.list)?;
    pgbench::execute(&postgres, &loaded, "VACUUM ANALYZE")?;
    let pgbench = Pgbench::prepare(&postgres, clusters).await?;

    let mut report = Report { open_loop: options.rate.is_some(), ..Report::default() };
    for round in 1..=options.rounds {
        for &connections in &options.connections {
            eprintln!("round {round} of {}, {connections} connections", options.rounds);
            options.limits(&mut report, &bare, &pgbench, connections.into())?;
            options.rows(&mut report, &subjects, connections.into())?;
        }
    }
    for subject in &mut subjects {
        figures(&mut report, subject).await?;
    }
    report.figures.push(Figure {
        name: "release binary".into(),
        value: size as f64 / 1e6,
        unit: "MB",
        at_most: Some(BINARY_MB),
    });

    if let Some(file) = &options.json {
        fs::write(file, format!("{:#}\n", report.json())).with_context(|| file.display().to_string())?;
    }
    println!("{report}");
    Ok(())
}

impl Options {
    fn measures(&self, store: &str, operation: Operation) -> bool {
        format!("{store} {}", operation.name()).contains(&self.only)
    }

    fn load(&self, connections: usize, rate: Option<f64>) -> Load {
        let window = Duration::from_secs(self.seconds);
        Load { connections, warm_up: window / 3, window, rate }
    }

    /// One round of every limit.
    fn limits(
        &self,
        report: &mut Report,
        bare: &Bare,
        pgbench: &Pgbench<'_>,
        connections: usize,
    ) -> Result<()> {
        let read = |path| -> Result<f64> {
            let outcome = self.load(connections, None).run(bare.address, &Workload::Path(path))?;
            ensure!(outcome.errors == 0, "the bare handler: {}", outcome.first_error.unwrap_or_default());
            Ok(outcome.rate())
        };
        let limits = [
            (UPDATE, pgbench.update(connections, self.seconds)?),
            (SELECT, pgbench.select(connections, self.seconds)?),
            (BARE_ONE, read(bare::ONE)?),
            (BARE_LIST, read(bare::LIST)?),
        ];
        for (name, rate) in limits {
            match report
                .limits
                .iter_mut()
                .find(|limit| limit.name == name && limit.connections == connections)
            {
                Some(limit) => limit.rates.push(rate),
                None => report.limits.push(Limit { name, connections, rates: vec![rate] }),
            }
        }
        Ok(())
    }

    /// One round of every row.
    fn rows(&self, report: &mut Report, subjects: &[Subject], connections: usize) -> Result<()> {
        for subject in subjects {
            for operation in
                Operation::ALL.into_iter().filter(|operation| self.measures(subject.store, *operation))
            {
                let (address, workload) = subject.target(operation)?;
                let outcome = self.load(connections, self.rate).run(address, &workload)?;
                if let Some(error) = &outcome.first_error {
                    eprintln!(
                        "{} {}, first of {} errors: {error}",
                        subject.store,
                        operation.name(),
                        outcome.errors
                    );
                }
                let row = report.samples.iter_mut().find(|row| {
                    (row.store, row.operation, row.connections) == (subject.store, operation, connections)
                });
                match row {
                    Some(row) => row.add(&outcome),
                    None => report.samples.push(Samples::new(subject.store, operation, connections, outcome)),
                }
            }
        }
        Ok(())
    }
}

/// Memory and start of one store's server.
async fn figures(report: &mut Report, subject: &mut Subject) -> Result<()> {
    let store = subject.store;
    let mut figure = |what: &str, value, unit, at_most| {
        report.figures.push(Figure { name: format!("{store}: {what}"), value, unit, at_most });
    };
    figure("peak memory under load", subject.peak_memory()? as f64 / MIB, "MiB", None);
    let idle = subject.idle().await?;
    figure("idle memory after start", idle.resident as f64 / MIB, "MiB", Some(IDLE_MEMORY_MIB));
    let starts: Vec<f64> = idle.starts.iter().map(|start| start.as_secs_f64() * 1e3).collect();
    figure("start to ready, existing database", median(&starts), "ms", Some(START_MILLIS));
    Ok(())
}
