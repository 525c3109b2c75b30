//! `hyperfleet sentinel`: the Sentinel by itself, and its configuration.

use std::process::ExitCode;

use clap::ArgMatches;
use hyperfleet_sentinel::config::Config;
use hyperfleet_sentinel::serve::{self, StartError};
use hyperfleet_service::logging;

use super::{Failure, block_on, config};
use crate::{BUILD, cli};

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("serve", matches)) => serve(matches),
        Some(("config", matches)) => {
            Ok(config::print(&Config::load(&cli::sentinel_sources(matches))?.settings))
        }
        _ => Err(Failure::usage("no such command; see hyperfleet sentinel --help")),
    }
}

fn serve(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let config = Config::load(&cli::sentinel_sources(matches))?;
    if matches.get_flag("print-config") {
        return Ok(config::print(&config.settings));
    }
    config.check_serving().map_err(Failure::usage)?;
    logging::init(config.log_config(BUILD.version)).map_err(Failure::new)?;
    block_on(|mut signals| async move {
        match serve::serve(&config, &mut signals, |_| {}).await {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(StartError::Bind(error)) if error.address_in_use().is_some() => Err(Failure::new(format!(
                "{error}. Stop it, or choose another port with --health-port or --metrics-port"
            ))),
            Err(error @ (StartError::Broker(_) | StartError::Api(_))) => Err(Failure::usage(error)),
            Err(error) => Err(Failure::new(error)),
        }
    })
}
