//! What a run is told to do, and what follows from that: which rows, with how many connections, for how long.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use hyperfleet_testkit::Launch;

use crate::goals::Asked;
use crate::growth::Grown;
use crate::listing::Wanted;
use crate::load::Load;
use crate::play::Played;
use crate::reports::{ADAPTERS, Moves};
use crate::workload::Operation;
use crate::{access, pgbench, watching};

/// Names of the stores, in the order in which they are measured.
pub(crate) const STORES: [&str; 2] = ["sqlite", "postgresql"];
/// Connections that the cost of access control is measured with, unless told otherwise.
const ACCESS_CONNECTIONS: [u16; 1] = [32];

/// Measure HyperFleet on SQLite and PostgreSQL against the limits of this machine.
#[derive(Debug, Parser)]
#[command(name = "hyperfleet-bench", version)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The server to measure [default: `hyperfleet` beside this program]
    #[arg(long, global = true)]
    pub(crate) binary: Option<PathBuf>,
    /// Another build of the server: both take turns, and each row says how many times the other's rate this one has
    #[arg(long, value_name = "PATH", conflicts_with = "rate")]
    pub(crate) against: Option<PathBuf>,
    /// A setting of that other server alone; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "against")]
    pub(crate) against_env: Vec<String>,
    /// Length of one measured window
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Windows per row, and with --against twice as many for each build; the median counts
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// Clusters that are there before anything but create is measured
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(20..))]
    pub(crate) clusters: u32,
    /// Numbers of connections [default: 1,32, and for reports 1,32,256]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: Vec<u16>,
    /// Open loop: this many requests per second, however slow the answers are
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Measure only rows whose `store request` contains this, such as `postgresql get`, `report`, `list`, `access`, `watch`, `events` or `events memory`
    #[arg(long, default_value = "")]
    pub(crate) only: String,
    /// Also measure in a fleet of 1,000,000, which takes minutes to make
    #[arg(long, global = true)]
    pub(crate) million: bool,
    /// A setting of the server, such as HYPERFLEET_LOGGING_LEVEL=warn; may be repeated
    #[arg(long = "env", global = true, value_name = "NAME=VALUE")]
    pub(crate) environment: Vec<String>,
    /// A setting of PostgreSQL, such as shared_buffers=1GB, also for the limits; may be repeated
    #[arg(long = "postgres", global = true, value_name = "NAME=VALUE")]
    pub(crate) postgres: Vec<String>,
    /// Also write the result to this file
    #[arg(long, global = true, value_name = "FILE", overrides_with = "json")]
    pub(crate) json: Option<PathBuf>,
    /// Show what changed since the run that was written to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve bodies of these sizes, the limit that reads are held against
    #[command(hide = true)]
    Bare { one: usize, list: usize },
    /// Serve a stand-in of Pub/Sub, where there is no emulator of it
    #[command(hide = true)]
    Pubsub,
    /// Play a whole fleet at a rate that is raised until it is too much; tells the largest that this machine holds
    Fleet(Played),
    /// Measure how the cost of requests grows with the fleet, and draw it
    Growth(Grown),
    /// Show the goals with what earlier runs measured, as a table in Markdown
    Goals(Asked),
}

/// With settings, of which the last of a name counts.
fn with_settings(mut launch: Launch, option: &str, settings: &[String]) -> Result<Launch> {
    for setting in settings {
        let (name, value) =
            setting.split_once('=').with_context(|| format!("{option} {setting}: not NAME=VALUE"))?;
        launch = launch.env(name, value);
    }
    Ok(launch)
}

impl Options {
    /// The program of the server.
    pub(crate) fn server(&self) -> Result<PathBuf> {
        let path = match &self.binary {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("hyperfleet"),
        };
        fs::canonicalize(&path).with_context(|| format!("{} is not there: run `make bench`", path.display()))
    }

    /// How every server is started.
    pub(crate) fn launch(&self) -> Result<Launch> {
        with_settings(Launch::new(self.server()?).discard_logs(), "--env", &self.environment)
    }

