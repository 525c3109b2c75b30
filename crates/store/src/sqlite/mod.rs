//! The embedded store: one file, one writer thread, a few readers, WAL.
//!
//! `synchronous=FULL` makes an acknowledged write survive a power loss. Point reads run on the
//! caller's thread: they take microseconds, less than handing them to another thread would. Whatever
//! may take long has readers of its own and waits its turn, so that no search keeps a point read waiting.

mod dictionaries;
mod feed;
mod functions;
mod leases;
mod leash;
mod load;
mod migrate;
mod past;
mod persist;
#[cfg(test)]
mod plans;
mod read;
mod readers;
mod row;
mod surroundings;
#[cfg(test)]
mod turns;
mod writer;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Catalog, Claim, Error, Lease, Resource, ResourceId, Sight, Timestamp, Version};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::failure::{Failure, FailureKind};
use crate::feed::{Trail, TrailRow};
use crate::known::Known;
use crate::lane::{self, Answers, Lanes, Questions};
use crate::migrations::{MigrationReport, OpenError};
use crate::moment::Moment;
use crate::packed::{Dictionaries, PackedRow};
use crate::reader::Reading;
use crate::{
    LeasePage, ListQuery, Options, Page, Past, Pending, ReportPage, Slice, TimelinePage, TimelineQuery,
};

use leash::Leash;
use readers::Readers;
pub(crate) use writer::Writer;

const POINT_READERS: usize = 4;
const SCANS: usize = 4;

/// Pages that a connection keeps. A reader has to drop all of its own whenever somebody has written, and finds them again
/// in the system's cache, so more is of little use to it.
const WRITERS_CACHE_KIB: i64 = 16_000;
const READERS_CACHE_KIB: i64 = 4_000;

/// How long a connection waits for another process that holds the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The reading side.
#[derive(Debug)]
pub(crate) struct Sqlite {
    location: Location,
    /// For what takes microseconds, and for the server's own questions.
    points: Readers,
    /// For whatever takes as long as its caller makes it take.
    scans: Readers,
    /// To wait for a turn takes no thread, and ends when the caller goes.
    turns: Arc<Semaphore>,
    catalog: Arc<Catalog>,
    dictionaries: Arc<Dictionaries>,
    known: Arc<Known>,
    lanes: Lanes,
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
    dictionaries: Arc<Dictionaries>,
    known: Arc<Known>,
) -> Result<(Sqlite, Writer), OpenError> {
    let location = Location::new(path);
    let fail = |error: rusqlite::Error| cannot_open(path, &error);
    let mut connection = location.connect().map_err(fail)?;
    migrate::run(&mut connection, options.migrate)?;
    dictionaries::read(&connection)
        .and_then(|kept| dictionaries.replace(kept))
        .map_err(|failure| OpenError::new(format!("cannot read the dictionaries: {}", failure.cause)))?;
    let points = Readers::open(&location, POINT_READERS).map_err(fail)?;
    let scans = Readers::open(&location, SCANS).map_err(fail)?;
    let turns = Arc::new(Semaphore::new(SCANS));
    let writer = Writer::new(connection, catalog.clone(), dictionaries.clone());
    Ok((
        Sqlite { location, points, scans, turns, catalog, dictionaries, known, lanes: Lanes::default() },
        writer,
    ))
}

pub(crate) fn migrate(path: Option<&Path>) -> Result<MigrationReport, OpenError> {
    let mut connection = Location::new(path).connect().map_err(|error| cannot_open(path, &error))?;
    migrate::run(&mut connection, true)
}

impl Sqlite {
    /// On the caller's thread when a reader is free, else on one that may wait.
    pub(crate) async fn get(self: &Arc<Self>, id: ResourceId) -> lane::Answer {
        self.lanes.get(None, id, || Lane(Arc::downgrade(self))).await
    }

    pub(crate) async fn moment(self: &Arc<Self>) -> Result<Moment, Failure> {
        self.lanes.moment(|| Lane(Arc::downgrade(self))).await
    }

    async fn look_at_the_feed(self: &Arc<Self>) -> Result<Moment, Failure> {
        if let Some(reader) = self.points.free() {
            return Ok(self.known.moment(load::mark(&reader)?));
        }
        Ok(self.known.moment(self.glance(load::mark).await?))
    }

    /// Whole resources, in the order of their ids.
    async fn look_up(self: &Arc<Self>, ids: Vec<ResourceId>) -> Result<Vec<lane::Answer>, Failure> {
        if let Some(reader) = self.points.free() {
            return read::look_up(&reader, &self.catalog, &self.known, &ids);
        }
        let (catalog, known) = (self.catalog.clone(), self.known.clone());
        self.glance(move |reader| read::look_up(reader, &catalog, &known, &ids)).await
    }

    pub(crate) async fn list(
        self: &Arc<Self>,
        query: ListQuery,
        rulebook: Arc<Rulebook>,
        time: Duration,
    ) -> Result<Page, Failure> {
        let era = self.known.era();
        self.scan(time, move |reader| read::list(reader, rulebook.view(), &query, era)).await
    }

