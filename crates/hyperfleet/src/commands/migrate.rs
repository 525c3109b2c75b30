//! `hyperfleet migrate`: the schema, and nothing else.

use std::process::ExitCode;

use clap::ArgMatches;
use hyperfleet_api::config::Config;
use hyperfleet_api::server::store_options;
use hyperfleet_service::logging;
use hyperfleet_service::logging::Output;

use super::{Failure, block_on};
use crate::{BUILD, cli, output};

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let config = Config::load(&cli::sources(matches))?;
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
