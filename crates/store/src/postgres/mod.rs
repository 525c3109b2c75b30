//! The PostgreSQL store, for many replicas on one database. Version 13 or newer.
//!
//! Point reads share two connections that each carry many in one query, lists take one from a pool,
//! and the committer has its own. A lost connection is made again by whoever needs it next; nothing has to be restarted.

mod connect;
mod lane;
mod load;
mod migrate;
mod persist;
mod read;
mod row;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Timeouts};
use hyperfleet_core::{Catalog, Resource, ResourceId, Timestamp};

use crate::failure::{Failure, FailureKind};
use crate::migrations::{MigrationReport, OpenError};
use crate::{ListQuery, Options, Page};

use connect::Address;
pub use connect::SslMode;
use lane::Lanes;
pub(crate) use writer::Writer;

/// The reading side.
pub(crate) struct Postgres {
    lanes: Lanes,
    pool: Pool,
    catalog: Arc<Catalog>,
}

/// Reaches the database, with patience, and brings its schema up to date or checks it.
pub(crate) async fn open(options: &Options, catalog: Arc<Catalog>) -> Result<(Postgres, Writer), OpenError> {
    let address = Address::new(options)?;
    migrate::run(&address, options).await?;
    let manager = Manager::from_config(
        address.config.clone(),
        address.tls.clone(),
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    let pool = Pool::builder(manager)
        .max_size(options.max_connections.max(1))
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(options.request_timeout),
            create: Some(connect::TIMEOUT),
            recycle: Some(connect::TIMEOUT),
        })
        .build()
        .map_err(|error| OpenError::new(format!("cannot make the connection pool: {error}")))?;
    let lanes = Lanes::start(&address, &catalog, options.request_timeout)?;
    let writer = Writer::new(address, catalog.clone(), options.request_timeout);
    Ok((Postgres { lanes, pool, catalog }, writer))
}

/// Brings the schema up to date and nothing else.
pub(crate) async fn migrate(options: &Options) -> Result<MigrationReport, OpenError> {
    let options = Options { migrate: true, ..options.clone() };
    migrate::run(&Address::new(&options)?, &options).await
}

impl Postgres {
    pub(crate) async fn get(&self, id: ResourceId) -> Result<Option<Resource>, Failure> {
        self.lanes.get(id).await
    }

    pub(crate) async fn list(&self, query: &ListQuery) -> Result<Page, Failure> {
        let client = self.pool.get().await?;
        match read::list(&client, &self.catalog, query).await {
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                read::list(&self.another(client).await?, &self.catalog, query).await
            }
            other => other,
        }
    }

    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        let client = self.pool.get().await?;
        match client.batch_execute("select 1").await {
            Err(_) => Ok(self.another(client).await?.batch_execute("select 1").await?),
            Ok(()) => Ok(()),
        }
    }

    /// A new connection in place of a dead one. What broke it most likely broke those that rest in
    /// the pool.
    async fn another(&self, dead: Object) -> Result<Object, Failure> {
        drop(Object::take(dead));
        self.pool.retain(|_, _| false);
        Ok(self.pool.get().await?)
    }

    pub(crate) async fn prune_history(&self, before: Timestamp) -> Result<u64, Failure> {
        read::prune_history(&self.pool.get().await?, before).await
    }

    /// Open connections, and those at work. The committer's and the lanes' always count as open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size + 1 + lane::LANES, status.size.saturating_sub(status.available))
    }
}

/// Seconds as PostgreSQL's settings want them.
fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis().max(1))
}
