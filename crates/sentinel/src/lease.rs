//! Keeps the lease of this replica, and tells its keepers which ranges are theirs. An API that knows no leases makes
//! this the only replica.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyperfleet_client::{Client, Error};
use hyperfleet_core::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backoff::{age, later};
use crate::keepers::AFTER_A_PANIC;
use crate::shares::{Held, Shares, Standing, TTL};
use crate::surroundings::Surroundings;

/// An answer that comes later is of no use: there must be time to ask again before the lease ends.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often an API that knows no leases is asked whether it does now.
const ALONE: Duration = Duration::from_secs(60);
const WHO: &str = "leases";
const PRESENCE: &str = "replica-";

pub(crate) struct LeaseKeeper {
    /// Never tries again by itself: a beat does.
    client: Client,
    group: String,
    name: String,
    /// The lease as it was last known.
    version: Option<u64>,
    shares: Shares,
    held: watch::Sender<Held>,
    around: Surroundings,
}

enum Beat {
    Worked,
    Failed,
    /// There is no such thing as a lease.
    Alone,
}

impl LeaseKeeper {
    pub(crate) fn new(
        client: Client,
        name: &str,
        replica: &str,
        held: watch::Sender<Held>,
        around: Surroundings,
    ) -> Self {
        let group = format!("sentinel-{}", lease_name(name));
        let name = format!("{PRESENCE}{}", lease_name(replica));
        Self { client, group, name, version: None, shares: Shares::new(replica), held, around }
    }

    /// Renews until told to stop, and then gives the lease back. Whatever goes wrong inside is begun anew: without it
    /// nothing would be published, and the process would look well.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while AssertUnwindSafe(self.renew(&stop)).catch_unwind().await.is_err() {
            tracing::error!("the keeper of the lease failed and is started again");
            tokio::time::sleep(AFTER_A_PANIC).await;
        }
        self.give_back().await;
    }

    async fn renew(&mut self, stop: &CancellationToken) {
        // A slow API may leave no time between two beats.
        while !stop.is_cancelled() {
            let begun = Timestamp::now();
            let before = self.shares.standing(begun);
            let beat = self.beat().await;
            let now = Timestamp::now();
            let standing = self.shares.standing(now);
            if standing != before
                && let Standing::Holds(ranges) = standing
            {
                tracing::info!(ranges = ranges.len(), "looks after other ranges than before");
            }
            let next = match beat {
                Beat::Alone => later(now, ALONE),
                Beat::Worked => self.shares.next_beat(begun, true, now),
                Beat::Failed => self.shares.next_beat(begun, false, now),
            };
            loop {
                self.tell();
                let now = Timestamp::now();
                let left = age(now, next);
                // A clock that was put back must not keep us from renewing.
                if left.is_zero() || now < begun {
                    break;
                }
                let change =
                    self.shares.wake_at(now).map_or(left, |at| age(now, at).max(Duration::from_millis(1)));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(left.min(change)) => {}
                }
            }
        }
    }

    /// Renews the lease, and looks who else is there.
    async fn beat(&mut self) -> Beat {
        let asked = Timestamp::now();
        let mut refused = None;
        match self.put(TTL).await {
            Ok(version) => {
                self.version = version;
                self.shares.granted(asked, Timestamp::now());
            }
            // Perhaps an earlier answer got lost. The list tells what became of it.
            Err(error) if error.is_conflict() => refused = Some(error),
            // Once there was a lease, only something in between can say that there is none.
            Err(error) if self.version.is_none() && (error.is_not_found() || error.status() == Some(405)) => {
                tracing::info!("the API keeps no leases, so this replica works alone");
                self.shares.alone();
                self.around.api(WHO, Ok(()));
                return Beat::Alone;
            }
            Err(error) => return self.failed(&error),
        }
        let asked = Timestamp::now();
        let listed = match in_time(self.client.leases(&self.group)).await {
            Ok(listed) => listed,
            Err(error) => return self.failed(&error),
        };
        let own = listed.iter().find(|lease| lease.name == self.name && lease.holder == self.shares.me());
        self.version = own.and_then(|lease| lease.version);
        let present = listed.iter().filter(|lease| lease.name.starts_with(PRESENCE));
        self.shares.listed(present.map(|lease| lease.holder.as_str()), asked, Timestamp::now());
        match refused {
            Some(error) if own.is_none() => self.failed(&error),
            Some(_) => Beat::Failed,
            None => {
                self.around.api(WHO, Ok(()));
                Beat::Worked
            }
        }
    }

    fn failed(&self, error: &Error) -> Beat {
        self.around.api(WHO, Err(error));
        Beat::Failed
    }

    async fn put(&self, ttl: Duration) -> Result<Option<u64>, Error> {
        let put = self.client.put_lease(&self.group, &self.name, self.shares.me(), ttl, self.version);
        in_time(put).await.map(|lease| lease.version)
    }

    fn tell(&self) {
        let now = Timestamp::now();
        let count = match self.shares.standing(now) {
            Standing::Holds(ranges) => i64::from(ranges.len()),
            Standing::Lapsed => 0,
        };
        self.around.metrics.leases_held.set(count);
        let uncovered = self.shares.uncovered(now);
        self.around.metrics.uncovered.set(i64::from(uncovered));
        if uncovered == 0 {
            self.around.has_begun();
        }
        let held = self.shares.held(now);
        self.held.send_if_modified(|known| std::mem::replace(known, held) != held);
    }

    /// The others find at their next look that we are gone.
    async fn give_back(mut self) {
        self.shares.leave();
        if self.version.is_some() {
            let _ = self.put(Duration::ZERO).await;
        }
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = || Error::TimedOut { url: String::new(), after: PATIENCE };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(late()))
}

/// A text as the name of a lease can be.
fn lease_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}
