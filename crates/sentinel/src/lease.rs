//! Renews the lease of this replica, and tells the controllers which ranges it owns. If the API has no leases, this is the
//! only replica.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyperfleet_client::{Client, Error, Lease};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backoff::{age, later};
use crate::context::Context;
use crate::controllers::AFTER_A_PANIC;
use crate::membership::{Assignment, Membership, Ownership, TTL};

/// Longest wait for an answer, so that there is time for a retry before the lease expires.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often an API without leases is asked again.
const PROBE_INTERVAL: Duration = Duration::from_secs(60);
const CHECK_NAME: &str = "leases";
const NAME_PREFIX: &str = "replica-";

pub(crate) struct LeaseRenewer {
    /// Without retries, because renewals are repeated.
    client: Client,
    group: String,
    name: String,
    /// The entity tag of the lease, for the next renewal.
    tag: Option<String>,
    membership: Membership,
    assignment: watch::Sender<Assignment>,
    context: Context,
}

enum Renewal {
    Worked,
    Failed,
    /// The API has no leases.
    Alone,
}

impl LeaseRenewer {
    pub(crate) fn new(
        client: Client,
        name: &str,
        replica: &str,
        assignment: watch::Sender<Assignment>,
        context: Context,
    ) -> Self {
        let group = format!("sentinel-{}", lease_name(name));
        let name = format!("{NAME_PREFIX}{}", lease_name(replica));
        Self { client, group, name, tag: None, membership: Membership::new(replica), assignment, context }
    }

    /// Renews until the stop, and then releases the lease. Panics are caught, because without renewal nothing is published.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while AssertUnwindSafe(self.renew(&stop)).catch_unwind().await.is_err() {
            tracing::error!("the lease renewer panicked and is started again");
            tokio::time::sleep(AFTER_A_PANIC).await;
        }
        self.release().await;
    }

    async fn renew(&mut self, stop: &CancellationToken) {
        // With a slow API there may be no wait between two renewals.
        while !stop.is_cancelled() {
            let begun = self.context.clock.now();
            let before = self.membership.ownership(begun);
            let renewal = self.renew_once().await;
            let now = self.context.clock.now();
            let ownership = self.membership.ownership(now);
            if ownership != before
                && let Ownership::Owns(ranges) = ownership
            {
                tracing::info!(ranges = ranges.len(), "the owned ranges have changed");
            }
            let next = match renewal {
                Renewal::Alone => later(now, PROBE_INTERVAL),
                Renewal::Worked => self.membership.next_renewal(begun, true, now),
                Renewal::Failed => self.membership.next_renewal(begun, false, now),
            };
            loop {
                self.publish_assignment();
                let now = self.context.clock.now();
                let left = age(now, next);
                if left.is_zero() {
                    break;
                }
                let change = self
                    .membership
                    .wake_at(now)
                    .map_or(left, |at| age(now, at).max(Duration::from_millis(1)));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(left.min(change)) => {}
                }
            }
        }
    }

    /// Renews the lease, and lists the leases of all replicas.
    async fn renew_once(&mut self) -> Renewal {
        let asked = self.context.clock.now();
        let mut refused = None;
        match self.put(TTL).await {
            Ok(tag) => {
                self.tag = tag;
                self.membership.granted(asked, self.context.clock.now());
            }
            // The answer to an earlier renewal may have been lost; the list tells.
            Err(error) if error.is_conflict() => refused = Some(error),
            // After a successful renewal such an answer comes from a proxy.
            Err(error) if self.tag.is_none() && (error.is_not_found() || error.status() == Some(405)) => {
                tracing::info!("the API has no leases; this replica works alone");
                self.membership.alone();
                self.context.record_api(CHECK_NAME, Ok(()));
                return Renewal::Alone;
            }
            Err(error) => return self.failed(&error),
        }
        let asked = self.context.clock.now();
        let listed = match in_time(self.client.leases(&self.group)).await {
            Ok(listed) => listed,
            Err(error) => return self.failed(&error),
        };
        let own = listed.iter().find(|lease| lease.name == self.name && lease.holder == self.membership.me());
        self.tag = match (own, &refused) {
            (Some(_), None) => self.tag.take(),
            (own, _) => own.and_then(Lease::if_match),
        };
        let present = listed.iter().filter(|lease| lease.name.starts_with(NAME_PREFIX));
        self.membership.listed(present.map(|lease| lease.holder.as_str()), asked, self.context.clock.now());
        match refused {
            Some(error) if own.is_none() => self.failed(&error),
            Some(_) => Renewal::Failed,
            None => {
                self.context.record_api(CHECK_NAME, Ok(()));
                Renewal::Worked
            }
        }
    }

    fn failed(&self, error: &Error) -> Renewal {
        self.context.record_api(CHECK_NAME, Err(error));
        Renewal::Failed
    }

    async fn put(&self, ttl: Duration) -> Result<Option<String>, Error> {
        let put =
            self.client.put_lease(&self.group, &self.name, self.membership.me(), ttl, self.tag.as_deref());
        in_time(put).await.map(|lease| lease.if_match())
    }

    fn publish_assignment(&self) {
        let now = self.context.clock.now();
        let count = match self.membership.ownership(now) {
            Ownership::Owns(ranges) => i64::from(ranges.len()),
            Ownership::Lapsed => 0,
        };
        self.context.metrics.ranges_owned.set(count);
        let uncovered = self.membership.uncovered(now);
        self.context.metrics.uncovered.set(i64::from(uncovered));
        if uncovered == 0 {
            self.context.started();
        }
        let assignment = self.membership.assignment(now);
        self.assignment.send_if_modified(|known| std::mem::replace(known, assignment) != assignment);
    }

    /// Ends the lease, so that other replicas take over at their next list.
    async fn release(mut self) {
        self.membership.leave();
        if self.tag.is_some() {
            let _ = self.put(Duration::ZERO).await;
        }
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = || Error::TimedOut { url: String::new(), after: TIMEOUT };
    tokio::time::timeout(TIMEOUT, answer).await.unwrap_or_else(|_| Err(late()))
}

/// Replaces what a lease's name cannot contain.
fn lease_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}
