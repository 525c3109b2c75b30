//! `hyperfleet-chaos` plays faults against the deployed shape under load, and checks what clients were told against the
//! feed: no acknowledged write is lost, no update is lost, every watch has every change once. `make chaos` runs an hour.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod availability;
mod checks;
mod digest;
mod evidence;
mod faults;
mod feed;
mod history;
mod installation;
mod load;
mod options;
mod report;
mod restored;
mod run;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use crate::options::Options;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(directory) = options.json.as_deref().and_then(|file| file.parent()) {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let report = run::run(&options).await?;
    println!("{report}");
    if let Some(file) = &options.json {
        fs::write(file, format!("{:#}\n", report.json())).with_context(|| file.display().to_string())?;
    }
    let is_strict_failure = options.strict && report.missed() > 0;
    match report.findings.violations.is_empty() && !is_strict_failure {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}
