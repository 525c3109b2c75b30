//! Storage: one `Store` over SQLite and PostgreSQL.
//!
//! Writes are commands: the committer loads their rows, decides by `hyperfleet_core::rules`, and persists, many commands in
//! one transaction. A read is one query.
//! Every call is named, timed, bounded and its failure classified in one place; no rule of the domain lives here.
#![forbid(unsafe_code)]

mod backend;
mod clock;
mod codec;
mod database_health;
mod failure;
mod feed;
mod history;
mod leases;
mod maintenance;
mod metrics;
mod per_runtime;
mod postgres;
mod read;
mod search;
mod sqlite;
mod write;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyperfleet_core::rules::{Outcome, Rulebook};
use hyperfleet_core::search::{Direction, Filter, SortField, TimeColumn};
use hyperfleet_core::{
    AccessScope, Command, Epoch, Error, FeedPosition, Reservation, Resource, ResourceId, Tenant, Timestamp,
    Version,
};

use clock::Clock;
use database_health::DatabaseHealth;
use failure::{Failure, FailureKind};
use feed::{Feed, FeedPage, FeedRow, just_restored};
use maintenance::pending::{Pending, Stuck};
use read::{FeedReader, Reader, on_store};
use tokio::sync::Semaphore;
use write::Committer;

pub use backend::{Backend, Options};
pub use feed::{
    Buffered, Event, EventKind, EventPage, FeedBounds, FeedSnapshot, Follower, RingBuffer, Versioned,
    history_expired, history_replaced, not_kept,
};
pub use history::{PastGenerations, TimelineEntry, TimelinePage, TimelineQuery, TimelineStart};
pub use leases::LeasePage;
pub use maintenance::inspection::{
    InspectError, Inspector, TextRow, ancestors_of, conditions_of, entries_of, facets_of, report_of,
    updated_after_of,
};
pub use maintenance::migrations::{MigrationReport, OpenError};
pub use metrics::Metrics;
pub use postgres::SslMode;
pub use read::lists::{ListQuery, Page, ReportPage, Slice, SliceStart, Start};

/// The database, opened and at the right schema.
#[derive(Clone)]
pub struct Store {
    reader: Reader,
    committer: Committer,
    rulebook: Arc<Rulebook>,
    timeout: Duration,
    metrics: Metrics,
    clock: Clock,
    health: DatabaseHealth,
    page_token_key: [u8; 64],
    feed: Feed,
    catching_up: Arc<Semaphore>,
}

/// How many watchers that fell behind read at a time.
const CATCHING_UP: usize = 4;

/// Brings the schema up to date and nothing else.
pub async fn migrate(options: &Options) -> Result<MigrationReport, OpenError> {
    match &options.backend {
        Backend::Sqlite { path } => sqlite::migrate(path.as_deref()),
        Backend::Postgres { .. } => postgres::migrate(options).await,
    }
}

/// Begins a new epoch, so that nothing is taken for a part of the present history that clients keep of another one.
pub async fn begin_epoch(options: &Options) -> Result<Epoch, OpenError> {
    match &options.backend {
        Backend::Sqlite { path } => sqlite::begin_epoch(path.as_deref()),
        Backend::Postgres { .. } => postgres::begin_epoch(options).await,
    }
}

