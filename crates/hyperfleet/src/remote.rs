//! Commands that use a server, and what they share: connection and token ([`session`]), kinds ([`kinds`]), names such as
//! `nodepool/prod-1/workers` ([`target`]), and errors ([`failure`]).
//!
//! To add a command: a file in `commands/` with its flags as a struct of `clap::Args` and
//! `async fn run(&self, session: &Session) -> Result<ExitCode, Failure>`, and a variant in `cli.rs`. Requests go through
//! [`Session::fetch`] when the command needs the answer to know what to do, and through [`Session::call`] when they are
//! what was asked for: that is what `--curl` prints. Only `output` prints.

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

use clap::Args;

pub(crate) use session::{Connection, Session};

use crate::commands::Failure;

// A command that uses the server that its flags, the environment or the current context name. A doc comment would
// become the help of every command, and the heading of `Connection` would cover the flags behind it.
#[derive(Debug, Args)]
pub(crate) struct Remote<T: Args> {
    #[command(flatten)]
    pub(crate) command: T,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

impl<T: Args> Remote<T> {
    pub(crate) fn run(
        &self,
        run: impl AsyncFnOnce(&T, &Session) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
        let result = runtime.block_on(async {
            let session = Session::open(&self.connection)?;
            run(&self.command, &session).await
        });
        // A reader of stdin cannot be stopped, so the runtime does not wait for it.
        runtime.shutdown_background();
        result
    }
}
