//! One function per command, and how a failure ends the process.

pub(crate) mod adapter;
pub(crate) mod api;
pub(crate) mod apply;
pub(crate) mod complete;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod dev;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod events;
pub(crate) mod force_delete;
pub(crate) mod get;
pub(crate) mod label;
pub(crate) mod login;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod patch;
pub(crate) mod report;
pub(crate) mod sentinel;
pub(crate) mod serve;
pub(crate) mod statuses;
pub(crate) mod timeline;
pub(crate) mod top;
pub(crate) mod tree;
pub(crate) mod up;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod whoami;
pub(crate) mod why;

use std::process::ExitCode;

use hyperfleet_service::settings::Faults;
use hyperfleet_service::shutdown::Signals;

/// How a command ends: the exit codes, which scripts rely on. They are written down in `docs/how-to/cli.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The server refused for a reason without a code of its own, or something else did not work.
    Failed = 1,
    /// The command was called or configured wrongly.
    Usage = 2,
    /// The resource does not exist.
    NotFound = 3,
    /// The state conflicts with the command: a name that is taken, a version that has moved, a deletion under way.
    Conflict = 4,
    /// Not logged in, or not allowed.
    NotAllowed = 5,
    /// The server cannot be reached or is overloaded; a retry may succeed.
    Unreachable = 6,
    /// A wait timed out.
    TimedOut = 7,
    /// There are differences (`diff`).
    Differs = 8,
    /// The database is damaged (`verify`).
    Damaged = 9,
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
    /// The message for the user.
    pub(crate) text: String,
    /// The exit code.
    pub(crate) code: u8,
}

impl Failure {
    /// A failure with the general exit code.
    pub(crate) fn new(text: impl std::fmt::Display) -> Self {
        Self::with(Exit::Failed, text)
    }

    /// The command was called or configured wrongly.
    pub(crate) fn usage(text: impl std::fmt::Display) -> Self {
        Self::with(Exit::Usage, text)
    }

    /// A failure with its own exit code.
    pub(crate) fn with(exit: Exit, text: impl std::fmt::Display) -> Self {
        Self { text: text.to_string(), code: exit.into() }
    }
}

impl From<Faults> for Failure {
    fn from(faults: Faults) -> Self {
        Self::usage(faults)
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
