//! One function per command, and how a failure ends the process.

pub(crate) mod adapter;
pub(crate) mod api;
pub(crate) mod apply;
pub(crate) mod complete;
mod config;
pub(crate) mod context;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
mod dev;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod events;
pub(crate) mod force_delete;
pub(crate) mod get;
pub(crate) mod label;
pub(crate) mod login;
pub(crate) mod man;
mod migrate;
pub(crate) mod patch;
pub(crate) mod report;
mod sentinel;
mod serve;
pub(crate) mod statuses;
pub(crate) mod timeline;
pub(crate) mod top;
pub(crate) mod tree;
pub(crate) mod up;
mod version;
pub(crate) mod wait;
pub(crate) mod whoami;
pub(crate) mod why;

use std::process::ExitCode;

use clap::ArgMatches;
use hyperfleet_service::settings::Faults;
use hyperfleet_service::shutdown::Signals;

use crate::remote;

/// How a command ends: the exit codes, which scripts rely on. They are written down in `docs/cli.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The server refused for a reason without a code of its own, or something else did not work.
    Failed = 1,
    /// The command was called or configured wrongly.
    Usage = 2,
    /// What it is about is not there.
    NotFound = 3,
    /// The state is another than it needs: a name that is taken, a version that has moved, a deletion under way.
    Conflict = 4,
    /// Not logged in, or not allowed.
    NotAllowed = 5,
    /// The server cannot be reached or has no room; the same may work later.
    Unreachable = 6,
    /// What was waited for did not come in time.
    TimedOut = 7,
    /// There are differences (`diff`).
    Differs = 8,
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        exit as Self
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(u8::from(exit))
    }
}

/// Why a command ends without success.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// For the person.
    pub(crate) text: String,
    /// The exit code.
    pub(crate) code: u8,
}

impl Failure {
    /// Something did not work.
    pub(crate) fn new(text: impl std::fmt::Display) -> Self {
        Self::with(Exit::Failed, text)
    }

    /// The command was called or configured wrongly.
    pub(crate) fn usage(text: impl std::fmt::Display) -> Self {
        Self::with(Exit::Usage, text)
    }

    /// Something that a script tells by its exit code.
    pub(crate) fn with(exit: Exit, text: impl std::fmt::Display) -> Self {
        Self { text: text.to_string(), code: exit.into() }
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
        Some(("sentinel", matches)) => sentinel::run(matches),
        Some(("adapter", matches)) => adapter::run(matches),
        Some(("migrate", matches)) => migrate::run(matches),
        Some(("config", matches)) => config::run(matches),
        Some(("dev", matches)) => dev::run(matches),
        Some(("version", matches)) => version::run(matches),
        Some(("get", matches)) => remote::run(matches, get::run),
        Some(("describe", matches)) => remote::run(matches, describe::run),
        Some(("tree", matches)) => remote::run(matches, tree::run),
        Some(("why", matches)) => remote::run(matches, why::run),
        Some(("timeline", matches)) => remote::run(matches, timeline::run),
        Some(("top", matches)) => remote::run(matches, top::run),
        Some(("statuses", matches)) => remote::run(matches, statuses::run),
        Some(("wait", matches)) => remote::run(matches, wait::run),
        Some(("create", matches)) => remote::run(matches, create::run),
        Some(("apply", matches)) => remote::run(matches, apply::run),
        Some(("diff", matches)) => remote::run(matches, diff::run),
        Some(("patch", matches)) => remote::run(matches, patch::run),
        Some(("edit", matches)) => remote::run(matches, edit::run),
        Some(("label", matches)) => remote::run(matches, label::run),
        Some(("delete", matches)) => remote::run(matches, delete::run),
        Some(("force-delete", matches)) => remote::run(matches, force_delete::run),
        Some(("report", matches)) => remote::run(matches, report::run),
        Some(("api", matches)) => remote::run(matches, api::run),
        Some(("events", matches)) => events::run(matches),
        Some(("whoami", matches)) => remote::run(matches, whoami::run),
        Some(("doctor", matches)) => doctor::run(matches),
        Some(("login", matches)) => login::run(matches),
        Some(("context", matches)) => context::run(matches),
        Some(("completion", matches)) => complete::script(matches),
        Some(("__complete", matches)) => complete::run(matches),
        Some(("man", matches)) => man::run(matches),
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
