//! The PostgreSQL store, for many replicas on one database. Version 13 or newer.
//!
//! Point reads of a runtime share a connection, other reads take one of a pool, and the committer has its own. Reads of a
//! tenant are confined by the database too ([`row_security`]). A lost connection is replaced when it is needed next.

mod connect;
mod connections;
mod feed;
mod history;
mod inspection;
mod leases;
mod listen;
mod load;
mod migrate;
mod persist;
#[cfg(test)]
#[path = "../tests/plans/postgres.rs"]
mod plans;
mod point_reads;
mod pooled_connection;
mod read;
mod related_resources;
mod row;
mod row_security;
mod session;
mod statements;
mod write_statements;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::rules::explain::RelatedResources;
use hyperfleet_core::{
    AccessScope, Catalog, Claim, Epoch, Error, Reservation, Resource, ResourceId, Tenant, Timestamp, Version,
};
use tokio_postgres::Config;

use crate::clock::{Clock, ticks};
use crate::database_health::DatabaseHealth;
use crate::failure::{Failure, FailureKind};
use crate::feed::{Feed, FeedBounds, FeedPage, FeedRow};
use crate::maintenance::migrations::{Applied, MigrationReport, OpenError};
use crate::maintenance::pending::Pending;
use crate::metrics::Metrics;
use crate::read::FeedReader;
use crate::store::CATCHING_UP;
use crate::{
    LeasePage, ListQuery, Options, Page, PastGenerations, ReportPage, Slice, TimelinePage, TimelineQuery,
};

use connect::Address;
pub use connect::SslMode;
use connections::{Connections, Lists};
pub(crate) use inspection::Inspection;
use point_reads::PointReads;
use row_security::{RowSecurity, TenantScope};
pub(crate) use writer::PostgresWriter;

/// The reading side.
pub(crate) struct Postgres {
    points: PointReads,
    lists: Lists,
    /// For the reader of the feed, because every watcher waits for it.
    feed: Connections,
    /// For followers that read for themselves.
    catch_up: Connections,
    /// For the health check, which must not wait for other reads.
    health: Connections,
    row_security: Option<Arc<RowSecurity>>,
    catalog: Arc<Catalog>,
    clock: Clock,
    inspection: Arc<Inspection>,
}

/// Connects to the database, and brings its schema up to date or checks it.
pub(crate) async fn open(
    options: &Options,
    catalog: Arc<Catalog>,
    feed: &Feed,
    metrics: &Metrics,
    database_health: &DatabaseHealth,
) -> Result<(Postgres, PostgresWriter, Clock), OpenError> {
    let address = Address::new(options)?;
    let (_, row_security) = migrate::run(&address, options).await?;
    let row_security = row_security.map(Arc::new);
    let connections = |config: Config, most| Connections::new(config, &address, options, most);
    let for_lists = |most| connections(address.config_for_lists(), most);
    let for_feed = |most| connections(address.config_for_feed(), most);
    let (lists, health) = (Lists::new(options.max_connections.max(1), for_lists)?, for_lists(1)?);
    let (feed_connection, catch_up) = (for_feed(1)?, for_feed(CATCHING_UP)?);
    let timeout = options.request_timeout;
    let points = PointReads::new(
        address.clone(),
        catalog.clone(),
        timeout,
        database_health.clone(),
        row_security.clone(),
    );
    tokio::spawn(listen::run(address.clone(), feed.clone(), metrics.clone()));
    let clock = Clock::of_database();
    let writer =
        PostgresWriter::new(address, catalog.clone(), timeout, (clock.clone(), database_health.clone()));
    let (feed, inspection) = (feed_connection, Arc::new(Inspection::new(options)?));
    let reader = Postgres {
        points,
        lists,
        feed,
        catch_up,
        health,
        row_security,
        catalog,
        clock: clock.clone(),
        inspection,
    };
    reader
        .ping()
        .await
        .map_err(|failure| OpenError::new(format!("the database did not answer: {}", failure.chain())))?;
    Ok((reader, writer, clock))
}

pub(crate) fn check_schema(applied: &[Applied]) -> Result<(), OpenError> {
    migrate::check(applied)
}

/// Brings the schema up to date and nothing else.
pub(crate) async fn migrate(options: &Options) -> Result<MigrationReport, OpenError> {
    let options = Options { migrate: true, ..options.clone() };
    Ok(migrate::run(&Address::new(&options)?, &options).await?.0)
}

/// Changes the epoch.
pub(crate) async fn begin_epoch(options: &Options) -> Result<Epoch, OpenError> {
    let fail = |failure: Failure| OpenError::new(format!("cannot change the epoch: {}", failure.chain()));
    let client = Address::new(options)?.connect().await.map_err(fail)?;
    feed::begin_epoch(&client).await.map_err(fail)
}

