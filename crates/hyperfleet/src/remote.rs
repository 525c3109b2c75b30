//! Commands that speak to a server, and what they share: which server and as whom ([`session`]), which kinds it has
//! ([`kinds`]), what a person means by `nodepool/prod-1/workers` ([`target`]), and how a refusal reads ([`failure`]).
//!
//! To add a command: a file in `commands/` with `command()`, which ends in [`session::arguments`], and
//! `async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure>`; then a line in the list of
//! `cli.rs` and one in `commands.rs`. Requests go through [`Session::look`] when the command needs the answer to know
//! what to do, and through [`Session::call`] when they are what was asked for: that is what `--curl` prints.
//! What comes back is printed by `output`, never by hand.

pub(crate) mod change;
pub(crate) mod contexts;
pub(crate) mod documents;
pub(crate) mod failure;
pub(crate) mod kinds;
pub(crate) mod owners;
pub(crate) mod resources;
pub(crate) mod selector;
pub(crate) mod session;
pub(crate) mod target;

use std::process::ExitCode;

use clap::ArgMatches;

pub(crate) use session::Session;

use crate::commands::Failure;

/// Runs a command against the server that its flags, the environment or the current context name.
pub(crate) fn run(
    matches: &ArgMatches,
    command: impl AsyncFnOnce(&Session, &ArgMatches) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
    let result = runtime.block_on(async {
        let session = Session::open(matches)?;
        command(&session, matches).await
    });
    // A reader of stdin cannot be stopped; nobody waits for it.
    runtime.shutdown_background();
    result
}
