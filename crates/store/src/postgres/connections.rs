//! Connections for reads that take one for themselves, made when they are needed, up to a number of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Client, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Timeouts};
use futures_util::future::select_ok;
use tokio::runtime::Handle;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::{self, Address};
use super::lease::Lease;
use crate::Options;
use crate::failure::Failure;
use crate::migrations::OpenError;
use crate::packed::Dictionaries;
use crate::per_runtime::{self, PerRuntime, Way};

/// With fewer for each, runtimes share them all.
const LEAST_SHARE: usize = 2;

/// A pool.
pub(super) struct Connections {
    pool: Pool,
    tls: MakeRustlsConnect,
    /// By which what is read there is unpacked.
    dictionaries: Arc<Dictionaries>,
}

impl Connections {
    pub(super) fn new(
        address: &Address,
        options: &Options,
        dictionaries: &Arc<Dictionaries>,
        most: usize,
    ) -> Result<Self, OpenError> {
        let manager = Manager::from_config(
            address.config_for_lists(),
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
        Ok(Self { pool, tls: address.tls.clone(), dictionaries: dictionaries.clone() })
    }

    pub(super) async fn lease(&self) -> Result<Lease, Failure> {
        Ok(self.lend(self.pool.get().await?))
    }

    /// One that nobody has, if there is any.
    async fn lease_free(&self) -> Result<Option<Lease>, Failure> {
        let timeouts = Timeouts { wait: Some(Duration::ZERO), ..self.pool.timeouts() };
        match self.pool.timeout_get(&timeouts).await {
            Ok(client) => Ok(Some(self.lend(client))),
            Err(PoolError::Timeout(deadpool_postgres::TimeoutType::Wait)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn lend(&self, client: Client) -> Lease {
        Lease::new(client, self.tls.clone())
    }

    /// Drops a dead connection, and those that rest in the pool: what broke one most likely broke all.
    pub(super) fn forget_all(&self, dead: Lease) {
        drop(dead);
        self.forget_resting();
    }

    fn forget_resting(&self) {
        self.pool.retain(|_, _| false);
    }

    pub(super) fn dictionaries(&self) -> &Dictionaries {
        &self.dictionaries
    }

    /// How many are open, and how many at work.
    pub(super) fn count(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.size.saturating_sub(status.available))
    }
}

/// The connections for lists. Each runtime has its share of them, which it drives itself: an answer that another thread
/// takes in waits until that one has time, and then for the one who asked to be woken. Whose share is used up takes what
/// others leave, and if that is nothing waits for whichever is free first.
pub(super) struct Lists {
    shares: Vec<Connections>,
    /// Whose share is which.
    owners: PerRuntime<Share>,
    next: AtomicUsize,
}

/// The number of a share.
#[derive(Debug, Clone, Copy)]
struct Share(usize);

impl Way for Share {
    fn is_closed(&self) -> bool {
        false
    }
}

impl Lists {
    /// So many at most, for the runtime that opens the store and as many threads that serve as it has workers.
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

    pub(super) async fn lease(&self) -> Result<Lease, Failure> {
        let number = self.shares.len();
        let Share(own) = self.owners.here(|_| Share(self.next.fetch_add(1, Ordering::Relaxed) % number));
        let mut refused = None;
        for turn in 0..number {
            match self.shares[(own + turn) % number].lease_free().await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                // No more can be made, but one may rest elsewhere.
                Err(failure) => refused = Some(failure),
            }
        }
        match refused {
            Some(failure) => Err(failure),
            None => Ok(select_ok(self.shares.iter().map(|share| Box::pin(share.lease()))).await?.0),
        }
    }

    pub(super) fn forget_all(&self, dead: Lease) {
        drop(dead);
        self.shares.iter().for_each(Connections::forget_resting);
    }

    pub(super) fn dictionaries(&self) -> &Dictionaries {
        self.shares[0].dictionaries()
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
    use crate::{SslMode, Target};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_has_used_up_its_share_takes_what_others_leave_and_waits_for_whichever_is_free_first() {
        let database = Postgres::shared().database().await;
        let options = Options {
            target: Target::Postgres {
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
        let dictionaries = Arc::new(Dictionaries::new().unwrap());
        let lists = Lists::new(7, |most| Connections::new(&address, &options, &dictionaries, most)).unwrap();
        assert_eq!(lists.shares.len(), 3);
        let all = join_all((0..7).map(|_| lists.lease())).await;
        let mut all: Vec<Lease> = all.into_iter().map(|lease| lease.unwrap()).collect();
        assert_eq!(lists.count(), (7, 7), "never more than there may be");
        for _ in 0..7 {
            let mut late = pin!(lists.lease());
            assert!(poll!(&mut late).is_pending());
            // Whosever share that is of.
            all.remove(0).give_back();
            all.push(late.await.unwrap());
        }
        assert_eq!(lists.count(), (7, 7));
        all.into_iter().for_each(Lease::give_back);
        assert_eq!(lists.count(), (7, 0));
        assert_eq!(
            Lists::new(5, |most| Connections::new(&address, &options, &dictionaries, most))
                .unwrap()
                .shares
                .len(),
            1
        );
    }
}
