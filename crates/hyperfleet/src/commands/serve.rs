//! `hyperfleet serve`: the API as configured.

use std::process::ExitCode;

use clap::ArgMatches;
use hyperfleet_api::config::Config;
use hyperfleet_api::server::{self, StartError, Started};
use hyperfleet_service::logging;
use hyperfleet_service::shutdown::Signals;
use prometheus_client::registry::Registry;

use super::{Failure, block_on, config};
use crate::{BUILD, cli};

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let config = Config::load(&cli::sources(matches))?;
    if matches.get_flag("print-config") {
        return Ok(config::print(&config.settings));
    }
    config.check_serving().map_err(Failure::usage)?;
    logging::init(config.log_config("api", BUILD.version)).map_err(Failure::new)?;
    block_on(|mut signals| async move {
        serve(&config, Registry::default(), &mut signals, |_| std::future::ready(())).await
    })
}

/// Serves until a signal, and lets those leave that `ready` names. A start that fails is told in a way that helps.
pub(super) async fn serve<L: Future<Output = ()>>(
    config: &Config,
    registry: Registry,
    signals: &mut Signals,
    ready: impl FnOnce(&Started) -> L,
) -> Result<ExitCode, Failure> {
    match server::run(config, BUILD, registry, signals, ready).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(StartError::Interrupted(signal)) => Ok(ExitCode::from(signal.exit_code())),
        Err(StartError::Bind(error)) if error.address_in_use().is_some() => Err(Failure::new(format!(
            "{error}. Stop it, or choose another port with --server-port, --health-port or --metrics-port"
        ))),
        Err(error @ StartError::Schemas(_)) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::new(error)),
    }
}
