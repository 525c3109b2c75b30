//! `hyperfleet version`: what this binary was built from.

use std::process::ExitCode;

use clap::ArgMatches;
use serde_json::json;

use super::Failure;
use crate::{BUILD, output};

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let text = if matches.get_one::<String>("output").is_some_and(|form| form == "json") {
        json!({"version": BUILD.version, "git_sha": BUILD.git_sha, "build_timestamp": BUILD.build_timestamp})
            .to_string()
    } else {
        format!("hyperfleet {} (commit {}, built {})", BUILD.version, BUILD.git_sha, BUILD.build_timestamp)
    };
    output::data(&(text + "\n"));
    Ok(ExitCode::SUCCESS)
}