/// Reads on a connection of the pool. If it broke while it was idle, the read is repeated on a new one. (A function
/// could not do this: the future of its closure would be `Send` for one lifetime only.)
macro_rules! on_connection {
    ($from:expr, |$client:ident| $read:expr) => {{
        let from = &$from;
        let mut connection = from.take().await?;
        let mut renewed = false;
        let result = loop {
            let $client = connection.client();
            let result = $read.await;
            match &result {
                Err(failure) if failure.kind == FailureKind::Unavailable && !renewed => {
                    renewed = true;
                    from.forget_all(connection);
                    connection = from.take().await?;
                }
                _ => break result,
            }
        };
        connection.give_back();
        result
    }};
}

impl Postgres {
    pub(crate) async fn get(
        &self,
        tenant: Option<&Tenant>,
        id: ResourceId,
    ) -> Result<Option<Arc<Resource>>, Failure> {
        let tenant = self.tenant_scope(tenant).map(|tenant_scope| tenant_scope.tenant.clone());
        self.points.get(tenant, id).await
    }

    pub(crate) async fn list(
        &self,
        tenant: Option<&Tenant>,
        query: &ListQuery,
        rulebook: &Arc<Rulebook>,
        reservation: &Reservation,
    ) -> Result<Page, Failure> {
        let tenant_scope = self.tenant_scope(tenant);
        on_connection!(self.lists, |client| read::list(
            client,
            tenant_scope,
            rulebook.view(),
            query,
            reservation
        ))
    }

    pub(crate) fn inspection(&self) -> Arc<Inspection> {
        self.inspection.clone()
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) async fn bounds(&self) -> Result<FeedBounds, Failure> {
        on_connection!(self.catch_up, |client| feed::bounds(client))
    }

    pub(crate) async fn renew_epoch(&self, epoch: Epoch) -> Result<(), Failure> {
        on_connection!(self.catch_up, |client| feed::renew_epoch(client, epoch))
    }

    pub(crate) async fn feed_page(
        &self,
        by: FeedReader,
        position: Version,
        limit: i64,
    ) -> Result<Option<FeedPage>, Failure> {
        match by {
            FeedReader::Shared => {
                on_connection!(self.feed, |client| self.feed_page_by(client, position, limit))
            }
            FeedReader::CatchUp => {
                on_connection!(self.catch_up, |client| self.feed_page_by(client, position, limit))
            }
        }
    }

    async fn feed_page_by(
        &self,
        client: &deadpool_postgres::Client,
        position: Version,
        limit: i64,
    ) -> Result<Option<FeedPage>, Failure> {
        feed::feed_page(client, &self.catalog, position, limit).await
    }

    pub(crate) async fn states(
        &self,
        tenant: Option<&Tenant>,
        ids: &[ResourceId],
        since: Version,
    ) -> Result<Vec<Vec<FeedRow>>, Failure> {
        let tenant_scope = self.tenant_scope(tenant);
        on_connection!(self.catch_up, |client| feed::states(client, tenant_scope, &self.catalog, ids, since))
    }

    pub(crate) async fn snapshot(
        &self,
        tenant: Option<&Tenant>,
        query: &ListQuery,
        rulebook: &Arc<Rulebook>,
    ) -> Result<(Version, Vec<(Version, ResourceId)>), Failure> {
        let tenant_scope = self.tenant_scope(tenant);
        on_connection!(self.lists, |client| feed::snapshot(client, tenant_scope, rulebook.view(), query))
    }

    pub(crate) async fn secret(&self, name: &str, fresh: &[u8]) -> Result<Vec<u8>, Failure> {
        on_connection!(self.lists, |client| read::secret(client, name, fresh))
    }

    pub(crate) async fn reports(
        &self,
        tenant: Option<&Tenant>,
        id: ResourceId,
        slice: &Slice,
        reservation: &Reservation,
    ) -> Result<ReportPage, Failure> {
        let tenant_scope = self.tenant_scope(tenant);
        on_connection!(self.lists, |client| read::reports(client, tenant_scope, id, slice, reservation))
    }

    pub(crate) async fn related_resources(
        &self,
        tenant: Option<&Tenant>,
        id: ResourceId,
    ) -> Result<Option<RelatedResources>, Failure> {
        let tenant_scope = self.tenant_scope(tenant);
        on_connection!(self.lists, |client| related_resources::related_resources(
            client,
            tenant_scope,
            &self.catalog,
            id
        ))
    }

