//! One function per command, and how a failure ends the process.

mod config;
mod dev;
mod migrate;
mod serve;
mod up;
mod version;

use std::process::ExitCode;

use clap::ArgMatches;
use hyperfleet_service::settings::Faults;
use hyperfleet_service::shutdown::Signals;

use crate::{cli, output};

/// Why a command ends without success.
pub(crate) struct Failure {
    /// For the person.
    pub(crate) text: String,
    /// The exit code.
    pub(crate) code: u8,
}

impl Failure {
    /// Something did not work.
    pub(crate) fn new(text: impl std::fmt::Display) -> Self {
        Self { text: text.to_string(), code: 1 }
    }

    /// The command was called or configured wrongly.
    pub(crate) fn usage(text: impl std::fmt::Display) -> Self {
        Self { text: text.to_string(), code: 2 }
    }
}

impl From<Faults> for Failure {
    fn from(faults: Faults) -> Self {
        Self::usage(faults)
    }
}

/// Runs the command that was asked for.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("up", matches)) => up::run(matches),
        Some(("serve", matches)) => serve::run(matches),
        Some(("migrate", matches)) => migrate::run(matches),
        Some(("config", matches)) => config::run(matches),
        Some(("dev", matches)) => dev::run(matches),
        Some(("version", matches)) => version::run(matches),
        Some(("completion", matches)) => {
            let shell = matches.get_one::<clap_complete::Shell>("shell").copied();
            let mut script = Vec::new();
            if let Some(shell) = shell {
                clap_complete::generate(shell, &mut cli::command(), "hyperfleet", &mut script);
            }
            output::data(&String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(Failure::usage("no such command; see hyperfleet --help")),
    }
}

/// Runs a server on a runtime of its own. The first signal drains it, the second ends the process.
fn block_on<F: Future<Output = Result<ExitCode, Failure>>>(
    server: impl FnOnce(Signals) -> F,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::new)?;
    let result = runtime.block_on(async {
        let signals = hyperfleet_service::shutdown::signals().map_err(Failure::new)?;
        let server = server(signals);
        tokio::select! {
            result = server => result,
            signal = second_signal() => Err(Failure { text: format!("stopped at once by a second {signal}"), code: signal.exit_code() }),
        }
    });
    runtime.shutdown_background();
    result
}

/// The second signal of the process's life.
async fn second_signal() -> hyperfleet_service::shutdown::Signal {
    match hyperfleet_service::shutdown::signals() {
        Ok(mut signals) => {
            signals.next().await;
            signals.next().await
        }
        Err(_) => std::future::pending().await,
    }
}