    /// A read that takes long, or may be made to.
    async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        time: Duration,
        read: impl Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (leash, _caller) = Leash::new(time);
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|error| Failure::new(FailureKind::Defect, error))?;
        let this = self.clone();
        off_thread(move || {
            let _turn = turn;
            leash.hold(|| this.read_by(&this.scans.wait(), read))
        })
        .await
    }

    /// A read that takes a moment, whoever asks.
    async fn glance<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let this = self.clone();
        off_thread(move || this.read_by(&this.points.wait(), read)).await
    }

    /// Reads, and once more if that meets a value of a dictionary that another process has made since.
    fn read_by<T>(
        &self,
        reader: &Connection,
        read: impl Fn(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        dictionaries::reread(reader, &self.dictionaries, || read(reader))
    }

    /// Some rows to learn words from.
    pub(crate) async fn sample(self: &Arc<Self>, versions: Vec<i64>) -> Result<Vec<PackedRow>, Failure> {
        self.glance(move |reader| dictionaries::sample(reader, &versions)).await
    }

    /// Takes in the dictionaries of the table.
    pub(crate) async fn read_dictionaries(self: &Arc<Self>) -> Result<(), Failure> {
        self.dictionaries.add(self.glance(dictionaries::read).await?)
    }

    /// Keeps a dictionary, unless there is one with its number already.
    pub(crate) async fn keep_dictionary(
        self: &Arc<Self>,
        number: u8,
        words: Vec<u8>,
        at: Timestamp,
    ) -> Result<(), Failure> {
        let this = self.clone();
        off_thread(move || dictionaries::keep(&this.location.connect()?, number, &words, at)).await
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) async fn bounds(self: &Arc<Self>) -> Result<(Version, Version), Failure> {
        self.glance(feed::bounds).await
    }

    pub(crate) async fn trail(
        self: &Arc<Self>,
        reading: Reading,
        position: Version,
        limit: i64,
        time: Duration,
    ) -> Result<Option<Trail>, Failure> {
        let (catalog, dictionaries) = (self.catalog.clone(), self.dictionaries.clone());
        let read = move |reader: &Connection| feed::trail(reader, &catalog, &dictionaries, position, limit);
        match reading {
            Reading::First => self.glance(read).await,
            Reading::Behind => self.scan(time, read).await,
        }
    }

    pub(crate) async fn states(
        self: &Arc<Self>,
        ids: Vec<ResourceId>,
        since: Version,
        time: Duration,
    ) -> Result<Vec<Vec<TrailRow>>, Failure> {
        let (catalog, dictionaries) = (self.catalog.clone(), self.dictionaries.clone());
        self.scan(time, move |reader| feed::states(reader, &catalog, &dictionaries, &ids, since)).await
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
        time: Duration,
    ) -> Result<ReportPage, Failure> {
        let dictionaries = self.dictionaries.clone();
        self.scan(time, move |reader| read::reports(reader, &dictionaries, id, &slice)).await
    }

    pub(crate) async fn timeline(
        self: &Arc<Self>,
        id: ResourceId,
        query: TimelineQuery,
        time: Duration,
    ) -> Result<Option<(Resource, TimelinePage)>, Failure> {
        let (catalog, dictionaries) = (self.catalog.clone(), self.dictionaries.clone());
        self.scan(time, move |reader| past::timeline(reader, &catalog, &dictionaries, id, &query)).await
    }

    pub(crate) async fn past(
        self: &Arc<Self>,
        sight: Sight,
        id: ResourceId,
        generations: Vec<i64>,
        time: Duration,
    ) -> Result<Option<Past>, Failure> {
        let (catalog, dictionaries) = (self.catalog.clone(), self.dictionaries.clone());
        self.scan(time, move |reader| past::past(reader, &catalog, &dictionaries, &sight, id, &generations))
            .await
    }

    pub(crate) async fn leases(
        self: &Arc<Self>,
        scope: &str,
        group: &str,
        slice: &Slice,
        time: Duration,
    ) -> Result<LeasePage, Failure> {
        let (scope, group, slice) = (scope.to_owned(), group.to_owned(), slice.clone());
        self.scan(time, move |reader| leases::list(reader, &scope, &group, &slice)).await
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
        self.glance(move |reader| read::pending(reader, stuck_before)).await
    }

    pub(crate) async fn basis(
        self: &Arc<Self>,
        kind: &str,
    ) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
        let kind = kind.to_owned();
        self.glance(move |reader| read::basis(reader, &kind)).await
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
        let kind = kind.to_owned();
        self.glance(move |reader| read::ids_of_kind(reader, &kind, after, limit)).await
    }

    pub(crate) async fn ping(self: &Arc<Self>) -> Result<(), Failure> {
        self.glance(|reader| Ok(reader.query_row("select version from feed", (), |_| Ok(()))?)).await
    }

    pub(crate) async fn prune_history(self: Arc<Self>, before: Timestamp) -> Result<u64, Failure> {
        off_thread(move || read::prune_history(&self.location.connect()?, before)).await
    }

    pub(crate) async fn prune_retries(self: Arc<Self>, before: Timestamp) -> Result<u64, Failure> {
        off_thread(move || read::prune_retries(&self.location.connect()?, before)).await
    }

    /// Open connections, and those at work. The writer's counts as open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let ((points, busy_points), (scans, busy_scans)) = (self.points.count(), self.scans.count());
        (points + scans + 1, busy_points + busy_scans)
    }
}

/// Answers what waits in a lane, for as long as there is a database.
struct Lane(Weak<Sqlite>);

impl Answers for Lane {
    async fn answer(&mut self, mut questions: Questions) {
        let Some(sqlite) = self.0.upgrade() else { return };
        if questions.want_the_moment() {
            questions.tell_the_moment(&sqlite.look_at_the_feed().await);
        }
        let reads = questions.reads;
        if reads.is_empty() {
            return;
        }
        match sqlite.look_up(reads.iter().map(|read| read.id).collect()).await {
            Ok(found) => reads.into_iter().zip(found).for_each(|(read, found)| read.answer(found)),
            Err(failure) => reads.into_iter().for_each(|read| read.answer(Err(failure.clone()))),
        }
    }

    fn reset(&mut self) {}
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::new(FailureKind::Defect, format!("a read panicked: {error}"))))
}