impl Store {
    /// Connects to the database, brings the schema up to date or checks it, and starts the committer.
    pub async fn open(
        options: &Options,
        rulebook: Arc<Rulebook>,
        metrics: Metrics,
    ) -> Result<Self, OpenError> {
        let catalog = rulebook.catalog.clone();
        let (feed, health) = (Feed::default(), DatabaseHealth::default());
        let (reader, committer, clock) = match &options.backend {
            Backend::Sqlite { path } => {
                let (reader, writer, clock) = sqlite::open(path.as_deref(), options, catalog, &health)?;
                let committer =
                    Committer::start(writer, &rulebook, options.queue_limit, &metrics, &feed, &health)?;
                (Reader::Sqlite(Arc::new(reader)), committer, clock)
            }
            Backend::Postgres { .. } => {
                let (reader, writer, clock) =
                    postgres::open(options, catalog, &feed, &metrics, &health).await?;
                let committer =
                    Committer::start(writer, &rulebook, options.queue_limit, &metrics, &feed, &health)?;
                (Reader::Postgres(Arc::new(reader)), committer, clock)
            }
        };
        let page_token_key = reader.secret("page_tokens").await?;
        let newest = reader.bounds().await.map(|bounds| bounds.newest);
        feed.restart(
            newest.map_err(|failure| OpenError::new(format!("cannot read the feed: {}", failure.chain())))?,
        );
        let timeout = options.request_timeout;
        let catching_up = Arc::new(Semaphore::new(CATCHING_UP));
        let task = feed::run(
            feed.clone(),
            reader.clone(),
            metrics.clone(),
            (clock.clone(), health.clone()),
            timeout,
        );
        tokio::spawn(task);
        Ok(Self {
            reader,
            committer,
            rulebook,
            timeout,
            metrics,
            clock,
            health,
            page_token_key,
            feed,
            catching_up,
        })
    }

    /// The store's time, by which everything is stored, compared and expired.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// By how many seconds the wall clock of this process is ahead of the store's time, if that is worth a warning.
    pub fn clock_skew(&self) -> Option<f64> {
        let skew = self.clock.skew();
        Clock::is_skew(skew).then_some(skew as f64 / 1e6)
    }

    /// The key of page tokens, which all replicas share.
    pub fn page_token_key(&self) -> &[u8; 64] {
        &self.page_token_key
    }

    /// The resource with this id, if it is visible.
    pub async fn get(&self, scope: &AccessScope, id: ResourceId) -> Result<Option<Arc<Resource>>, Error> {
        let found = self
            .call("get", async { on_store!(&self.reader, |store| store.get(scope.tenant(), id)) })
            .await?;
        match found {
            Some(resource) if scope.sees(&resource)? => Ok(Some(resource)),
            _ => Ok(None),
        }
    }

    /// A slice of a list, as far as it is visible and fits the reservation, its count and the version, from one snapshot.
    pub async fn list(
        &self,
        scope: &AccessScope,
        mut query: ListQuery,
        reservation: &Reservation,
    ) -> Result<Page, Error> {
        query.filter = scope.confine(query.filter)?;
        let page = self
            .call("list", async {
                on_store!(&self.reader, |store| store.list(
                    scope.tenant(),
                    &query,
                    &self.rulebook,
                    reservation
                ))
            })
            .await?;
        reservation.check().map(|()| page)
    }

    /// The resource with this id, if it is visible, and a slice of its reports, by adapter, with their number and the
    /// version. The resource is read last, so a resource that is deleted meanwhile shows nothing.
    pub async fn reports(
        &self,
        scope: &AccessScope,
        resource: ResourceId,
        slice: &Slice,
        reservation: &Reservation,
    ) -> Result<Option<(Arc<Resource>, ReportPage)>, Error> {
        let reports = self
            .call("reports", async {
                on_store!(&self.reader, |store| store.reports(scope.tenant(), resource, slice, reservation))
            })
            .await?;
        reservation.check()?;
        Ok(self.get(scope, resource).await?.map(|resource| (resource, reports)))
    }

    /// The newest or last state of the resource with this id, if it is visible, and a slice of its timeline, from one
    /// snapshot. `None` also once its history is pruned.
    pub async fn timeline(
        &self,
        scope: &AccessScope,
        id: ResourceId,
        query: TimelineQuery,
        reservation: &Reservation,
    ) -> Result<Option<(Resource, TimelinePage)>, Error> {
        let found = self
            .call("timeline", async {
                on_store!(&self.reader, |store| store.timeline(scope.tenant(), id, &query, reservation))
            })
            .await?;
        reservation.check()?;
        match found {
            Some((resource, page)) if scope.sees(&resource)? => Ok(Some((resource, page))),
            _ => Ok(None),
        }
    }

