//! Storage: one `Store` over SQLite and PostgreSQL.
//!
//! Writes are commands that the committer loads for, decides by the rules of
//! `hyperfleet_core::rules`, and persists, many in one transaction. Reads are one query each.
//! Every call passes one door that names it, times it, bounds it and classifies its failure; no
//! rule of the domain lives here.
#![forbid(unsafe_code)]

mod ancestors;
mod commit;
mod confirmed;
mod differences;
mod facets;
mod failure;
mod feed;
mod feed_metrics;
mod fleet_metrics;
mod known;
mod lane;
mod learning;
mod leases;
mod list;
mod memory;
mod metrics;
mod migrations;
mod moment;
mod moved;
mod packed;
mod past;
mod pending;
mod per_runtime;
mod postgres;
mod reader;
mod recompute;
mod report_row;
mod retries;
mod search;
mod shelf;
mod shorthand;
mod sqlite;
mod surroundings;
mod target;
mod thread;
mod upkeep;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use hyperfleet_core::rules::{Outcome, Rulebook};
use hyperfleet_core::search::{Direction, Filter, SortField, TimeColumn};
use hyperfleet_core::{Command, Error, Resource, ResourceId, Sight, Tenant, Version};

use commit::{Committer, Writer};
use failure::{Failure, FailureKind};
use feed::{Feed, Trail, TrailRow};
use known::Known;
use packed::Dictionaries;
use pending::{Pending, Stuck};
use reader::{Reader, Reading};
use tokio::sync::Semaphore;

pub use feed::{
    Batch, Event, EventKind, Follower, Held, Present, Ring, SLICE_BYTES, Versioned, no_longer_kept,
};
pub use leases::LeasePage;
pub use list::{ListQuery, Page, ReportPage, Slice, SliceStart, Start};
pub use metrics::Metrics;
pub use migrations::{MigrationReport, OpenError};
pub use moment::Moment;
pub use past::{Happening, Past, TimelinePage, TimelineQuery, TimelineStart};
pub use postgres::SslMode;
pub use target::{Options, Target};

/// The database, opened and at the right schema.
#[derive(Clone)]
pub struct Store {
    reader: Reader,
    committer: Committer,
    rulebook: Arc<Rulebook>,
    timeout: Duration,
    metrics: Metrics,
    page_token_key: [u8; 64],
    feed: Feed,
    catching_up: Arc<Semaphore>,
    dictionaries: Arc<Dictionaries>,
}

/// How many who fell behind are served at a time.
const CATCHING_UP: usize = 4;

/// The columns that make a resource, in the order in which both stores' `row` reads them.
const COLUMNS: &str = "r.id, r.kind, r.name, r.ancestors, r.generation, r.spec, r.labels, r.refs, \
     r.created_time, r.created_by, r.updated_time, r.updated_by, r.deleted_time, r.deleted_by, \
     s.conditions, s.version, s.refreshed, s.pending_since, r.tenancy";

/// Where whatever follows them stands.
const BEHIND_COLUMNS: usize = 19;

/// The same without the wish but for its labels, for resources whose conditions alone are at stake.
static STATUS_COLUMNS: LazyLock<String> =
    LazyLock::new(|| COLUMNS.replace("r.spec, r.labels, r.refs", "'{}', r.labels, '{}'"));

/// Brings the schema up to date and nothing else.
pub async fn migrate(options: &Options) -> Result<MigrationReport, OpenError> {
    match &options.target {
        Target::Sqlite { path } => sqlite::migrate(path.as_deref()),
        Target::Postgres { .. } => postgres::migrate(options).await,
    }
}

