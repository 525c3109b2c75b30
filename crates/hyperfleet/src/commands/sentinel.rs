//! `hyperfleet sentinel`: the Sentinel by itself, and its configuration.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyperfleet_sentinel::config::Config;
use hyperfleet_sentinel::serve::{self, StartError};
use hyperfleet_service::logging;

use super::config::{self, PRINT_CONFIG};
use super::{Failure, block_on};
use crate::BUILD;
use crate::cli::configuration::{Configuration, Sentinel};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    /// Print the Sentinel's effective configuration, secrets masked
    Config(Configuration<Sentinel>),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Config(configuration) => {
                Ok(config::print(&Config::load(&configuration.sources())?.settings))
            }
        }
    }
}

/// Run the Sentinel as configured
///
/// It follows the API, decides when a resource needs work, and publishes an event for the adapters. Replicas of one
/// name share the work.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet sentinel serve --clients-hyperfleet-api-base-url http://localhost:8000 --broker-type nats --broker-nats-url nats://localhost:4222"
)]
pub(crate) struct Serve {
    #[arg(long, help = PRINT_CONFIG)]
    print_config: bool,
    #[command(flatten)]
    configuration: Configuration<Sentinel>,
}

impl Serve {
    fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        if self.print_config {
            return Ok(config::print(&config.settings));
        }
        config.check_serving().map_err(Failure::usage)?;
        logging::init(config.log_config(BUILD.version)).map_err(Failure::new)?;
        block_on(|mut signals| async move {
            match serve::serve(&config, &mut signals, |_| {}).await {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(StartError::Bind(error)) if error.address_in_use().is_some() => Err(Failure::new(
                    format!("{error}. Stop it, or choose another port with --health-port or --metrics-port"),
                )),
                Err(error @ (StartError::Broker(_) | StartError::Api(_))) => Err(Failure::usage(error)),
                Err(error) => Err(Failure::new(error)),
            }
        })
    }
}
