//! `hyperfleet adapter`: an adapter that runs a task file, its tools, and simulated adapters.

mod check;
mod dry_run;
mod run;
mod serve;
mod simulate;
mod task;

use std::process::ExitCode;

use clap::Subcommand;
use hyperfleet_adapter::Config;

use super::{Failure, config};
use crate::cli::configuration::{Adapter, Configuration};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Run(run::Run),
    DryRun(dry_run::DryRun),
    Check(check::Check),
    /// Print the adapter's effective configuration, secrets masked
    #[command(alias = "config-dump")]
    Config(Configuration<Adapter>),
    Simulate(simulate::Simulate),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Run(run) => run.run(),
            Self::DryRun(dry_run) => dry_run.run(),
            Self::Check(check) => check.run(),
            Self::Config(configuration) => {
                Ok(config::print(&Config::load(&configuration.sources())?.settings))
            }
            Self::Simulate(simulate) => simulate.run(),
        }
    }
}
