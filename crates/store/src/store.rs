//! The store that callers use, over either database. Every call is named, timed and bounded, and its failure is classified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyperfleet_core::rules::explain::RelatedResources;
use hyperfleet_core::rules::{Outcome, Rulebook};
use hyperfleet_core::search::{Direction, Filter, SortField, TimeColumn};
use hyperfleet_core::{
    AccessScope, Claim, Command, Epoch, Error, FeedPosition, IDEMPOTENCY_RETENTION, Lease, Reservation,
    Resource, ResourceId, Tenant, Timestamp, Version,
};
use tokio::sync::Semaphore;

use crate::backend::{Backend, Options};
use crate::clock::Clock;
use crate::database_health::DatabaseHealth;
use crate::failure::{Failure, FailureKind};
use crate::feed::{self, Feed, FeedBounds, FeedPage, FeedRow, FeedSnapshot, Follower, just_restored};
use crate::history::{PastGenerations, TimelinePage, TimelineQuery};
use crate::leases::{self, LeasePage};
use crate::maintenance::inspection::{Inspector, Source};
use crate::maintenance::migrations::OpenError;
use crate::maintenance::recompute::{Position, STEP, recompute_conditions};
use crate::metrics::Metrics;
use crate::read::lists::{ListQuery, Page, ReportPage, Slice, Start};
use crate::read::{FeedReader, Reader, on_store};
use crate::write::Committer;
use crate::{postgres, sqlite};

/// The database, opened and at the right schema.
#[derive(Clone)]
pub struct Store {
    pub(crate) reader: Reader,
    pub(crate) committer: Committer,
    pub(crate) rulebook: Arc<Rulebook>,
    pub(crate) timeout: Duration,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) health: DatabaseHealth,
    pub(crate) page_token_key: [u8; 64],
    pub(crate) feed: Feed,
    pub(crate) catching_up: Arc<Semaphore>,
}

/// How many watchers that fell behind read at a time.
pub(crate) const CATCHING_UP: usize = 4;

