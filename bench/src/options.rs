//! The command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use hyperfleet_testkit::Launch;

use crate::goals::GoalsArgs;
use crate::load::Load;
use crate::steady::FleetArgs;
use crate::workload::Operation;

/// Measure HyperFleet on SQLite and PostgreSQL against the limits of this machine.
#[derive(Debug, Parser)]
#[command(name = "hyperfleet-bench", version)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The server to measure [default: `hyperfleet` beside this program]
    #[arg(long, global = true)]
    binary: Option<PathBuf>,
    /// Another build of the server, which takes turns with this one in single requests
    #[arg(long, value_name = "PATH")]
    pub(crate) against: Option<PathBuf>,
    /// A setting of the other build alone; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "against")]
    pub(crate) against_env: Vec<String>,
    /// Length of one measured window
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Windows per row, with --against two of each build in every round; the median counts
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// Clusters of a fleet
    #[arg(long, global = true, default_value = "10000", value_parser = clusters)]
    pub(crate) clusters: usize,
    /// Servers on one PostgreSQL database, over which connections are spread evenly [default: 1, and 3 for gets and
    /// reports with most connections]
    #[arg(long, global = true, value_parser = replicas)]
    pub(crate) replicas: Option<usize>,
    /// Numbers of connections [default: 1,32, and for reports 1,32,256]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    connections: Vec<u16>,
    /// Measure only rows whose name contains this, such as `postgresql get`, `report`, `x3`, `list`, `access`, `watch` or
    /// `events`
    #[arg(long, default_value = "")]
    pub(crate) only: String,
    /// Also measure lists in a fleet of 1,000,000, which takes minutes to make
    #[arg(long)]
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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve constants of these sizes, the limit of reads
    #[command(hide = true)]
    Baseline { cluster: usize, page: usize },
    /// Find the highest rate of a steady fleet's reports that PostgreSQL holds
    Fleet(FleetArgs),
    /// Print the table of goals with the results of earlier runs
    Goals(GoalsArgs),
}

fn clusters(text: &str) -> Result<usize, String> {
    let multiple_of_100 = |clusters: &usize| *clusters > 0 && clusters.is_multiple_of(100);
    text.parse().ok().filter(multiple_of_100).ok_or_else(|| "not a multiple of 100".to_owned())
}

fn replicas(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|replicas| (1..=5).contains(replicas))
        .ok_or_else(|| "not from 1 to 5".to_owned())
}

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
        fs::canonicalize(&path).with_context(|| format!("{} is missing: run `make bench`", path.display()))
    }

    pub(crate) fn launch(&self) -> Result<Launch> {
        with_settings(Launch::new(self.server()?).discard_logs(), "--env", &self.environment)
    }

    /// How the other build is started: with the settings of this one and its own.
    pub(crate) fn launch_other(&self, path: &Path) -> Result<Launch> {
        let launch = with_settings(Launch::new(path).discard_logs(), "--env", &self.environment)?;
        with_settings(launch, "--against-env", &self.against_env)
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        row.contains(&self.only)
    }

    pub(crate) fn connections(&self, operation: Operation) -> Vec<usize> {
        match operation {
            _ if !self.connections.is_empty() => self.connections.iter().copied().map(usize::from).collect(),
            Operation::Report(_) => vec![1, 32, 256],
            _ => vec![1, 32],
        }
    }

    /// A window in the closed loop.
    pub(crate) fn load(&self, connections: usize) -> Load {
        let window = Duration::from_secs(self.seconds);
        Load { connections, warm_up: window / 3, window, rate: None }
    }

    /// A window of a third of the length with one connection, for lists, of which there are many.
    pub(crate) fn short_load(&self) -> Load {
        let window = Duration::from_secs(self.seconds) / 3;
        Load { connections: 1, warm_up: window / 3, window, rate: None }
    }
}
