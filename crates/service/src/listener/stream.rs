//! One answer among the many of a multiplexed connection. The peer decides by its windows how much it takes of each, and
//! may leave one alone while it takes the others; so each is timed by itself, and ended alone when nothing of it is
//! taken for too long.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    static FLOW: Arc<Flow>;
}

/// How an answer flows.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Since when a part of it waits for the peer to take what comes before.
    waits_since: Mutex<Option<Instant>>,
}

impl Flow {
    /// That of the answer that is being made by the running task.
    pub(super) fn current() -> Option<Arc<Self>> {
        FLOW.try_with(Arc::clone).ok()
    }

    /// A part was handed out.
    pub(super) fn waits(&self) {
        self.set(Some(Instant::now()));
    }

    /// The next part is wanted.
    pub(super) fn flows(&self) {
        self.set(None);
    }

    fn set(&self, since: Option<Instant>) {
        *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Completes when a part waited for longer than `limit`. Must be polled by the task that makes the answer, after it.
    async fn exhausted(&self, limit: Duration) {
        let mut timer = pin!(sleep_until(Instant::now() + limit));
        poll_fn(|cx| {
            loop {
                let since = *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(since) = since else { return Poll::Pending };
                ready!(timer.as_mut().poll(cx));
                if since + limit <= Instant::now() {
                    return Poll::Ready(());
                }
                timer.as_mut().reset(since + limit);
            }
        })
        .await;
    }
}

/// Runs the answers of a multiplexed connection, each in a task of its own. To drop one resets its stream and frees what
/// it holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    /// How long the peer may take nothing of an answer.
    pub(super) limit: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, answer: F) {
        let (flow, limit) = (Arc::<Flow>::default(), self.limit);
        tokio::spawn(FLOW.scope(Arc::clone(&flow), async move {
            tokio::select! {
                biased;
                _ = answer => {}
                () = flow.exhausted(limit) => tracing::debug!("an answer that the peer does not take is ended"),
            }
        }));
    }
}
