//! One controller for each kind. For all kinds, the Sentinel asks the API for its kinds once a minute and whenever a watch
//! connects, because the API may have been restarted with others.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backoff::after_failures;
use crate::context::Context;
use crate::controller::Controller;
use crate::membership::Assignment;

/// Wait before a task that panicked is started again.
pub(crate) const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// How often the API is asked for its kinds.
const ASK_KINDS: Duration = Duration::from_secs(60);

pub(crate) struct Controllers {
    context: Context,
    assignment: watch::Receiver<Assignment>,
    stop: CancellationToken,
    /// By the plurals of their kinds.
    running: BTreeMap<String, CancellationToken>,
    tasks: JoinSet<()>,
}

impl Controllers {
    pub(crate) fn new(
        context: Context,
        assignment: watch::Receiver<Assignment>,
        stop: CancellationToken,
    ) -> Self {
        Self { context, assignment, stop, running: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Runs a controller for every kind until the stop.
    pub(crate) async fn keep(&mut self) {
        if let Some(kinds) = self.context.work.kinds.clone() {
            self.follow(kinds);
            return self.stop.cancelled().await;
        }
        let mut failures = 0;
        loop {
            let asked = tokio::select! {
                () = self.stop.cancelled() => return,
                asked = self.context.client.kinds() => asked,
            };
            self.context.record_api("kinds", asked.as_ref().map(|_| ()));
            let wait = match asked {
                Ok(kinds) => {
                    failures = 0;
                    self.follow(kinds.into_iter().map(|kind| kind.plural).collect());
                    ASK_KINDS
                }
                Err(error) => {
                    failures += 1;
                    after_failures(failures, fastrand::f64(), error.retry_after())
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.context.returned.notified(), if failures == 0 => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Waits for events in flight.
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
            let (context, assignment) = (&self.context, &self.assignment);
            self.running.entry(kind).or_insert_with_key(|kind| {
                changed = true;
                let end = self.stop.child_token();
                self.tasks.spawn(supervise(kind.clone(), context.clone(), assignment.clone(), end.clone()));
                end
            });
        }
        if changed {
            let count = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
            self.context.kinds.store(count, Ordering::Relaxed);
            let kinds: Vec<_> = self.running.keys().map(String::as_str).collect();
            tracing::info!(
                resource_types = kinds.join(","),
                topic = self.context.work.topic,
                "watching kinds"
            );
        }
    }
}

/// Runs the controller of a kind, and starts it again after a panic, because no other replica takes over its ranges.
async fn supervise(
    kind: String,
    context: Context,
    assignment: watch::Receiver<Assignment>,
    end: CancellationToken,
) {
    let keep = || Controller::new(&kind, context.clone(), assignment.clone()).run(end.clone());
    while AssertUnwindSafe(keep()).catch_unwind().await.is_err() && !end.is_cancelled() {
        tracing::error!(resource_type = kind, "a controller panicked and is started again");
        tokio::time::sleep(AFTER_A_PANIC).await;
    }
}
