//! `hyperfleet config`: the effective configuration, secrets masked.

use std::process::ExitCode;

use clap::ArgMatches;
use hyperfleet_api::config::Config;

use super::Failure;
use crate::{cli, output};

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let config = Config::load(&cli::sources(matches))?;
    output::data(&config.settings.to_yaml());
    Ok(ExitCode::SUCCESS)
}
