//! Connections that only read, each used by one read at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rusqlite::Connection;

use super::{Location, READERS_CACHE_KIB, cancellation};

/// Steps of SQLite's virtual machine between two checks for cancellation.
const STEPS_BETWEEN_CHECKS: i32 = 1_000;

#[derive(Debug)]
pub(super) struct Readers {
    connections: Vec<Mutex<Connection>>,
    next: AtomicUsize,
}

impl Readers {
    pub(super) fn open(location: &Location, number: usize) -> Result<Self, rusqlite::Error> {
        let mut connections = Vec::with_capacity(number);
        for _ in 0..number {
            let mut connection = location.connect()?;
            connection.pragma_update(None, "query_only", true)?;
            connection.pragma_update(None, "cache_size", -READERS_CACHE_KIB)?;
            connection.progress_handler(STEPS_BETWEEN_CHECKS, Some(cancellation::is_cancelled))?;
            connections.push(Mutex::new(connection));
        }
        Ok(Self { connections, next: AtomicUsize::new(0) })
    }

    /// The number of connections, and of those in use.
    pub(super) fn count(&self) -> (usize, usize) {
        let at_work = |reader: &&Mutex<_>| matches!(reader.try_lock(), Err(TryLockError::WouldBlock));
        (self.connections.len(), self.connections.iter().filter(at_work).count())
    }

    /// A connection that is not in use.
    pub(super) fn free(&self) -> Option<MutexGuard<'_, Connection>> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let number = self.connections.len();
        (0..number).find_map(|i| match self.connections[(start + i) % number].try_lock() {
            Ok(reader) => Some(reader),
            // It only reads, so a panic left nothing half done.
            Err(TryLockError::Poisoned(reader)) => Some(reader.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    /// A free one, or the next in turn; waits for it.
    pub(super) fn wait(&self) -> MutexGuard<'_, Connection> {
        self.free().unwrap_or_else(|| {
            let next = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
            self.connections[next].lock().unwrap_or_else(PoisonError::into_inner)
        })
    }
}
