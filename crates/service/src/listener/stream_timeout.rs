//! Timeouts of responses on a multiplexed connection. The peer's flow-control windows decide how much of each response
//! it takes, and it may starve one and take the others. So each response has its own timer and ends alone when the peer
//! takes nothing of it for too long.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, sleep_until};

use super::backlog::Backlog;

tokio::task_local! {
    static STREAM_TIMER: Arc<StreamTimer>;
}

/// The progress of one response.
#[derive(Debug, Default)]
pub(super) struct StreamTimer(Mutex<Backlog>);

impl StreamTimer {
    /// The timer of the current task's response.
    pub(super) fn current() -> Option<Arc<Self>> {
        STREAM_TIMER.try_with(Arc::clone).ok()
    }

    /// A part was handed to the connection.
    pub(super) fn blocked(&self) {
        self.backlog().waits(Instant::now());
    }

    /// The connection has taken a part of this size.
    pub(super) fn resumed(&self, bytes: usize) {
        self.backlog().takes(bytes, Instant::now);
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when the peer has taken too little within `limit`. The task of the response must poll it after the response.
    async fn expired(&self, limit: Duration) {
        let mut timer = pin!(sleep_until(Instant::now() + limit));
        poll_fn(|cx| {
            loop {
                let Some(due) = self.backlog().due(limit) else { return Poll::Pending };
                ready!(timer.as_mut().poll(cx));
                if due <= Instant::now() {
                    return Poll::Ready(());
                }
                timer.as_mut().reset(due);
            }
        })
        .await;
    }
}

/// Runs the responses of a multiplexed connection, each in a task of its own. Dropping one resets its stream and frees
/// its memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamExecutor {
    /// How long the peer may take too little of a response.
    pub(super) limit: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, answer: F) {
        let (timer, limit) = (Arc::<StreamTimer>::default(), self.limit);
        tokio::spawn(STREAM_TIMER.scope(Arc::clone(&timer), async move {
            tokio::select! {
                biased;
                _ = answer => {}
                () = timer.expired(limit) => tracing::debug!("an answer that the peer does not take is ended"),
            }
        }));
    }
}
