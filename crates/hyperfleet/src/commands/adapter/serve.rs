//! `hyperfleet adapter serve`: an adapter that runs a task file.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_adapter::Config;
use hyperfleet_adapter::serve::{self, StartError};
use hyperfleet_service::logging;

use super::super::config::{self, PRINT_CONFIG};
use super::super::{Failure, block_on};
use super::task::TaskFile;
use crate::BUILD;
use crate::cli::configuration::{Adapter, Configuration};

/// Run an adapter
///
/// It receives the events of the Sentinel, reads each resource, does what the task file says, and reports. The two files
/// of the Go adapter are read as they are. Several processes of one subscription share the work.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet adapter serve -c adapter-config.yaml -t adapter-task-config.yaml"
)]
pub(crate) struct Serve {
    #[command(flatten)]
    task: TaskFile,
    #[arg(long, help = PRINT_CONFIG)]
    print_config: bool,
    #[command(flatten)]
    configuration: Configuration<Adapter>,
}

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        if self.print_config {
            return Ok(config::print(&config.settings));
        }
        config.check_complete()?;
        config.check_serving().map_err(Failure::usage)?;
        let task = self.task.load(&config)?;
        let file = self.task.path()?;
        logging::init(config.log_config(BUILD.version)).map_err(Failure::new)?;
        block_on(|mut signals| async move {
            match serve::serve(&config, task, &file, &mut signals, |_| {}).await {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(StartError::Bind(error)) if error.address_in_use().is_some() => Err(Failure::new(
                    format!("{error}. Stop it, or choose another port with --health-port or --metrics-port"),
                )),
                Err(StartError::Bind(error)) => Err(Failure::new(error)),
                Err(error) => Err(Failure::usage(error)),
            }
        })
    }
}