impl Store {
    /// Opens the database, waits for it if need be, brings the schema up to date or checks it,
    /// and starts the committer.
    pub async fn open(
        options: &Options,
        rulebook: Arc<Rulebook>,
        metrics: Metrics,
    ) -> Result<Self, OpenError> {
        let catalog = rulebook.catalog.clone();
        let feed = Feed::default();
        let cannot_pack = |failure: Failure| OpenError::new(format!("cannot pack: {}", failure.cause));
        let dictionaries = Arc::new(Dictionaries::new().map_err(cannot_pack)?);
        let known = Arc::new(Known::default());
        let (reader, writer) = match &options.target {
            Target::Sqlite { path } => {
                let (reader, writer) =
                    sqlite::open(path.as_deref(), options, catalog, dictionaries.clone(), known.clone())?;
                (Reader::Sqlite(Arc::new(reader)), Writer::Sqlite(writer))
            }
            Target::Postgres { .. } => {
                let (reader, writer) =
                    postgres::open(options, catalog, dictionaries.clone(), &known, &feed, &metrics).await?;
                (Reader::Postgres(Arc::new(reader)), Writer::Postgres(Box::new(writer)))
            }
        };
        let (committer, task) = Committer::new(
            writer,
            rulebook.clone(),
            options.queue_limit,
            metrics.clone(),
            feed.clone(),
            known,
        );
        thread::run_on_own_thread("committer", task)?;
        let page_token_key = reader.secret("page_tokens").await?;
        let timeout = options.request_timeout;
        let catching_up = Arc::new(Semaphore::new(CATCHING_UP));
        tokio::spawn(feed::run(feed.clone(), reader.clone(), metrics.clone(), timeout));
        Ok(Self {
            reader,
            committer,
            rulebook,
            timeout,
            metrics,
            page_token_key,
            feed,
            catching_up,
            dictionaries,
        })
    }

    /// The key that page tokens are sealed with; the same for every replica on this database.
    pub fn page_token_key(&self) -> &[u8; 64] {
        &self.page_token_key
    }

    /// The resource with this id, if it is in sight.
    pub async fn get(&self, sight: &Sight, id: ResourceId) -> Result<Option<Arc<Resource>>, Error> {
        let found = self
            .door("get", async {
                match &self.reader {
                    Reader::Sqlite(sqlite) => sqlite.get(id).await,
                    Reader::Postgres(postgres) => postgres.get(sight.tenant(), id).await,
                }
            })
            .await?;
        match found {
            Some(resource) if sight.sees(&resource)? => Ok(Some(resource)),
            _ => Ok(None),
        }
    }

