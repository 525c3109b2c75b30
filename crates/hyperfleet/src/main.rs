//! The one binary: the server roles and the tools around them.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0 done, 2 wrong usage or configuration, 128 + n ended by signal n
//! while starting or by a second signal; the others are [`commands::Exit`].
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod output;
mod remote;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use hyperfleet_service::build_info::BuildInfo;

use crate::cli::Cli;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What this binary was built from.
const BUILD: BuildInfo = BuildInfo {
    version: env!("CARGO_PKG_VERSION"),
    git_sha: env!("HYPERFLEET_GIT_SHA"),
    build_timestamp: env!("HYPERFLEET_BUILD_TIMESTAMP"),
};

/// Called through a link named `adapter`, the binary is that command: charts of the Go adapter call `/app/adapter serve`.
fn arguments(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let called = arguments.first().and_then(|program| Path::new(program).file_name());
    if called.is_some_and(|name| name == "adapter") {
        arguments.insert(1, "adapter".into());
    }
    arguments
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(arguments(std::env::args_os().collect()));
    output::choose_colours(cli.color);
    let result = cli.command.run();
    hyperfleet_service::logging::flush();
    match result {
        Ok(code) => code,
        Err(failure) => {
            output::message(&format!("{} {}", output::red("error:"), failure.text));
            ExitCode::from(failure.code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_named_adapter_is_the_command() {
        let called = |all: &[&str]| arguments(all.iter().map(OsString::from).collect());
        assert_eq!(called(&["/app/adapter", "serve"]), ["/app/adapter", "adapter", "serve"]);
        assert_eq!(called(&["hyperfleet", "serve"]), ["hyperfleet", "serve"]);
    }
}
