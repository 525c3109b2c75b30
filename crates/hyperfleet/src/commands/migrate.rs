//! `hyperfleet migrate`: the schema, and nothing else.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_api::config::Config;
use hyperfleet_api::server::store_options;
use hyperfleet_service::logging;
use hyperfleet_service::logging::Output;

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
}

impl Migrate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        let mut log = config.log_config("migrate", BUILD.version);
        log.output = Output::Stderr;
        logging::init(log).map_err(Failure::new)?;
        block_on(|mut signals| async move {
            let options = store_options(&config);
            let report = tokio::select! {
                report = hyperfleet_store::migrate(&options) => report.map_err(Failure::new)?,
                signal = signals.next() => return Ok(ExitCode::from(signal.exit_code())),
            };
            let done = match report.applied.as_slice() {
                [] => "nothing to do".to_owned(),
                applied => format!("applied {}", applied.join(", ")),
            };
            output::data(&format!("schema {}: {done}\n", report.at));
            Ok(ExitCode::SUCCESS)
        })
    }
}
