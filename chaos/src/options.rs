//! The command line.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum as _};

use crate::faults::Kind;

/// Play faults against three replicas, two Sentinels and adapters on PostgreSQL and NATS, and check what clients were told.
///
/// Everything runs on this machine's loopback and goes when the program ends.
#[derive(Debug, Parser)]
#[command(name = "hyperfleet-chaos", version)]
pub(crate) struct Options {
    /// The server to test [default: `hyperfleet` beside this program]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How long faults happen
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=240))]
    minutes: u64,
    /// How long faults happen, for short runs
    #[arg(long, conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Draws the same faults as an earlier run [default: another one each time]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Only these faults, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    faults: Vec<Kind>,
    /// Writes and reports a second, at most
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(20..=1000))]
    pub(crate) rate: u32,
    /// Fail when writes stood still for longer than a limit, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also write the result to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// The program of the server.
    pub(crate) fn server(&self) -> Result<PathBuf> {
        let path = match &self.binary {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("hyperfleet"),
        };
        let missing = || format!("{} is missing: run `cargo build -p hyperfleet`", path.display());
        fs::canonicalize(&path).with_context(missing)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(self.minutes * 60))
    }

    /// The kinds of faults that were asked for.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        if self.faults.is_empty() { Kind::value_variants().to_vec() } else { self.faults.clone() }
    }
}
