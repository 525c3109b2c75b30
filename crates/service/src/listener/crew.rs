//! The threads that serve connections, each with a runtime of its own. A connection stays with the thread that it was
//! given to, and so do the tasks that its requests start: they wake each other without crossing to another thread, which
//! costs more than most requests do, and whatever a thread reads for many of them at once it reads for its own.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Threads that serve until it is dropped.
#[derive(Debug)]
pub(super) struct Crew {
    members: Vec<Handle>,
    turn: AtomicUsize,
    _ends_them: DropGuard,
}

impl Crew {
    /// So many threads, named after what they serve; whoever asks for none serves by itself.
    pub(super) fn start(name: &'static str, threads: usize) -> io::Result<Self> {
        let end = CancellationToken::new();
        let ends_them = end.clone().drop_guard();
        let members = (0..threads).map(|number| member(format!("{name}-{number}"), end.clone()));
        let members = members.collect::<io::Result<_>>()?;
        Ok(Self { members, turn: AtomicUsize::new(0), _ends_them: ends_them })
    }

    /// Whose turn it is to take a connection.
    pub(super) fn next(&self) -> Handle {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        match self.members.len() {
            0 => Handle::current(),
            members => self.members[turn % members].clone(),
        }
    }
}

/// A thread that runs whatever it is given, to the end.
fn member(name: String, end: CancellationToken) -> io::Result<Handle> {
    let (tell, told) = mpsc::channel();
    let serve = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let _ = tell.send(Ok(runtime.handle().clone()));
            runtime.block_on(end.cancelled());
        }
        Err(error) => drop(tell.send(Err(error))),
    };
    std::thread::Builder::new().name(name).spawn(serve)?;
    told.recv().map_err(io::Error::other)?
}
