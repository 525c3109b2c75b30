//! `hyperfleet version`: what this binary was built from.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::Failure;
use crate::{BUILD, output};

/// Print what this binary was built from
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Format of the output
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value = "text")]
    output: VersionFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VersionFormat {
    Text,
    Json,
}

impl Version {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let text = match self.output {
            VersionFormat::Text => {
                format!("hyperfleet {} (commit {}, built {})", BUILD.version, BUILD.git_sha, BUILD.build_timestamp)
            }
            VersionFormat::Json => {
                json!({"version": BUILD.version, "git_sha": BUILD.git_sha, "build_timestamp": BUILD.build_timestamp})
                    .to_string()
            }
        };
        output::data(&(text + "\n"));
        Ok(ExitCode::SUCCESS)
    }
}
