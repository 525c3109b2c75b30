//! Shutdown of a process: a flag that its parts wait for, and the signals that raise it. A part that must outlive
//! another has a flag of its own: the health listener reports `draining` while the API finishes its requests. Nothing
//! here ends the process; `main` returns.

use std::fmt;
use std::io;

use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Says that work should end. Clones share the flag; once raised it stays raised.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag.
    pub fn begin(&self) {
        self.0.cancel();
    }

    /// Completes when the flag is raised, at once when it already is.
    pub async fn begun(&self) {
        self.0.cancelled().await;
    }

    /// A flag raised with this one, that can also be raised alone.
    pub fn child(&self) -> CancellationToken {
        self.0.child_token()
    }
}

/// A signal that asks the process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: how service supervisors ask.
    Terminate,
    /// SIGINT, as by Ctrl-C at a terminal.
    Interrupt,
}

impl Signal {
    /// The exit code of a process that this signal ends before it is done: 128 and the signal's number.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// The stop signals sent to this process, one after the other: the first asks for a drain, a second one
/// means at once.
#[derive(Debug)]
pub struct Signals {
    terminate: SignalStream,
    interrupt: SignalStream,
}

/// Takes over SIGTERM and SIGINT: from here on they no longer end the process by themselves.
///
/// # Errors
/// When the operating system refuses the handlers.
pub fn signals() -> io::Result<Signals> {
    Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
}

impl Signals {
    /// Waits for the next stop signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_sees_the_flag_raised() {
        let shutdown = Shutdown::new();
        let clone = shutdown.clone();
        assert!(!clone.0.is_cancelled());
        shutdown.begin();
        clone.begun().await;
        assert!(clone.0.is_cancelled());
    }
}