    /// The resource with this id at the ends of generations, newest first, if its newest or last state is visible.
    pub async fn past_generations(
        &self,
        scope: &AccessScope,
        id: ResourceId,
        generations: Vec<i64>,
    ) -> Result<Option<PastGenerations>, Error> {
        self.call("past_generations", async {
            on_store!(&self.reader, |store| store.past_generations(scope, id, &generations))
        })
        .await
    }

    /// The epoch of what is read or written from now on, or an earlier one.
    pub fn epoch(&self) -> Epoch {
        self.feed.epoch()
    }

    /// Refuses an epoch that has ended. What was written since [`Self::epoch`] is of the epoch that passes.
    pub fn check_epoch(&self, epoch: Epoch) -> Result<(), Error> {
        if epoch == self.epoch() { Ok(()) } else { Err(just_restored()) }
    }

    /// The ends of the history that the database keeps.
    pub async fn bounds(&self) -> Result<FeedBounds, Error> {
        let bounds = self.call("bounds", self.reader.bounds()).await?;
        if bounds.newest.epoch != self.feed.epoch() {
            self.feed.wake();
        }
        Ok(bounds)
    }

    /// Follows the changes after `position` of the visible resources that match `filter`.
    pub fn follow(
        &self,
        scope: &AccessScope,
        filter: Filter,
        position: FeedPosition,
    ) -> Result<Follower, Error> {
        Follower::new(self.clone(), scope.clone(), filter, position)
    }

    /// A snapshot of the visible resources that match `filter`.
    pub async fn snapshot(&self, scope: &AccessScope, filter: Filter) -> Result<FeedSnapshot, Error> {
        let filter = scope.confine(filter)?;
        let order = vec![(SortField::Time(TimeColumn::CreatedTime), Direction::Ascending)];
        let all = i64::MAX as u64 - 1;
        let query = ListQuery { filter, order, start: Start::Offset(0), limit: all, count: false };
        let epoch = self.epoch();
        let found = self.call("present", async {
            on_store!(&self.reader, |store| store.snapshot(scope.tenant(), &query, &self.rulebook))
        });
        let (version, found) = found.await?;
        let position = FeedPosition { epoch, version };
        Ok(FeedSnapshot::new(self.clone(), scope.tenant().cloned(), position, found))
    }

    /// The page of the feed after `position` for a follower that fell behind. A semaphore bounds the memory of such pages.
    async fn feed_page(&self, position: Version) -> Result<Option<FeedPage>, Error> {
        let _turn = self.catching_up.acquire().await.map_err(Error::internal)?;
        self.call("feed", self.reader.feed_page(FeedReader::CatchUp, position)).await
    }

    async fn states(
        &self,
        tenant: Option<&Tenant>,
        ids: Vec<ResourceId>,
        since: Version,
    ) -> Result<Vec<Vec<FeedRow>>, Error> {
        self.call("states", async { on_store!(&self.reader, |store| store.states(tenant, &ids, since)) })
            .await
    }

    /// Executes a command, and returns after its commit.
    pub async fn execute(&self, command: Command) -> Result<Outcome, Error> {
        self.committer.execute(command, self.timeout).await
    }

    async fn call<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        self.observe(operation, self.timeout, self.health.or_fail(work)).await
    }

    /// Every call of the database passes here: it gets a deadline, a metric and a classified failure.
    async fn observe<T>(
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
                self.health.note_damage(failure);
                tracing::debug!(operation, error = failure.chain(), "a store operation failed");
                self.metrics.failed(operation, failure.error_type(), took);
            }
        }
        result.map_err(Failure::into_error)
    }
}