    /// A slice of a list, as far as it is in sight, its count and the version, all from one snapshot.
    pub async fn list(&self, sight: &Sight, mut query: ListQuery) -> Result<Page, Error> {
        query.filter = sight.confine(query.filter)?;
        self.door("list", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.list(query, self.rulebook.clone(), self.timeout).await,
                Reader::Postgres(postgres) => {
                    postgres.list(sight.tenant(), &query, self.rulebook.view()).await
                }
            }
        })
        .await
    }

    /// The present moment. It costs as much as a get, and is asked for together with them.
    pub async fn moment(&self) -> Result<Moment, Error> {
        self.door("moment", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.moment().await,
                Reader::Postgres(postgres) => postgres.moment().await,
            }
        })
        .await
    }

    /// The resource with this id, if it is in sight, and a slice of the reports on it, by adapter, with their number and
    /// the version, all from one snapshot. The resource is read last: of one that goes meanwhile there is nothing to
    /// show.
    pub async fn reports(
        &self,
        sight: &Sight,
        resource: ResourceId,
        slice: &Slice,
    ) -> Result<Option<(Arc<Resource>, ReportPage)>, Error> {
        let reports = self
            .door("reports", async {
                match &self.reader {
                    Reader::Sqlite(sqlite) => sqlite.reports(resource, slice.clone(), self.timeout).await,
                    Reader::Postgres(postgres) => postgres.reports(sight.tenant(), resource, slice).await,
                }
            })
            .await?;
        Ok(self.get(sight, resource).await?.map(|resource| (resource, reports)))
    }

    /// The resource with this id as it is or was when it went, if it is in sight, and a slice of its timeline, all from
    /// one snapshot. `None` also once its history is forgotten.
    pub async fn timeline(
        &self,
        sight: &Sight,
        id: ResourceId,
        query: TimelineQuery,
    ) -> Result<Option<(Resource, TimelinePage)>, Error> {
        let found = self
            .door("timeline", async {
                match &self.reader {
                    Reader::Sqlite(sqlite) => sqlite.timeline(id, query, self.timeout).await,
                    Reader::Postgres(postgres) => {
                        postgres.timeline(sight.tenant(), &self.rulebook.catalog, id, &query).await
                    }
                }
            })
            .await?;
        match found {
            Some((resource, page)) if sight.sees(&resource)? => Ok(Some((resource, page))),
            _ => Ok(None),
        }
    }

    /// What the resource with this id was at the ends of generations, newest first, if it is in sight as it is or was
    /// when it went.
    pub async fn past(
        &self,
        sight: &Sight,
        id: ResourceId,
        generations: Vec<i64>,
    ) -> Result<Option<Past>, Error> {
        self.door("past", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.past(sight.clone(), id, generations, self.timeout).await,
                Reader::Postgres(postgres) => {
                    postgres.past(sight, &self.rulebook.catalog, id, &generations).await
                }
            }
        })
        .await
    }

    /// Up to where the past is forgotten, and the newest version.
    pub async fn bounds(&self) -> Result<(Version, Version), Error> {
        self.door("bounds", self.reader.bounds()).await
    }

    /// Follows what happens to the resources that are in sight and that `filter` means, from behind `position`.
    pub fn follow(&self, sight: &Sight, filter: Filter, position: Version) -> Result<Follower, Error> {
        Follower::new(self.clone(), sight.clone(), filter, position)
    }

    /// The present state of the resources that are in sight and that `filter` means.
    pub async fn present(&self, sight: &Sight, filter: Filter) -> Result<Present, Error> {
        let filter = sight.confine(filter)?;
        let order = vec![(SortField::Time(TimeColumn::CreatedTime), Direction::Ascending)];
        let all = i64::MAX as u64 - 1;
        let query = ListQuery { filter, order, start: Start::Offset(0), limit: all, count: false };
        let found = self.door("present", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.present(query, self.rulebook.clone(), self.timeout).await,
                Reader::Postgres(postgres) => {
                    postgres.present(sight.tenant(), &query, self.rulebook.view()).await
                }
            }
        });
        let (version, found) = found.await?;
        Ok(Present::new(self.clone(), sight.tenant().cloned(), version, found))
    }

    /// What comes after `position` in the feed, for someone who fell behind. Only a few at a time: each may hold much.
    async fn trail(&self, position: Version) -> Result<Option<Trail>, Error> {
        let _turn = self.catching_up.acquire().await.map_err(Error::internal)?;
        self.door("feed", self.reader.trail(Reading::Behind, position, self.timeout)).await
    }

    async fn states(
        &self,
        tenant: Option<&Tenant>,
        ids: Vec<ResourceId>,
        since: Version,
    ) -> Result<Vec<Vec<TrailRow>>, Error> {
        self.door("states", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.states(ids, since, self.timeout).await,
                Reader::Postgres(postgres) => postgres.states(tenant, &ids, since).await,
            }
        })
        .await
    }

    /// Carries a command out. Answers after the commit.
    pub async fn execute(&self, command: Command) -> Result<Outcome, Error> {
        self.committer.execute(command, self.timeout).await
    }

    async fn door<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        self.measured(operation, self.timeout, work).await
    }

    /// The one door to the database: a deadline, a metric and a classified failure for each call.
    async fn measured<T>(
        &self,
        operation: &'static str,
        timeout: Duration,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        let started = Instant::now();
        let result = tokio::time::timeout(timeout, work)
            .await
            .unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "no answer within the deadline")));
        let took = started.elapsed();
        match &result {
            Ok(_) => self.metrics.succeeded(operation, took),
            Err(failure) => {
                tracing::debug!(operation, error = failure.cause, "a store operation failed");
                self.metrics.failed(operation, failure.error_type(), took);
            }
        }
        result.map_err(Failure::into_error)
    }
}
