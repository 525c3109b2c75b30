//! Timeouts of responses on a multiplexed connection. The peer's flow-control windows decide how much of each response
//! it takes, and it may starve one and take the others. So each response has its own timer and ends alone when the peer
//! takes nothing of it for too long.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    static STREAM_TIMER: Arc<StreamTimer>;
}

/// The progress of one response.
#[derive(Debug, Default)]
pub(super) struct StreamTimer {
    /// Since when a part of the response waits for the peer.
    blocked_since: Mutex<Option<Instant>>,
}

impl StreamTimer {
    /// The timer of the current task's response.
    pub(super) fn current() -> Option<Arc<Self>> {
        STREAM_TIMER.try_with(Arc::clone).ok()
    }

    /// A part was handed to the connection.
    pub(super) fn blocked(&self) {
        self.set(Some(Instant::now()));
    }

    /// The connection takes the next part.
    pub(super) fn resumed(&self) {
        self.set(None);
    }

    fn set(&self, since: Option<Instant>) {
        *self.blocked_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Completes when a part waited for longer than `limit`. The task of the response must poll it after the response.
    async fn expired(&self, limit: Duration) {
        let mut timer = pin!(sleep_until(Instant::now() + limit));
        poll_fn(|cx| {
            loop {
                let since = *self.blocked_since.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Runs the responses of a multiplexed connection, each in a task of its own. Dropping one resets its stream and frees
/// its memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamExecutor {
    /// How long the peer may take nothing of a response.
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
