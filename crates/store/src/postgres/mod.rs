//! The PostgreSQL store, for many replicas on one database. Version 13 or newer.
//!
//! Point reads of a runtime share a connection that carries many in one query, lists take one from its pool, and the
//! committer has its own. What is read for a tenant is read behind a wall of the database's own ([`wall`]). A lost
//! connection is made again by whoever needs it next; nothing has to be restarted.

mod bell;
mod columns;
mod connect;
mod connections;
mod dictionaries;
mod feed;
mod lane;
mod lease;
mod leases;
mod listen;
mod load;
mod migrate;
mod moved;
mod past;
mod persist;
#[cfg(test)]
mod plans;
mod read;
mod report_columns;
mod row;
mod statements;
mod surroundings;
mod together;
mod wall;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::rules::explain::Surroundings;
use hyperfleet_core::{Catalog, Claim, Error, Resource, ResourceId, Sight, Tenant, Timestamp, Version, View};

use crate::failure::{Failure, FailureKind};
use crate::feed::{Feed, Trail, TrailRow};
use crate::known::Known;
use crate::lane::Lanes;
use crate::metrics::Metrics;
use crate::migrations::{MigrationReport, OpenError};
use crate::moment::Moment;
use crate::packed::{Dictionaries, PackedRow};
use crate::{
    LeasePage, ListQuery, Options, Page, Past, Pending, Reading, ReportPage, Slice, TimelinePage,
    TimelineQuery,
};

use connect::Address;
pub use connect::SslMode;
use connections::{Connections, Lists};
use lane::Source;
use wall::{Wall, Within};
pub(crate) use writer::Writer;

/// The reading side.
pub(crate) struct Postgres {
    lanes: Lanes,
    points: Source,
    lists: Lists,
    /// For the one reader of the feed, whom everyone who watches waits for.
    feed: Connections,
    /// For the question whether the database is there, which must not wait for those who use it.
    health: Connections,
    wall: Option<Arc<Wall>>,
    catalog: Arc<Catalog>,
    dictionaries: Arc<Dictionaries>,
}

/// Reaches the database, with patience, and brings its schema up to date or checks it.
pub(crate) async fn open(
    options: &Options,
    catalog: Arc<Catalog>,
    dictionaries: Arc<Dictionaries>,
    known: &Arc<Known>,
    feed: &Feed,
    metrics: &Metrics,
) -> Result<(Postgres, Writer), OpenError> {
    let address = Address::new(options)?;
    let (_, wall) = migrate::run(&address, options).await?;
    let wall = wall.map(Arc::new);
    let connections = |most| Connections::new(&address, options, &dictionaries, most);
    let lists = Lists::new(options.max_connections.max(1), connections)?;
    let (feed_connection, health) = (connections(1)?, connections(1)?);
    let points = Source::new(&address, &catalog, options.request_timeout, known, wall.clone());
    tokio::spawn(listen::run(address.clone(), feed.clone(), metrics.clone()));
    let writer = Writer::new(address, catalog.clone(), dictionaries.clone(), options.request_timeout);
    let feed = feed_connection;
    Ok((
        Postgres { lanes: Lanes::default(), points, lists, feed, health, wall, catalog, dictionaries },
        writer,
    ))
}

/// Brings the schema up to date and nothing else.
pub(crate) async fn migrate(options: &Options) -> Result<MigrationReport, OpenError> {
    let options = Options { migrate: true, ..options.clone() };
    Ok(migrate::run(&Address::new(&options)?, &options).await?.0)
}

/// Reads on a connection of the pool. One that broke while it rested there costs nobody an error: the read
/// is done again on a new one. So is one that met a value of a dictionary that another replica has made since, once it is
/// known here: by then no transaction is open, and whoever the read was for, the table is read by its owner. (A function
/// could not: its closure's future would be `Send` for one lifetime only.)
macro_rules! on_lease {
    ($from:expr, |$client:ident| $read:expr) => {{
        let from = &$from;
        let mut lease = from.lease().await?;
        let (mut renewed, mut reread) = (false, false);
        let result = loop {
            let $client = lease.client();
            let result = $read.await;
            match &result {
                Err(failure) if failure.kind == FailureKind::Unavailable && !renewed => {
                    renewed = true;
                    from.forget_all(lease);
                    lease = from.lease().await?;
                }
                Err(failure) if failure.kind == FailureKind::UnknownDictionary && !reread => {
                    reread = true;
                    from.dictionaries().add(dictionaries::read(lease.client()).await?)?;
                }
                _ => break result,
            }
        };
        lease.give_back();
        result
    }};
}