/// A deadline that is noticed so late passed while this process was frozen.
const FROZEN: Duration = Duration::from_millis(500);

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
    pub(crate) async fn feed_page(&self, position: Version) -> Result<Option<FeedPage>, Error> {
        let _turn = self.catching_up.acquire().await.map_err(Error::internal)?;
        self.call("feed", self.reader.feed_page(FeedReader::CatchUp, position)).await
    }

    pub(crate) async fn states(
        &self,
        tenant: Option<&Tenant>,
        ids: Vec<ResourceId>,
        since: Version,
    ) -> Result<Vec<Vec<FeedRow>>, Error> {
        self.call("states", async { on_store!(&self.reader, |store| store.states(tenant, &ids, since)) })
            .await
    }

    /// A slice of the held leases of a group, which belongs to the scope of the caller.
    pub async fn leases(&self, scope: &AccessScope, group: &str, slice: &Slice) -> Result<LeasePage, Error> {
        let owner = leases::lease_owner(scope);
        self.call("leases", async {
            on_store!(&self.reader, |store| store.leases(scope.tenant(), owner, group, slice))
        })
        .await
    }

    /// Acquires, renews or releases a lease.
    pub async fn claim(&self, scope: &AccessScope, claim: &Claim) -> Result<Lease, Error> {
        let owner = leases::lease_owner(scope);
        self.call("claim", async { on_store!(&self.reader, |store| store.claim(owner, claim)) }).await?
    }

    /// Removes a small number of leases that expired long ago. Returns how many.
    pub async fn prune_leases(&self) -> Result<u64, Error> {
        self.call("prune_leases", async {
            on_store!(&self.reader, |store| store.prune_leases(leases::RETENTION))
        })
        .await
    }

    /// The related resources of the resource with this id, as far as they are in the access scope.
    pub async fn related_resources(
        &self,
        scope: &AccessScope,
        id: ResourceId,
    ) -> Result<Option<RelatedResources>, Error> {
        let found = self
            .call("related_resources", async {
                on_store!(&self.reader, |store| store.related_resources(scope.tenant(), id))
            })
            .await?;
        found.map_or(Ok(None), |related| related.confined(scope))
    }

    /// Executes a command, and returns after its commit.
    pub async fn execute(&self, command: Command) -> Result<Outcome, Error> {
        self.committer.execute(command, self.timeout).await
    }

    /// Recomputes every kind whose settings changed, and checks it once more later. It returns when it has succeeded.
    pub async fn recompute_conditions(&self) {
        recompute_conditions(self).await;
    }

    pub(crate) async fn stored_settings(
        &self,
        kind: &str,
    ) -> Result<Option<(String, Option<Timestamp>)>, Error> {
        self.call("recompute", async { on_store!(&self.reader, |store| store.stored_settings(kind)) }).await
    }

    pub(crate) async fn store_settings(
        &self,
        kind: &str,
        settings: &str,
        recheck_time: Option<Timestamp>,
    ) -> Result<(), Error> {
        self.call("recompute", async {
            on_store!(&self.reader, |store| store.store_settings(kind, settings, recheck_time))
        })
        .await
    }

    pub(crate) async fn ids_of_kind(
        &self,
        kind: &str,
        after: Option<Position>,
    ) -> Result<Vec<Position>, Error> {
        self.call("recompute", async {
            on_store!(&self.reader, |store| store.ids_of_kind(kind, after, STEP as i64))
        })
        .await
    }

    /// Sets the metrics of pending resources, and of those that have been pending for longer than `threshold`.
    pub async fn measure_pending(&self, threshold: Duration) -> Result<(), Error> {
        let now = self.clock.now();
        let threshold = i64::try_from(threshold.as_micros()).unwrap_or(i64::MAX);
        let stuck_before = Timestamp::from_micros(now.micros().saturating_sub(threshold));
        let pending = self
            .call("pending", async { on_store!(&self.reader, |store| store.pending(stuck_before)) })
            .await?;
        self.metrics.fleet.show(&self.rulebook.catalog, &pending, now);
        Ok(())
    }

    /// Pings the database, with its own timeout, and compares the clocks. Requests fail at once after a ping of PostgreSQL that
    /// failed, until there is one that succeeds.
    pub async fn ping(&self, timeout: Duration) -> Result<(), Error> {
        let ping = || async {
            self.health.check_damage()?;
            on_store!(&self.reader, |store| store.ping())
        };
        let (open, in_use) = match &self.reader {
            Reader::Sqlite(sqlite) => sqlite.connections(),
            Reader::Postgres(postgres) => postgres.connections(),
        };
        self.metrics.connections_open.set(open as i64);
        self.metrics.connections_in_use.set(in_use as i64);
        let began = Instant::now();
        let mut answer = self.observe("ping", timeout, ping()).await;
        if answer.is_err() && began.elapsed() > timeout + FROZEN {
            answer = self.observe("ping", timeout, ping()).await;
        }
        if let Reader::Postgres(_) = &self.reader {
            self.health.set_unreachable(answer.is_err());
        }
        self.metrics.clock_skew.set(self.clock.skew() as f64 / 1e6);
        answer
    }

    /// Removes a small number of changes older than `age`. Returns how many; 0 at the end.
    pub async fn prune_history(&self, age: Duration) -> Result<u64, Error> {
        let pruned = self
            .call("prune_history", async { on_store!(&self.reader, |store| store.prune_history(age)) })
            .await?;
        self.metrics.feed.pruned.inc_by(pruned);
        let bounds = self.bounds().await?;
        // Each version has its row.
        self.metrics.feed.rows.set(bounds.newest.version.0 - bounds.pruned.0);
        Ok(pruned)
    }

    /// Removes a small number of expired idempotency records. Returns how many.
    pub async fn prune_idempotency_records(&self) -> Result<u64, Error> {
        self.call("prune_idempotency_records", async {
            on_store!(&self.reader, |store| store.prune_idempotency_records(IDEMPOTENCY_RETENTION))
        })
        .await
    }

    /// Reads the database of this store.
    pub fn inspector(&self) -> Inspector {
        Inspector(match &self.reader {
            Reader::Sqlite(sqlite) => Source::Sqlite(sqlite.location()),
            Reader::Postgres(postgres) => Source::Postgres(postgres.inspection()),
        })
    }

    /// Stops all writes because pages of the file are damaged.
    pub fn stop_writes(&self, cause: &str) {
        self.health.note_damage(&Failure::new(FailureKind::Damaged, cause));
    }

    /// Reads every page of a SQLite file once, so that damage shows before a write comes upon it.
    pub async fn check_pages(&self) {
        let Reader::Sqlite(sqlite) = &self.reader else { return };
        match sqlite.location().inspect(vec!["pragma quick_check(1)".to_owned()]).await {
            Ok(found) => {
                let fault = found.into_iter().flatten().flatten().flatten().find(|line| line != "ok");
                fault.iter().for_each(|fault| self.stop_writes(fault));
            }
            Err(failure) => self.health.note_damage(&failure),
        }
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
