//! The threads that serve connections, each with a runtime of its own. A connection and the tasks of its requests stay
//! on one thread, because waking a task on another thread costs more than most requests do.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Threads that serve until this value is dropped.
#[derive(Debug)]
pub(super) struct WorkerThreads {
    threads: Vec<Handle>,
    turn: AtomicUsize,
    _stop: DropGuard,
}

impl WorkerThreads {
    /// Starts threads named after the listener. Without threads the current runtime serves.
    pub(super) fn start(name: &'static str, threads: usize) -> io::Result<Self> {
        let end = CancellationToken::new();
        let stop = end.clone().drop_guard();
        let threads = (0..threads).map(|number| start_thread(format!("{name}-{number}"), end.clone()));
        let threads = threads.collect::<io::Result<_>>()?;
        Ok(Self { threads, turn: AtomicUsize::new(0), _stop: stop })
    }

    /// The runtime of the sockets.
    pub(super) fn first(&self) -> Handle {
        self.threads.first().cloned().unwrap_or_else(Handle::current)
    }

    /// The runtime of the next connection, in turn.
    pub(super) fn next(&self) -> Handle {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        match self.threads.len() {
            0 => Handle::current(),
            threads => self.threads[turn % threads].clone(),
        }
    }
}

/// Starts a thread that runs a runtime until `end`.
fn start_thread(name: String, end: CancellationToken) -> io::Result<Handle> {
    let (sender, receiver) = mpsc::channel();
    let serve = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let _ = sender.send(Ok(runtime.handle().clone()));
            runtime.block_on(end.cancelled());
        }
        Err(error) => drop(sender.send(Err(error))),
    };
    std::thread::Builder::new().name(name).spawn(serve)?;
    receiver.recv().map_err(io::Error::other)?
}
