//! Keeps the leases of this replica, and tells its keepers which ranges are theirs. An API that knows no leases makes
//! this the only replica.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use hyperfleet_client::{Client, Error};
use hyperfleet_core::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backoff::age;
use crate::shares::{BEAT, Claim, Held, Lease, Shares, Standing, TTL, Wants};
use crate::surroundings::Surroundings;

/// An answer that comes later is of no use: the next beat asks again.
const PATIENCE: Duration = Duration::from_secs(3);
const WHO: &str = "leases";

pub(crate) struct LeaseKeeper {
    /// Never tries again by itself: a beat does.
    pub(crate) client: Client,
    pub(crate) group: String,
    pub(crate) shares: Shares,
    pub(crate) held: watch::Sender<Held>,
    pub(crate) around: Surroundings,
}

impl LeaseKeeper {
    /// Renews until told to stop, and then gives everything back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut alone = false;
        loop {
            let begun = Timestamp::now();
            if !alone {
                alone = self.beat(begun).await;
            }
            loop {
                self.tell();
                let now = Timestamp::now();
                let left = BEAT.saturating_sub(age(begun, now));
                if left.is_zero() {
                    break;
                }
                let change =
                    self.shares.wake_at(now).map_or(left, |at| age(now, at).max(Duration::from_millis(1)));
                tokio::select! {
                    () = stop.cancelled() => return self.give_back().await,
                    () = tokio::time::sleep(left.min(change)) => {}
                }
            }
        }
    }

    /// Looks at all leases and asks for what is to be had. True when there is no such thing as a lease.
    async fn beat(&mut self, now: Timestamp) -> bool {
        let listed = tokio::time::timeout(PATIENCE, self.client.leases(&self.group)).await;
        let listed = match listed {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) if error.is_not_found() || error.status() == Some(405) => {
                tracing::info!("the API keeps no leases, so this replica works alone");
                self.shares.alone();
                self.around.api(WHO, Ok(()));
                return true;
            }
            Ok(Err(error)) => {
                self.around.api(WHO, Err(&error));
                return false;
            }
            Err(_) => return false,
        };
        let versions: HashMap<String, Option<u64>> =
            listed.iter().map(|lease| (lease.name.clone(), lease.version)).collect();
        let live = listed.into_iter().filter(|lease| !lease.holder.is_empty());
        let live: Vec<Lease> = live.map(|it| Lease { name: it.name, holder: it.holder }).collect();
        let before = self.shares.standing(now);
        let claims = self.shares.listed(&live);
        // Whoever gives a range up stops with it before others may begin.
        self.tell();
        let outcomes = self.put(claims, |claim| versions.get(&claim.name).copied().flatten()).await;
        let mut trouble = None;
        for (claim, sent, outcome) in outcomes {
            match outcome {
                Ok(_) => self.shares.answered(&claim, true, sent),
                Err(error) if error.is_conflict() => self.shares.answered(&claim, false, sent),
                Err(error) => trouble = Some(error),
            }
        }
        self.around.api(WHO, trouble.as_ref().map_or(Ok(()), Err));
        let standing = self.shares.standing(Timestamp::now());
        if standing != before
            && let Standing::Holds(ranges) = standing
        {
            tracing::info!(ranges = %ranges, "looks after other ranges than before");
        }
        false
    }

    async fn put(
        &self,
        claims: Vec<Claim>,
        version: impl Fn(&Claim) -> Option<u64>,
    ) -> Vec<(Claim, Timestamp, Result<(), Error>)> {
        let requests = claims.into_iter().map(|claim| {
            let ttl = if claim.wants == Wants::Release { Duration::ZERO } else { TTL };
            let if_match = version(&claim);
            async move {
                let sent = Timestamp::now();
                let put = self.client.put_lease(&self.group, &claim.name, self.shares.me(), ttl, if_match);
                let outcome = match tokio::time::timeout(PATIENCE, put).await {
                    Ok(outcome) => outcome.map(drop),
                    Err(_) => Err(Error::TimedOut { url: String::new(), after: PATIENCE }),
                };
                (claim, sent, outcome)
            }
        });
        join_all(requests).await
    }

    fn tell(&self) {
        let now = Timestamp::now();
        let count = match self.shares.standing(now) {
            Standing::Holds(ranges) => i64::from(ranges.len()),
            Standing::Lapsed => 0,
        };
        self.around.metrics.leases_held.set(count);
        self.around.metrics.uncovered.set(i64::from(self.shares.uncovered()));
        let held = self.shares.held(now);
        self.held.send_if_modified(|known| std::mem::replace(known, held) != held);
    }

    async fn give_back(mut self) {
        let listed = tokio::time::timeout(PATIENCE, self.client.leases(&self.group)).await;
        let Ok(Ok(listed)) = listed else { return };
        let versions: HashMap<_, _> = listed.into_iter().map(|lease| (lease.name, lease.version)).collect();
        let claims = self.shares.released();
        self.put(claims, |claim| versions.get(&claim.name).copied().flatten()).await;
    }
}
