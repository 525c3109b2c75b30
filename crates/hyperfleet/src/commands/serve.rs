//! `hyperfleet serve`: the API as configured.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_api::config::Config;
use hyperfleet_api::server::{self, StartError, Started};
use hyperfleet_service::logging;
use hyperfleet_service::shutdown::Signals;
use prometheus_client::registry::Registry;

use super::config::{self, PRINT_CONFIG};
use super::{Failure, block_on};
use crate::BUILD;
use crate::cli::configuration::{Api, Configuration};

/// Run the API as configured
///
/// Flags come before environment variables, these before the configuration file, and the file before defaults. Many
/// replicas may share one PostgreSQL database.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet serve --server-jwt-enabled=false --database-url postgres://me@localhost/hyperfleet"
)]
pub(crate) struct Serve {
    #[arg(long, help = PRINT_CONFIG)]
    print_config: bool,
    #[command(flatten)]
    configuration: Configuration<Api>,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        if self.print_config {
            return Ok(config::print(&config.settings));
        }
        config.check_serving().map_err(Failure::usage)?;
        logging::init(config.log_config("api", BUILD.version)).map_err(Failure::new)?;
        block_on(|mut signals| async move {
            serve(&config, Registry::default(), &mut signals, |_| std::future::ready(())).await
        })
    }
}

/// Serves until a signal, and awaits the tasks that `ready` returns. A failed start names a remedy.
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
