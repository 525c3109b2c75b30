//! The embedded store: one file, one writer thread, a few readers, WAL.
//!
//! `synchronous=FULL` makes an acknowledged write survive a power loss. A point read runs on the caller's thread, because
//! it takes less time than handing it to another. Long reads have connections and permits of their own, so that no search
//! delays a point read.

mod cancellation;
mod feed;
mod functions;
mod history;
mod inspection;
mod leases;
mod load;
mod migrate;
mod persist;
#[cfg(test)]
#[path = "../tests/plans/sqlite.rs"]
mod plans;
mod read;
mod readers;
mod related_resources;
mod row;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::rules::explain::RelatedResources;
use hyperfleet_core::{
    AccessScope, Catalog, Claim, Epoch, Error, Lease, Reservation, Resource, ResourceId, Tenant, Timestamp,
    Version,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::database_health::DatabaseHealth;
use crate::failure::{Failure, FailureKind};
use crate::feed::{FeedBounds, FeedPage, FeedRow};
use crate::maintenance::migrations::{Applied, MigrationReport, OpenError};
use crate::maintenance::pending::Pending;
use crate::read::FeedReader;
use crate::{
    LeasePage, ListQuery, Options, Page, PastGenerations, ReportPage, Slice, TimelinePage, TimelineQuery,
};

use cancellation::Cancellation;
use readers::Readers;
pub(crate) use writer::SqliteWriter;

const POINT_READERS: usize = 4;
const SCANS: usize = 4;

/// The page caches. A reader drops its pages after every commit and finds them in the system's cache, so it needs few.
const WRITERS_CACHE_KIB: i64 = 16_000;
const READERS_CACHE_KIB: i64 = 4_000;

/// How long a connection waits for another process that holds the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The reading side.
#[derive(Debug)]
pub(crate) struct Sqlite {
    location: Location,
    /// For point reads and the server's own reads.
    points: Readers,
    /// For reads that callers may make long.
    scans: Readers,
    /// A caller waits for a permit without a thread.
    permits: Arc<Semaphore>,
    catalog: Arc<Catalog>,
    clock: Clock,
    timeout: Duration,
    health: DatabaseHealth,
}

/// Where the database is.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    uri: String,
    /// `None` in memory.
    path: Option<PathBuf>,
}

impl Location {
    fn new(path: Option<&Path>) -> Self {
        match path {
            // SQLite's memdb shares one database among the connections of a process.
            None => {
                Self { uri: format!("file:/hyperfleet-{}?vfs=memdb", ResourceId::generate()), path: None }
            }
            Some(path) => {
                let mut uri = "file:".to_owned();
                for c in path.to_string_lossy().chars() {
                    match c {
                        '%' | '?' | '#' => uri.push_str(&format!("%{:02x}", c as u32)),
                        c => uri.push(c),
                    }
                }
                Self { uri, path: Some(path.to_owned()) }
            }
        }
    }

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        if let Some(path) = &self.path {
            // A new file is for its owner alone, and SQLite gives the files beside it the same mode. If there is one
            // already, or none can be made, SQLite says so.
            let _ = File::options().write(true).create_new(true).mode(0o600).open(path);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.uri, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Without this a bound value may change the plan, and every execution prepares its statement anew.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if self.path.is_some() {
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

/// SQLite does not wait for another process that switches the same file at the same time; an exclusive transaction
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
    health: &DatabaseHealth,
) -> Result<(Sqlite, SqliteWriter, Clock), OpenError> {
    let location = Location::new(path);
    let fail = |error: rusqlite::Error| cannot_open(path, &error);
    let mut connection = location.connect().map_err(fail)?;
    migrate::run(&mut connection, options.migrate)?;
    let points = Readers::open(&location, POINT_READERS).map_err(fail)?;
    let scans = Readers::open(&location, SCANS).map_err(fail)?;
    let permits = Arc::new(Semaphore::new(SCANS));
    let clock = Clock::of_machine(read::changed_time(&connection).map_err(fail)?);
    let writer = SqliteWriter::new(connection, catalog.clone(), clock.clone());
    let (timeout, health) = (options.request_timeout, health.clone());
    let reader = Sqlite { location, points, scans, permits, catalog, clock: clock.clone(), timeout, health };
    Ok((reader, writer, clock))
}

pub(crate) fn check_schema(applied: &[Applied]) -> Result<(), OpenError> {
    migrate::check(applied)
}

pub(crate) fn migrate(path: Option<&Path>) -> Result<MigrationReport, OpenError> {
    let mut connection = Location::new(path).connect().map_err(|error| cannot_open(path, &error))?;
    migrate::run(&mut connection, true)
}

pub(crate) fn begin_epoch(path: Option<&Path>) -> Result<Epoch, OpenError> {
    let connection = Location::new(path).connect().map_err(|error| cannot_open(path, &error))?;
    let changed = connection.query_row(feed::BEGIN_EPOCH, (), |row| Ok(Epoch(row.get(0)?)));
    changed.map_err(|error| OpenError::new(format!("cannot change the epoch: {error}")))
}

impl Sqlite {
    /// The resource with this id; on the caller's thread if a reader is free, else on a blocking thread.
    pub(crate) async fn get(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        id: ResourceId,
    ) -> Result<Option<Arc<Resource>>, Failure> {
        if let Some(reader) = self.points.free() {
            return Ok(read::get(&reader, &self.catalog, id)?.map(Arc::new));
        }
        let catalog = self.catalog.clone();
        Ok(self.short_read(move |reader| read::get(reader, &catalog, id)).await?.map(Arc::new))
    }

    pub(crate) async fn list(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        query: &ListQuery,
        rulebook: &Arc<Rulebook>,
        reservation: &Reservation,
    ) -> Result<Page, Failure> {
        let (query, rulebook, reservation) = (query.clone(), rulebook.clone(), reservation.clone());
        self.scan(self.timeout, move |reader| read::list(reader, rulebook.view(), &query, &reservation)).await
    }

    /// A read that may take long.
    async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        time: Duration,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (cancellation, _caller) = Cancellation::new(time);
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|error| Failure::new(FailureKind::Defect, error))?;
        let this = self.clone();
        blocking(move || {
            let _permit = permit;
            cancellation.run(|| read(&this.scans.wait()))
        })
        .await
    }

