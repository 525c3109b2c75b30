//! The embedded store: one file, one writer thread, a few readers, WAL.
//!
//! `synchronous=FULL` makes an acknowledged write survive a power loss. Point reads run on the
//! caller's thread: they take microseconds, less than handing them to another thread would.

mod feed;
mod functions;
mod leases;
mod load;
mod migrate;
mod past;
mod persist;
#[cfg(test)]
mod plans;
mod read;
mod row;
mod surroundings;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Catalog, Claim, Error, Lease, Resource, ResourceId, Sight, Timestamp, Version};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::failure::{Failure, FailureKind};
use crate::feed::{Trail, TrailRow};
use crate::migrations::{MigrationReport, OpenError};
use crate::{
    LeasePage, ListQuery, Options, Page, Past, Pending, ReportPage, Slice, TimelinePage, TimelineQuery,
};

pub(crate) use writer::Writer;

const READERS: usize = 4;

/// Pages that a connection keeps. A reader has to drop all of its own whenever somebody has written, and finds them again
/// in the system's cache, so more is of little use to it.
const WRITERS_CACHE_KIB: i64 = 16_000;
const READERS_CACHE_KIB: i64 = 8_000;

/// How many steps of SQLite's machine a list runs between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// How long a connection waits for another process that holds the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The reading side.
#[derive(Debug)]
pub(crate) struct Sqlite {
    location: Location,
    readers: Vec<Mutex<Connection>>,
    next: AtomicUsize,
    catalog: Arc<Catalog>,
}

/// Where the database is.
#[derive(Debug, Clone)]
struct Location {
    uri: String,
    in_memory: bool,
}

impl Location {
    fn new(path: Option<&Path>) -> Self {
        match path {
            // SQLite's memdb shares one database among the connections of a process.
            None => Self {
                uri: format!("file:/hyperfleet-{}?vfs=memdb", ResourceId::generate()),
                in_memory: true,
            },
            Some(path) => {
                let mut uri = "file:".to_owned();
                for c in path.to_string_lossy().chars() {
                    match c {
                        '%' | '?' | '#' => uri.push_str(&format!("%{:02x}", c as u32)),
                        c => uri.push(c),
                    }
                }
                Self { uri, in_memory: false }
            }
        }
    }

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.uri, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Without this a bound value may change the plan, and every execution prepares its statement anew.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if !self.in_memory {
            switch_to_wal(&connection)?;
        }
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cache_size", -WRITERS_CACHE_KIB)?;
        functions::register(&connection)?;
        Ok(connection)
    }
}

/// SQLite does not wait for another process that switches the same file at the same moment; an exclusive transaction
/// does, and afterwards there is nothing left to switch.
fn switch_to_wal(connection: &Connection) -> Result<(), rusqlite::Error> {
    let started = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && started.elapsed() < BUSY_TIMEOUT =>
            {
                connection.execute_batch("begin exclusive; rollback")?;
            }
            other => return other,
        }
    }
}

fn cannot_open(path: Option<&Path>, error: &rusqlite::Error) -> OpenError {
    let place = path.map_or_else(|| "in memory".to_owned(), |path| path.display().to_string());
    OpenError::new(format!("cannot open the SQLite database {place}: {error}"))
}

pub(crate) fn open(
    path: Option<&Path>,
    options: &Options,
    catalog: Arc<Catalog>,
) -> Result<(Sqlite, Writer), OpenError> {
    let location = Location::new(path);
    let fail = |error: rusqlite::Error| cannot_open(path, &error);
    let mut connection = location.connect().map_err(fail)?;
    migrate::run(&mut connection, options.migrate)?;
    let mut readers = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        let reader = location.connect().map_err(fail)?;
        reader.pragma_update(None, "query_only", true).map_err(fail)?;
        reader.pragma_update(None, "cache_size", -READERS_CACHE_KIB).map_err(fail)?;
        readers.push(Mutex::new(reader));
    }
    let writer = Writer::new(connection, catalog.clone());
    Ok((Sqlite { location, readers, next: AtomicUsize::new(0), catalog }, writer))
}