    /// How the server is started that takes turns with it: by the same settings, and more.
    pub(crate) fn launch_of(&self, other: &Path) -> Result<Launch> {
        let launch = with_settings(Launch::new(other).discard_logs(), "--env", &self.environment)?;
        with_settings(launch, "--against-env", &self.against_env)
    }

    /// Whether one of these is to be measured on a store.
    pub(crate) fn measures(&self, store: &str, operations: &[Operation]) -> bool {
        operations.iter().any(|operation| format!("{store} {}", operation.name()).contains(&self.only))
    }

    /// Whether one of these is to be measured on any store.
    pub(crate) fn measures_anywhere(&self, operations: &[Operation]) -> bool {
        STORES.iter().any(|store| self.measures(store, operations))
    }

    /// What is to be measured of lists, if anything.
    pub(crate) fn lists(&self) -> Option<Wanted<'_>> {
        let wanted = Wanted { only: &self.only, million: self.million };
        STORES.iter().any(|store| wanted.lists(store)).then_some(wanted)
    }

    /// The stores on which the cost of access control is to be measured.
    pub(crate) fn guarded(&self) -> Vec<&'static str> {
        STORES.into_iter().filter(|store| access::wanted(&self.only, store)).collect()
    }

    /// The stores on which watches are to be measured.
    pub(crate) fn watched(&self) -> Vec<&'static str> {
        STORES.into_iter().filter(|store| watching::wanted(&self.only, store)).collect()
    }

    pub(crate) fn access_connections(&self) -> &[u16] {
        if self.connections.is_empty() { &ACCESS_CONNECTIONS } else { &self.connections }
    }

    /// An adapter of a cluster is served by one connection at a time, so there must be as many as connections.
    pub(crate) fn ensure_enough_for_reports(&self) -> Result<()> {
        let most = self.connections(Operation::Report(Moves::Time)).iter().copied().max().unwrap_or(1);
        let is_enough = usize::try_from(self.clusters)? * ADAPTERS.len() >= most.into();
        ensure!(
            is_enough || !self.measures_anywhere(&Operation::reports()),
            "--clusters {}: too few for reports over {most} connections",
            self.clusters
        );
        Ok(())
    }

    /// How many connections an operation is measured with.
    pub(crate) fn connections(&self, operation: Operation) -> &[u16] {
        match operation {
            _ if !self.connections.is_empty() => &self.connections,
            Operation::Cluster(_) => &[1, 32],
            Operation::Report(_) => &[1, 32, 256],
        }
    }

    pub(crate) fn measures_with(&self, store: &str, operation: Operation, connections: usize) -> bool {
        self.measures(store, &[operation])
            && self.connections(operation).iter().any(|&count| usize::from(count) == connections)
    }

    /// All numbers of connections that a row is measured with.
    pub(crate) fn row_counts(&self) -> BTreeSet<usize> {
        let operations = Operation::on_clusters().into_iter().chain(Operation::reports());
        let measured = operations.filter(|operation| self.measures_anywhere(&[*operation]));
        measured.flat_map(|operation| self.connections(operation)).map(|&count| count.into()).collect()
    }

    /// The same, the limits included.
    pub(crate) fn counts(&self) -> BTreeSet<usize> {
        let mut counts = self.row_counts();
        if self.measures_anywhere(&Operation::reports()) {
            counts.extend(pgbench::CLIENTS);
        }
        counts
    }

    pub(crate) fn load(&self, connections: usize, rate: Option<f64>) -> Load {
        let window = Duration::from_secs(self.seconds);
        Load { connections, warm_up: window / 3, window, rate }
    }

    /// For lists, of which there are many to measure and each is short.
    pub(crate) fn short_load(&self, connections: usize) -> Load {
        let window = Duration::from_secs(self.seconds) / 3;
        Load { connections, warm_up: window / 3, window, rate: self.rate }
    }
}