    /// A short read.
    async fn short_read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let this = self.clone();
        blocking(move || read(&this.points.wait())).await
    }

    /// A small write beside the committer's.
    async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        write: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.health.check_damage()?;
        let location = self.location.clone();
        blocking(move || write(&location.connect()?)).await
    }

    pub(crate) fn location(&self) -> Location {
        self.location.clone()
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) async fn bounds(self: &Arc<Self>) -> Result<FeedBounds, Failure> {
        self.short_read(feed::bounds).await
    }

    pub(crate) async fn renew_epoch(self: &Arc<Self>, epoch: Epoch) -> Result<(), Failure> {
        let this = self.clone();
        blocking(move || feed::renew_epoch(&this.location.connect()?, epoch)).await
    }

    pub(crate) async fn feed_page(
        self: &Arc<Self>,
        by: FeedReader,
        position: Version,
        limit: i64,
    ) -> Result<Option<FeedPage>, Failure> {
        let catalog = self.catalog.clone();
        let read = move |reader: &Connection| feed::feed_page(reader, &catalog, position, limit);
        match by {
            FeedReader::Shared => self.short_read(read).await,
            FeedReader::CatchUp => self.scan(self.timeout, read).await,
        }
    }

    pub(crate) async fn states(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        ids: &[ResourceId],
        since: Version,
    ) -> Result<Vec<Vec<FeedRow>>, Failure> {
        let (catalog, ids) = (self.catalog.clone(), ids.to_vec());
        self.scan(self.timeout, move |reader| feed::states(reader, &catalog, &ids, since)).await
    }

    /// Like a list.
    pub(crate) async fn snapshot(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        query: &ListQuery,
        rulebook: &Arc<Rulebook>,
    ) -> Result<(Version, Vec<(Version, ResourceId)>), Failure> {
        let (query, rulebook) = (query.clone(), rulebook.clone());
        self.scan(self.timeout, move |reader| feed::snapshot(reader, rulebook.view(), &query)).await
    }

    pub(crate) async fn secret(self: &Arc<Self>, name: &str, fresh: &[u8]) -> Result<Vec<u8>, Failure> {
        let (name, fresh) = (name.to_owned(), fresh.to_vec());
        self.write(move |connection| read::secret(connection, &name, &fresh)).await
    }

    pub(crate) async fn reports(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        id: ResourceId,
        slice: &Slice,
        reservation: &Reservation,
    ) -> Result<ReportPage, Failure> {
        let (slice, reservation) = (slice.clone(), reservation.clone());
        self.scan(self.timeout, move |reader| read::reports(reader, id, &slice, &reservation)).await
    }

    pub(crate) async fn related_resources(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        id: ResourceId,
    ) -> Result<Option<RelatedResources>, Failure> {
        let catalog = self.catalog.clone();
        self.scan(self.timeout, move |reader| related_resources::related_resources(reader, &catalog, id))
            .await
    }

    pub(crate) async fn timeline(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        id: ResourceId,
        query: &TimelineQuery,
        reservation: &Reservation,
    ) -> Result<Option<(Resource, TimelinePage)>, Failure> {
        let (catalog, query, reservation) = (self.catalog.clone(), *query, reservation.clone());
        self.scan(self.timeout, move |reader| history::timeline(reader, &catalog, id, &query, &reservation))
            .await
    }

    pub(crate) async fn past_generations(
        self: &Arc<Self>,
        scope: &AccessScope,
        id: ResourceId,
        generations: &[i64],
    ) -> Result<Option<PastGenerations>, Failure> {
        let (catalog, scope, generations) = (self.catalog.clone(), scope.clone(), generations.to_vec());
        self.scan(self.timeout, move |reader| {
            history::past_generations(reader, &catalog, &scope, id, &generations)
        })
        .await
    }

    pub(crate) async fn leases(
        self: &Arc<Self>,
        _: Option<&Tenant>,
        scope: &str,
        group: &str,
        slice: &Slice,
    ) -> Result<LeasePage, Failure> {
        let (scope, group, slice) = (scope.to_owned(), group.to_owned(), slice.clone());
        let now = self.clock.now();
        self.scan(self.timeout, move |reader| leases::list(reader, now, &scope, &group, &slice)).await
    }

    pub(crate) async fn claim(
        self: &Arc<Self>,
        scope: &str,
        claim: &Claim,
    ) -> Result<Result<Lease, Error>, Failure> {
        let (clock, scope, claim) = (self.clock.clone(), scope.to_owned(), claim.clone());
        self.write(move |connection| leases::claim(connection, &clock, &scope, &claim)).await
    }

    pub(crate) async fn prune_leases(self: &Arc<Self>, age: Duration) -> Result<u64, Failure> {
        let before = self.clock.expired(age);
        self.write(move |connection| leases::prune(connection, before)).await
    }

    pub(crate) async fn pending(self: &Arc<Self>, stuck_before: Timestamp) -> Result<Pending, Failure> {
        self.short_read(move |reader| read::pending(reader, stuck_before)).await
    }

    pub(crate) async fn stored_settings(
        self: &Arc<Self>,
        kind: &str,
    ) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
        let kind = kind.to_owned();
        self.short_read(move |reader| read::stored_settings(reader, &kind)).await
    }

    pub(crate) async fn store_settings(
        self: &Arc<Self>,
        kind: &str,
        settings: &str,
        recheck_time: Option<Timestamp>,
    ) -> Result<(), Failure> {
        let (kind, settings) = (kind.to_owned(), settings.to_owned());
        self.write(move |connection| read::store_settings(connection, &kind, &settings, recheck_time)).await
    }

    pub(crate) async fn ids_of_kind(
        self: &Arc<Self>,
        kind: &str,
        after: Option<(Timestamp, ResourceId)>,
        limit: i64,
    ) -> Result<Vec<(Timestamp, ResourceId)>, Failure> {
        let kind = kind.to_owned();
        self.short_read(move |reader| read::ids_of_kind(reader, &kind, after, limit)).await
    }

    pub(crate) async fn ping(self: &Arc<Self>) -> Result<(), Failure> {
        self.clock.follow_wall();
        self.short_read(|reader| Ok(reader.query_row("select version from feed", (), |_| Ok(()))?)).await
    }

    pub(crate) async fn prune_history(self: &Arc<Self>, age: Duration) -> Result<u64, Failure> {
        let before = self.clock.expired(age);
        self.write(move |connection| read::prune_history(connection, before)).await
    }

    pub(crate) async fn prune_idempotency_records(self: &Arc<Self>, age: Duration) -> Result<u64, Failure> {
        let before = self.clock.expired(age);
        self.write(move |connection| read::prune_idempotency_records(connection, before)).await
    }

    /// Open connections, and those at work. The writer's counts as open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let ((points, busy_points), (scans, busy_scans)) = (self.points.count(), self.scans.count());
        (points + scans + 1, busy_points + busy_scans)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::new(FailureKind::Defect, format!("a read panicked: {error}"))))
}
