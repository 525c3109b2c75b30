//! `hyperfleet config`, and `--print-config` of whatever serves: the effective configuration, secrets masked.

use std::process::ExitCode;

use clap::ArgMatches;
use hyperfleet_api::config::Config;
use hyperfleet_service::settings::Settings;

use super::Failure;
use crate::{cli, output};

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    Ok(print(&Config::load(&cli::sources(matches))?.settings))
}

/// The same for every role: what may not serve yet is printed too, so that one sees why.
pub(super) fn print(settings: &Settings) -> ExitCode {
    output::data(&settings.to_yaml());
    ExitCode::SUCCESS
}