impl Postgres {
    pub(crate) async fn get(
        &self,
        tenant: Option<&Tenant>,
        id: ResourceId,
    ) -> Result<Option<Arc<Resource>>, Failure> {
        let tenant = self.within(tenant).map(|within| within.tenant.clone());
        self.lanes.get(tenant, id, || self.points.open()).await
    }

    pub(crate) async fn moment(&self) -> Result<Moment, Failure> {
        self.lanes.moment(|| self.points.open()).await
    }

    pub(crate) async fn list(
        &self,
        tenant: Option<&Tenant>,
        query: &ListQuery,
        view: View<'_>,
    ) -> Result<Page, Failure> {
        let (within, era) = (self.within(tenant), self.points.era());
        on_lease!(self.lists, |client| read::list(client, within, view, query, era))
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) async fn bounds(&self) -> Result<(Version, Version), Failure> {
        on_lease!(self.lists, |client| feed::bounds(client))
    }

    pub(crate) async fn trail(
        &self,
        reading: Reading,
        position: Version,
        limit: i64,
    ) -> Result<Option<Trail>, Failure> {
        match reading {
            Reading::First => on_lease!(self.feed, |client| self.trail_by(client, position, limit)),
            Reading::Behind => on_lease!(self.lists, |client| self.trail_by(client, position, limit)),
        }
    }

    async fn trail_by(
        &self,
        client: &deadpool_postgres::Client,
        position: Version,
        limit: i64,
    ) -> Result<Option<Trail>, Failure> {
        feed::trail(client, &self.catalog, &self.dictionaries, position, limit).await
    }

    pub(crate) async fn states(
        &self,
        tenant: Option<&Tenant>,
        ids: &[ResourceId],
        since: Version,
    ) -> Result<Vec<Vec<TrailRow>>, Failure> {
        let within = self.within(tenant);
        on_lease!(self.lists, |client| feed::states(
            client,
            within,
            &self.catalog,
            &self.dictionaries,
            ids,
            since
        ))
    }

    pub(crate) async fn present(
        &self,
        tenant: Option<&Tenant>,
        query: &ListQuery,
        view: View<'_>,
    ) -> Result<(Version, Vec<(Version, ResourceId)>), Failure> {
        let within = self.within(tenant);
        on_lease!(self.lists, |client| feed::present(client, within, view, query))
    }

    pub(crate) async fn secret(&self, name: &str, fresh: &[u8]) -> Result<Vec<u8>, Failure> {
        on_lease!(self.lists, |client| read::secret(client, name, fresh))
    }

    /// Some rows to learn words from.
    pub(crate) async fn sample(&self, versions: &[i64]) -> Result<Vec<PackedRow>, Failure> {
        on_lease!(self.lists, |client| dictionaries::sample(client, versions))
    }

    /// Takes in the dictionaries of the table.
    pub(crate) async fn read_dictionaries(&self) -> Result<(), Failure> {
        self.dictionaries.add(on_lease!(self.lists, |client| dictionaries::read(client))?)
    }

    /// Keeps a dictionary, unless there is one with its number already.
    pub(crate) async fn keep_dictionary(
        &self,
        number: u8,
        words: &[u8],
        at: Timestamp,
    ) -> Result<(), Failure> {
        on_lease!(self.lists, |client| dictionaries::keep(client, number, words, at))
    }

    pub(crate) async fn reports(
        &self,
        tenant: Option<&Tenant>,
        id: ResourceId,
        slice: &Slice,
    ) -> Result<ReportPage, Failure> {
        let within = self.within(tenant);
        on_lease!(self.lists, |client| read::reports(client, within, &self.dictionaries, id, slice))
    }

    pub(crate) async fn surroundings(
        &self,
        tenant: Option<&Tenant>,
        id: ResourceId,
        catalog: &Catalog,
    ) -> Result<Option<Surroundings>, Failure> {
        let within = self.within(tenant);
        on_lease!(self.lists, |client| surroundings::surroundings(
            client,
            within,
            catalog,
            &self.dictionaries,
            id
        ))
    }

