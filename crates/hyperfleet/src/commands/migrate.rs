//! `hyperfleet migrate`: the schema, and nothing else.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_api::config::Config;
use hyperfleet_api::server::store_options;
use hyperfleet_service::logging;
use hyperfleet_service::logging::Output;
use hyperfleet_store::OpenError;

use super::{Failure, block_on};
use crate::cli::configuration::{Api, Configuration};
use crate::{BUILD, output};

/// Bring the database's schema up to date, and exit
///
/// It is safe to run many times and from many places at once. `serve` does the same at start unless
/// database.migrate is manual.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    configuration: Configuration<Api>,
    /// After a restore: refuse what clients keep of the lost history
    #[arg(long)]
    new_epoch: bool,
}

impl Migrate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        let mut log = config.log_config("migrate", BUILD.version);
        log.output = Output::Stderr;
        logging::init(log).map_err(Failure::new)?;
        block_on(|mut signals| async move {
            let options = store_options(&config);
            let migrate = async {
                let report = hyperfleet_store::migrate(&options).await?;
                let done = match report.applied.as_slice() {
                    [] => "nothing to do".to_owned(),
                    applied => format!("applied {}", applied.join(", ")),
                };
                output::data(&format!("schema {}: {done}\n", report.at));
                if self.new_epoch {
                    let epoch = hyperfleet_store::begin_epoch(&options).await?;
                    output::data(&format!("epoch {epoch}\n"));
                }
                Ok(ExitCode::SUCCESS)
            };
            tokio::select! {
                migrated = migrate => migrated.map_err(|error: OpenError| Failure::new(error)),
                signal = signals.next() => Ok(ExitCode::from(signal.exit_code())),
            }
        })
    }
}