pub(crate) fn migrate(path: Option<&Path>) -> Result<MigrationReport, OpenError> {
    let mut connection = Location::new(path).connect().map_err(|error| cannot_open(path, &error))?;
    migrate::run(&mut connection, true)
}

impl Sqlite {
    /// On the caller's thread when a reader is free, else on one that may wait.
    pub(crate) async fn get(self: &Arc<Self>, id: ResourceId) -> Result<Option<Resource>, Failure> {
        if let Some(reader) = self.free_reader() {
            return read::get(&reader, &self.catalog, id);
        }
        let this = self.clone();
        off_thread(move || read::get(&this.reader(), &this.catalog, id)).await
    }

    pub(crate) async fn list(
        self: &Arc<Self>,
        query: ListQuery,
        rulebook: Arc<Rulebook>,
        time: Duration,
    ) -> Result<Page, Failure> {
        self.scan(time, move |reader| read::list(reader, rulebook.view(), &query)).await
    }

    async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        time: Duration,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let this = self.clone();
        let deadline = Instant::now() + time;
        off_thread(move || {
            let mut reader = this.reader();
            reader.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || Instant::now() > deadline))?;
            let found = read(&reader);
            reader.progress_handler(0, None::<fn() -> bool>)?;
            found
        })
        .await
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) async fn bounds(self: &Arc<Self>) -> Result<(Version, Version), Failure> {
        let this = self.clone();
        off_thread(move || feed::bounds(&this.reader())).await
    }

    pub(crate) async fn trail(
        self: &Arc<Self>,
        position: Version,
        limit: i64,
        time: Duration,
    ) -> Result<Option<Trail>, Failure> {
        let catalog = self.catalog.clone();
        self.scan(time, move |reader| feed::trail(reader, &catalog, position, limit)).await
    }

    pub(crate) async fn states(
        self: &Arc<Self>,
        ids: Vec<ResourceId>,
        since: Version,
        time: Duration,
    ) -> Result<Vec<Vec<TrailRow>>, Failure> {
        let catalog = self.catalog.clone();
        self.scan(time, move |reader| feed::states(reader, &catalog, &ids, since)).await
    }

    /// Like a list.
    pub(crate) async fn present(
        self: &Arc<Self>,
        query: ListQuery,
        rulebook: Arc<Rulebook>,
        time: Duration,
    ) -> Result<(Version, Vec<(Version, ResourceId)>), Failure> {
        self.scan(time, move |reader| feed::present(reader, rulebook.view(), &query)).await
    }

    pub(crate) async fn secret(self: &Arc<Self>, name: &str, fresh: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let (this, name) = (self.clone(), name.to_owned());
        off_thread(move || read::secret(&this.location.connect()?, &name, &fresh)).await
    }

    pub(crate) async fn reports(
        self: &Arc<Self>,
        id: ResourceId,
        slice: Slice,
    ) -> Result<ReportPage, Failure> {
        let this = self.clone();
        off_thread(move || read::reports(&this.reader(), id, &slice)).await
    }

    pub(crate) async fn timeline(
        self: &Arc<Self>,
        id: ResourceId,
        query: TimelineQuery,
        time: Duration,
    ) -> Result<Option<(Resource, TimelinePage)>, Failure> {
        let this = self.clone();
        self.scan(time, move |reader| past::timeline(reader, &this.catalog, id, &query)).await
    }

    pub(crate) async fn past(
        self: &Arc<Self>,
        sight: Sight,
        id: ResourceId,
        generations: Vec<i64>,
        time: Duration,
    ) -> Result<Option<Past>, Failure> {
        let this = self.clone();
        self.scan(time, move |reader| past::past(reader, &this.catalog, &sight, id, &generations)).await
    }

    pub(crate) async fn leases(
        self: &Arc<Self>,
        scope: &str,
        group: &str,
        slice: &Slice,
    ) -> Result<LeasePage, Failure> {
        let (this, scope, group, slice) = (self.clone(), scope.to_owned(), group.to_owned(), slice.clone());
        off_thread(move || leases::list(&this.reader(), &scope, &group, &slice)).await
    }

    pub(crate) async fn claim(
        self: &Arc<Self>,
        scope: &str,
        claim: &Claim,
    ) -> Result<Result<Lease, Error>, Failure> {
        let (this, scope, claim) = (self.clone(), scope.to_owned(), claim.clone());
        off_thread(move || leases::claim(&this.location.connect()?, &scope, &claim)).await
    }

    pub(crate) async fn prune_leases(self: &Arc<Self>, before: Timestamp) -> Result<u64, Failure> {
        let this = self.clone();
        off_thread(move || leases::prune(&this.location.connect()?, before)).await
    }

    pub(crate) async fn pending(self: &Arc<Self>, stuck_before: Timestamp) -> Result<Pending, Failure> {
        let this = self.clone();
        off_thread(move || read::pending(&this.reader(), stuck_before)).await
    }

    pub(crate) async fn basis(
        self: &Arc<Self>,
        kind: &str,
    ) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
        let (this, kind) = (self.clone(), kind.to_owned());
        off_thread(move || read::basis(&this.reader(), &kind)).await
    }

    pub(crate) async fn set_basis(
        self: &Arc<Self>,
        kind: &str,
        basis: &str,
        look_again_at: Option<Timestamp>,
    ) -> Result<(), Failure> {
        let (this, kind, basis) = (self.clone(), kind.to_owned(), basis.to_owned());
        off_thread(move || read::set_basis(&this.location.connect()?, &kind, &basis, look_again_at)).await
    }

    pub(crate) async fn ids_of_kind(
        self: &Arc<Self>,
        kind: &str,
        after: Option<(Timestamp, ResourceId)>,
        limit: i64,
    ) -> Result<Vec<(Timestamp, ResourceId)>, Failure> {
        let (this, kind) = (self.clone(), kind.to_owned());
        off_thread(move || read::ids_of_kind(&this.reader(), &kind, after, limit)).await
    }

    pub(crate) async fn ping(self: &Arc<Self>) -> Result<(), Failure> {
        let this = self.clone();
        off_thread(move || Ok(this.reader().query_row("select version from feed", (), |_| Ok(()))?)).await
    }

    pub(crate) async fn prune_history(self: Arc<Self>, before: Timestamp) -> Result<u64, Failure> {
        off_thread(move || read::prune_history(&self.location.connect()?, before)).await
    }

    pub(crate) async fn prune_retries(self: Arc<Self>, before: Timestamp) -> Result<u64, Failure> {
        off_thread(move || read::prune_retries(&self.location.connect()?, before)).await
    }

    /// Open connections, and those at work. The writer's counts as open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let busy =
            self.readers.iter().filter(|r| matches!(r.try_lock(), Err(TryLockError::WouldBlock))).count();
        (self.readers.len() + 1, busy)
    }

    /// A reader that nobody uses.
    fn free_reader(&self) -> Option<MutexGuard<'_, Connection>> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        (0..self.readers.len()).find_map(|i| self.readers[(start + i) % self.readers.len()].try_lock().ok())
    }

    /// A free reader, or the next in turn; waits for it. A reader whose user panicked is as good as
    /// before: it only reads.
    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.free_reader().unwrap_or_else(|| {
            let next = self.next.fetch_add(1, Ordering::Relaxed) % self.readers.len();
            self.readers[next].lock().unwrap_or_else(PoisonError::into_inner)
        })
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::new(FailureKind::Defect, format!("a read panicked: {error}"))))
}