    pub(crate) async fn timeline(
        &self,
        tenant: Option<&Tenant>,
        catalog: &Catalog,
        id: ResourceId,
        query: &TimelineQuery,
    ) -> Result<Option<(Resource, TimelinePage)>, Failure> {
        let within = self.within(tenant);
        on_lease!(self.lists, |client| past::timeline(client, within, catalog, &self.dictionaries, id, query))
    }

    pub(crate) async fn past(
        &self,
        sight: &Sight,
        catalog: &Catalog,
        id: ResourceId,
        generations: &[i64],
    ) -> Result<Option<Past>, Failure> {
        let within = self.within(sight.tenant());
        on_lease!(self.lists, |client| past::past(
            client,
            within,
            catalog,
            &self.dictionaries,
            sight,
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
        let within = self.within(tenant);
        on_lease!(self.lists, |client| leases::list(client, within, scope, group, slice))
    }

    /// Decides on what is there, and writes if that still is. Whoever was too late decides anew: another was faster, so
    /// it does not go on for ever.
    pub(crate) async fn claim(
        &self,
        scope: &str,
        claim: &Claim,
    ) -> Result<Result<hyperfleet_core::Lease, Error>, Failure> {
        let mut tried = None;
        loop {
            let (now, found) = on_lease!(self.lists, |client| leases::find(client, scope, claim))?;
            // A write whose answer was lost is done again, and then comes too late by itself.
            if let Some(lease) = tried.filter(|tried| found.as_ref() == Some(tried)) {
                return Ok(Ok(lease));
            }
            let lease = match claim.decide(found.as_ref(), now) {
                Ok(lease) => lease,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let found = found.map(|lease| lease.version);
            let put = on_lease!(self.lists, |client| leases::put(client, scope, &claim.group, found, &lease));
            if put? {
                return Ok(Ok(lease));
            }
            tried = Some(lease);
        }
    }

    pub(crate) async fn prune_leases(&self, before: Timestamp) -> Result<u64, Failure> {
        on_lease!(self.lists, |client| leases::prune(client, before))
    }

    pub(crate) async fn pending(&self, stuck_before: Timestamp) -> Result<Pending, Failure> {
        on_lease!(self.lists, |client| read::pending(client, stuck_before))
    }

    pub(crate) async fn basis(&self, kind: &str) -> Result<Option<(String, Option<Timestamp>)>, Failure> {
        on_lease!(self.lists, |client| read::basis(client, kind))
    }

    pub(crate) async fn set_basis(
        &self,
        kind: &str,
        basis: &str,
        look_again_at: Option<Timestamp>,
    ) -> Result<(), Failure> {
        on_lease!(self.lists, |client| read::set_basis(client, kind, basis, look_again_at))
    }

    pub(crate) async fn ids_of_kind(
        &self,
        kind: &str,
        after: Option<(Timestamp, ResourceId)>,
        limit: i64,
    ) -> Result<Vec<(Timestamp, ResourceId)>, Failure> {
        on_lease!(self.lists, |client| read::ids_of_kind(client, kind, after, limit))
    }

    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        on_lease!(self.health, |client| async {
            client.batch_execute("select 1").await.map_err(Failure::from)
        })
    }

    /// Whom to keep behind the wall, if it stands.
    fn within<'a>(&'a self, tenant: Option<&'a Tenant>) -> Option<Within<'a>> {
        self.wall.as_deref().zip(tenant).map(|(wall, tenant)| Within { wall, tenant })
    }

    pub(crate) async fn prune_history(&self, before: Timestamp) -> Result<u64, Failure> {
        on_lease!(self.lists, |client| read::prune_history(client, before))
    }

    pub(crate) async fn prune_retries(&self, before: Timestamp) -> Result<u64, Failure> {
        on_lease!(self.lists, |client| read::prune_retries(client, before))
    }

    /// Open connections, and those at work. The committer's, the bell's and those of the lanes always count as open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let all = [self.lists.count(), self.feed.count(), self.health.count()];
        let (open, at_work) = all.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (open + 2 + self.lanes.count() * (1 + usize::from(self.wall.is_some())), at_work)
    }
}

/// A duration as PostgreSQL's settings want it.
fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis().max(1))
}
