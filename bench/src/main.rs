//! `hyperfleet-bench` measures the server against the limits of the machine. Everything that is compared is measured in
//! the same run, so a ratio means the same on a laptop and on a large server. See `bench/README.md`.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program: results to stdout, progress to stderr"
)]

mod access;
mod against;
mod baseline;
mod connection;
mod events;
mod fleet;
mod goals;
mod lists;
mod load;
mod machine;
mod options;
mod pgbench;
mod process;
mod queries;
mod reports;
mod requests;
mod results;
mod run;
mod stats;
mod steady;
mod verify;
mod watch;
mod workload;

use anyhow::{Result, ensure};
use clap::Parser as _;
use serde_json::json;

use crate::options::{Command, Options};
use crate::results::Results;
use crate::run::Run;

/// The server's allocator, so that the baseline handler has the same.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Room for the connection pools of all servers that run at a time.
const POSTGRES_CLIENTS: usize = 1_500;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    match &options.command {
        Some(Command::Baseline { cluster, page }) => return baseline::serve(*cluster, *page).await,
        Some(Command::Goals(args)) => return goals::run(args),
        Some(Command::Fleet(_)) | None => {}
    }
    let postgres = pgbench::postgres(&options, POSTGRES_CLIENTS).await?;
    let run = Run::begin(&options, &postgres, settings(&options))?;
    let mut results = Results::default();
    match (&options.command, &options.against) {
        (Some(Command::Fleet(args)), None) => {
            steady::measure(&options, args, &postgres, &mut results).await?;
        }
        (None, Some(other)) => against::measure(&options, other, &postgres, &mut results).await?,
        (None, None) => {
            let launch = options.launch()?;
            requests::measure(&options, &launch, &postgres, &mut results).await?;
            lists::measure(&options, &launch, &postgres, &mut results).await?;
            access::measure(&options, &launch, &postgres, &mut results).await?;
            watch::measure(&options, &launch, &postgres, &mut results).await?;
            events::measure(&options, &launch, &postgres, &mut results).await?;
        }
        (Some(_), _) => anyhow::bail!("--against compares single requests, not the fleet"),
    }
    ensure!(!results.is_empty(), "--only {}: no such row", options.only);
    run.finish(&results)
}

fn settings(options: &Options) -> serde_json::Value {
    let against = options.against.as_deref().and_then(machine::version);
    json!({
        "seconds": options.seconds, "rounds": options.rounds, "clusters": options.clusters,
        "replicas": options.replicas, "only": options.only, "environment": options.environment,
        "postgres": options.postgres, "against": against, "against_environment": options.against_env,
    })
}