    pub(crate) async fn timeline(
        &self,
        tenant: Option<&Tenant>,
        id: ResourceId,
        query: &TimelineQuery,
        reservation: &Reservation,
    ) -> Result<Option<(Resource, TimelinePage)>, Failure> {
        let tenant_scope = self.tenant_scope(tenant);
        on_connection!(self.lists, |client| history::timeline(
            client,
            tenant_scope,
            &self.catalog,
            id,
            query,
            reservation
        ))
    }

    pub(crate) async fn past_generations(
        &self,
        scope: &AccessScope,
        id: ResourceId,
        generations: &[i64],
    ) -> Result<Option<PastGenerations>, Failure> {
        let tenant_scope = self.tenant_scope(scope.tenant());
        on_connection!(self.lists, |client| history::past_generations(
            client,
            tenant_scope,
            &self.catalog,
            scope,
            id,
            generations
        ))
    }

    pub(crate) async fn leases(
        &self,
        tenant: Option<&Tenant>,
        scope: &str,
        group: &str,
        slice: &Slice,
    ) -> Result<LeasePage, Failure> {
        let tenant_scope = self.tenant_scope(tenant);
        on_connection!(self.lists, |client| leases::list(client, tenant_scope, scope, group, slice))
    }

    /// Decides on the stored lease, and writes if it is unchanged. Otherwise another claim succeeded, and this one is
    /// decided again.
    pub(crate) async fn claim(
        &self,
        scope: &str,
        claim: &Claim,
    ) -> Result<Result<hyperfleet_core::Lease, Error>, Failure> {
        let mut tried = None;
        loop {
            let (epoch, now, found) =
                on_connection!(self.lists, |client| leases::find(client, scope, claim))?;
            // A write whose answer was lost is done again, and then comes too late by itself.
            if let Some(lease) = tried.filter(|tried| found.as_ref() == Some(tried)) {
                return Ok(Ok(lease));
            }
            let lease = match claim.decide(found.as_ref(), epoch, now) {
                Ok(lease) => lease,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let found = found.map(|lease| lease.version);
            let put =
                on_connection!(self.lists, |client| leases::put(client, scope, &claim.group, found, &lease));
            if put? {
                return Ok(Ok(lease));
            }
            tried = Some(lease);
        }
    }

    pub(crate) async fn prune_leases(&self, age: Duration) -> Result<u64, Failure> {
        on_connection!(self.lists, |client| leases::prune(client, age))
    }

    pub(crate) async fn pending(&self, stuck_before: Timestamp) -> Result<Pending, Failure> {
        on_connection!(self.lists, |client| read::pending(client, stuck_before))
    }

    pub(crate) async fn stored_settings(
        &self,
        kind: &str,
    ) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
        on_connection!(self.lists, |client| read::stored_settings(client, kind))
    }

    pub(crate) async fn store_settings(
        &self,
        kind: &str,
        settings: &str,
        recheck_time: Option<Timestamp>,
    ) -> Result<(), Failure> {
        on_connection!(self.lists, |client| read::store_settings(client, kind, settings, recheck_time))
    }

    pub(crate) async fn ids_of_kind(
        &self,
        kind: &str,
        after: Option<(Timestamp, ResourceId)>,
        limit: i64,
    ) -> Result<Vec<(Timestamp, ResourceId)>, Failure> {
        on_connection!(self.lists, |client| read::ids_of_kind(client, kind, after, limit))
    }

    /// Reads the database's clock.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        on_connection!(self.health, |client| async {
            let statement = client.prepare_cached("select clock_timestamp()").await?;
            let asked = ticks();
            let time: DateTime<Utc> = client.query_one(&statement, &[]).await?.try_get(0)?;
            self.clock.read(time.into(), asked);
            Ok::<(), Failure>(())
        })
    }

    /// The confinement of a tenant's reads, if the database has it.
    fn tenant_scope<'a>(&'a self, tenant: Option<&'a Tenant>) -> Option<TenantScope<'a>> {
        self.row_security
            .as_deref()
            .zip(tenant)
            .map(|(row_security, tenant)| TenantScope { row_security, tenant })
    }

    pub(crate) async fn prune_history(&self, age: Duration) -> Result<u64, Failure> {
        on_connection!(self.lists, |client| read::prune_history(client, age))
    }

    pub(crate) async fn prune_idempotency_records(&self, age: Duration) -> Result<u64, Failure> {
        on_connection!(self.lists, |client| read::prune_idempotency_records(client, age))
    }

    /// Open connections, and those at work. Those of the committer, the listener and the point reads always count as open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let pools = [&self.feed, &self.catch_up, &self.health].map(Connections::count);
        let (open, at_work) =
            pools.iter().fold(self.lists.count(), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (open + 2 + self.points.connections(), at_work)
    }
}

/// A duration as `make_interval` takes it, at most three thousand years.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64().min(1e11)
}

/// A duration as PostgreSQL's settings want it.
fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis().max(1))
}
