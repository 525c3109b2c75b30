//! `hyperfleet config`, and `--print-config` of the servers: the effective configuration, secrets masked.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_api::config;
use hyperfleet_service::settings::Settings;

use super::Failure;
use crate::cli::configuration::{Api, Configuration};
use crate::output;

/// Help of `--print-config`.
pub(super) const PRINT_CONFIG: &str = "Print the effective configuration as YAML, secrets masked, and exit";

/// Print the effective configuration, secrets masked
///
/// The output is YAML: every key, with a comment that names the source of each value that is not the default.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(flatten)]
    configuration: Configuration<Api>,
}

impl Config {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        Ok(print(&config::Config::load(&self.configuration.sources())?.settings))
    }
}

/// The same for every role. A configuration that cannot serve is printed too, to show why.
pub(super) fn print(settings: &Settings) -> ExitCode {
    output::data(&settings.to_yaml());
    ExitCode::SUCCESS
}
