//! Pools of connections for reads other than point reads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Client, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Timeouts};
use futures_util::future::select_ok;
use tokio::runtime::Handle;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::{self, Address};
use super::pooled_connection::PooledConnection;
use crate::Options;
use crate::failure::Failure;
use crate::maintenance::migrations::OpenError;
use crate::per_runtime::{self, PerRuntime, RuntimeHandle};

/// With fewer connections for each runtime, runtimes share one pool.
const LEAST_SHARE: usize = 2;

/// A pool.
pub(super) struct Connections {
    pool: Pool,
    tls: MakeRustlsConnect,
}

impl Connections {
    /// At most so many connections with the settings of `config`.
    pub(super) fn new(
        config: Config,
        address: &Address,
        options: &Options,
        most: usize,
    ) -> Result<Self, OpenError> {
        let manager = Manager::from_config(
            config,
            address.tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let pool = Pool::builder(manager)
            .max_size(most)
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(options.request_timeout),
                create: Some(connect::TIMEOUT),
                recycle: Some(connect::TIMEOUT),
            })
            .build()
            .map_err(|error| OpenError::new(format!("cannot make the connection pool: {error}")))?;
        Ok(Self { pool, tls: address.tls.clone() })
    }

    pub(super) async fn take(&self) -> Result<PooledConnection, Failure> {
        Ok(self.lend(self.pool.get().await?))
    }

    /// A connection that is not in use, if there is one.
    async fn take_free(&self) -> Result<Option<PooledConnection>, Failure> {
        let timeouts = Timeouts { wait: Some(Duration::ZERO), ..self.pool.timeouts() };
        match self.pool.timeout_get(&timeouts).await {
            Ok(client) => Ok(Some(self.lend(client))),
            Err(PoolError::Timeout(deadpool_postgres::TimeoutType::Wait)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn lend(&self, client: Client) -> PooledConnection {
        PooledConnection::new(client, self.tls.clone())
    }

    /// Drops a dead connection and the idle ones, because what broke one most likely broke all.
    pub(super) fn forget_all(&self, dead: PooledConnection) {
        drop(dead);
        self.close_idle();
    }

    fn close_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    /// The number of open connections, and of those in use.
    pub(super) fn count(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.size.saturating_sub(status.available))
    }
}

/// The connections for lists. Each runtime has a share of them, which it drives itself, because a connection that another
/// thread drives costs two wake-ups. A runtime whose share is in use takes a free connection of another, or waits for
/// the first to become free.
pub(super) struct Lists {
    shares: Vec<Connections>,
    /// The shares of runtimes.
    owners: PerRuntime<Share>,
    next: AtomicUsize,
}

/// The number of a share.
#[derive(Debug, Clone, Copy)]
struct Share(usize);

impl RuntimeHandle for Share {
    fn is_closed(&self) -> bool {
        false
    }
}

impl Lists {
    /// Divides the connections between the runtime that opens the store and one worker thread for each of its workers.
    pub(super) fn new(
        most: usize,
        connections: impl Fn(usize) -> Result<Connections, OpenError>,
    ) -> Result<Self, OpenError> {
        let runtimes = (Handle::current().metrics().num_workers() + 1).min(per_runtime::MOST);
        let number = if most / runtimes < LEAST_SHARE { 1 } else { runtimes };
        let share = |i| connections(most / number + usize::from(i < most % number));
        let shares = (0..number).map(share).collect::<Result<_, _>>()?;
        Ok(Self { shares, owners: PerRuntime::default(), next: AtomicUsize::new(0) })
    }

    pub(super) async fn take(&self) -> Result<PooledConnection, Failure> {
        let number = self.shares.len();
        let Share(own) = self.owners.here(|_| Share(self.next.fetch_add(1, Ordering::Relaxed) % number));
        let mut refused = None;
        for turn in 0..number {
            match self.shares[(own + turn) % number].take_free().await {
                Ok(Some(connection)) => return Ok(connection),
                Ok(None) => {}
                // No connection can be made, but another share may have an idle one.
                Err(failure) => refused = Some(failure),
            }
        }
        match refused {
            Some(failure) => Err(failure),
            None => Ok(select_ok(self.shares.iter().map(|share| Box::pin(share.take()))).await?.0),
        }
    }

    pub(super) fn forget_all(&self, dead: PooledConnection) {
        drop(dead);
        self.shares.iter().for_each(Connections::close_idle);
    }

    pub(super) fn count(&self) -> (usize, usize) {
        self.shares.iter().map(Connections::count).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::join_all;
    use futures_util::poll;
    use hyperfleet_testkit::Postgres;

    use super::*;
    use crate::{Backend, SslMode};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_runtime_without_free_connections_takes_those_of_others_and_waits_for_the_first_free_one() {
        let database = Postgres::shared().database().await;
        let options = Options {
            backend: Backend::Postgres {
                url: database.url(),
                ssl_mode: SslMode::Disable,
                root_cert_file: None,
            },
            max_connections: 7,
            request_timeout: Duration::from_secs(60),
            connect_attempts: 1,
            connect_interval: Duration::from_millis(1),
            queue_limit: 1,
            migrate: true,
            tenants: false,
        };
        let address = Address::new(&options).unwrap();
        let config = address.config_for_lists();
        let connections = |most| Connections::new(config.clone(), &address, &options, most);
        let lists = Lists::new(7, connections).unwrap();
        assert_eq!(lists.shares.len(), 3);
        let all = join_all((0..7).map(|_| lists.take())).await;
        let mut all: Vec<PooledConnection> = all.into_iter().map(|connection| connection.unwrap()).collect();
        assert_eq!(lists.count(), (7, 7), "never more than there may be");
        for _ in 0..7 {
            let mut late = pin!(lists.take());
            assert!(poll!(&mut late).is_pending());
            // Whosever share that is of.
            all.remove(0).give_back();
            all.push(late.await.unwrap());
        }
        assert_eq!(lists.count(), (7, 7));
        all.into_iter().for_each(PooledConnection::give_back);
        assert_eq!(lists.count(), (7, 0));
        assert_eq!(Lists::new(5, connections).unwrap().shares.len(), 1);
    }
}
