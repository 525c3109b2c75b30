//! The keepers of a Sentinel, one a kind. Where every kind of the server is to be looked after, the server is asked
//! which it has, at times and whenever a watch came up: one that was started with other kinds is followed without a
//! restart here.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backoff::after_failures;
use crate::keeper::{Keeper, chance};
use crate::shares::Held;
use crate::surroundings::Surroundings;

/// Wait before something that failed in a way that it should not is begun again.
pub(crate) const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// How often the server is asked which kinds it has, although nothing seems to have happened to it.
const ASK_KINDS: Duration = Duration::from_secs(60);

pub(crate) struct Keepers {
    around: Surroundings,
    held: watch::Receiver<Held>,
    stop: CancellationToken,
    /// By the plurals of their kinds, each with what ends it.
    running: BTreeMap<String, CancellationToken>,
    tasks: JoinSet<()>,
}

impl Keepers {
    pub(crate) fn new(around: Surroundings, held: watch::Receiver<Held>, stop: CancellationToken) -> Self {
        Self { around, held, stop, running: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Has a keeper for every kind that is to be looked after, until it is time to stop.
    pub(crate) async fn keep(&mut self) {
        if let Some(kinds) = self.around.work.kinds.clone() {
            self.follow(kinds);
            return self.stop.cancelled().await;
        }
        let mut failures = 0;
        loop {
            let asked = tokio::select! {
                () = self.stop.cancelled() => return,
                asked = self.around.client.kinds() => asked,
            };
            self.around.api("kinds", asked.as_ref().map(|_| ()));
            let wait = match asked {
                Ok(kinds) => {
                    failures = 0;
                    self.follow(kinds.into_iter().map(|kind| kind.plural).collect());
                    ASK_KINDS
                }
                Err(error) => {
                    failures += 1;
                    after_failures(failures, chance(), error.retry_after())
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.around.returned.notified(), if failures == 0 => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Waits for what is on its way.
    pub(crate) async fn drain(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    fn follow(&mut self, kinds: Vec<String>) {
        while self.tasks.try_join_next().is_some() {}
        let before = self.running.len();
        self.running.retain(|kind, end| {
            let stays = kinds.contains(kind);
            if !stays {
                end.cancel();
            }
            stays
        });
        let mut changed = self.running.len() != before;
        for kind in kinds {
            let (around, held) = (&self.around, &self.held);
            self.running.entry(kind).or_insert_with_key(|kind| {
                changed = true;
                let end = self.stop.child_token();
                self.tasks.spawn(supervise(kind.clone(), around.clone(), held.clone(), end.clone()));
                end
            });
        }
        if changed {
            let count = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
            self.around.kinds.store(count, Ordering::Relaxed);
            let kinds: Vec<_> = self.running.keys().map(String::as_str).collect();
            tracing::info!(resource_types = kinds.join(","), topic = self.around.work.topic, "looks after");
        }
    }
}

/// Keeps a kind until the end. A keeper that panics is followed by a new one: as long as this replica holds its ranges,
/// no other would look after them.
async fn supervise(kind: String, around: Surroundings, held: watch::Receiver<Held>, end: CancellationToken) {
    let keep = || Keeper::new(&kind, around.clone(), held.clone()).run(end.clone());
    while AssertUnwindSafe(keep()).catch_unwind().await.is_err() && !end.is_cancelled() {
        tracing::error!(resource_type = kind, "a keeper failed and is started again");
        tokio::time::sleep(AFTER_A_PANIC).await;
    }
}
