//! The PostgreSQL store, for many replicas on one database. Version 13 or newer.
//!
//! Point reads share one pipelined connection, lists take one from a pool, and the committer has
//! its own. A lost connection is made again by whoever needs it next; nothing has to be restarted.

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

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Timeouts};
use hyperfleet_core::{Catalog, Resource, ResourceId, Timestamp};

use crate::failure::{Failure, FailureKind};
use crate::migrations::{MigrationReport, OpenError};
use crate::{ListQuery, Options, Page};

use connect::Address;
pub use connect::SslMode;
use lane::Lane;
pub(crate) use writer::Writer;

/// The reading side.
pub(crate) struct Postgres {
    lane: Lane,
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
    let lane = Lane::new(address.clone());
    let writer = Writer::new(address, catalog.clone(), options.request_timeout);
    Ok((Postgres { lane, pool, catalog }, writer))
}

/// Brings the schema up to date and nothing else.
pub(crate) async fn migrate(options: &Options) -> Result<MigrationReport, OpenError> {
    let options = Options { migrate: true, ..options.clone() };
    migrate::run(&Address::new(&options)?, &options).await
}

impl Postgres {
    pub(crate) async fn get(&self, id: ResourceId) -> Result<Option<Resource>, Failure> {
        let session = self.lane.session().await?;
        let row = match session.get(id).await {
            // The server may have been restarted since the last use: once more on a new connection.
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                self.lane.renew(&session).await?.get(id).await?
            }
            other => other?,
        };
        row.map(|row| row::resource(&self.catalog, &row)).transpose().map(Option::flatten)
    }

    pub(crate) async fn list(&self, query: &ListQuery) -> Result<Page, Failure> {
        let client = self.pool.get().await?;
        match read::list(&client, &self.catalog, query).await {
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                // What broke this connection most likely broke those that rest in the pool.
                drop(deadpool_postgres::Object::take(client));
                self.pool.retain(|_, _| false);
                read::list(&self.pool.get().await?, &self.catalog, query).await
            }
            other => other,
        }
    }

    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        let session = self.lane.session().await?;
        match session.ping().await {
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                self.lane.renew(&session).await?.ping().await
            }
            other => other,
        }
    }

    pub(crate) async fn prune_history(&self, before: Timestamp) -> Result<u64, Failure> {
        read::prune_history(&self.pool.get().await?, before).await
    }

    /// Open connections, and those at work. The committer's and the lane's always count as open.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size + 2, status.size.saturating_sub(status.available))
    }
}

/// Seconds as PostgreSQL's settings want them.
fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis().max(1))
}
