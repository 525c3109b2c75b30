//! Point reads, many at a time. Like the committer, a lane takes whatever reads are waiting and never waits for more to
//! come, so a lone read pays no delay; under load one question to the database answers many requests. Each
//! [runtime](PerRuntime) that reads has a lane of its own.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hyperfleet_core::{Resource, ResourceId, Tenant};
use tokio::sync::{mpsc, oneshot};

use crate::failure::{Failure, FailureKind};
use crate::per_runtime::{PerRuntime, Way};

/// Reads that are answered together.
const MAX_BATCH: usize = 128;

/// Reads that may wait; callers beyond wait for room, within their own deadline.
const QUEUE: usize = 4096;

pub(crate) type Answer = Result<Option<Arc<Resource>>, Failure>;

/// Whoever waits for a resource.
#[derive(Debug)]
pub(crate) struct Read {
    /// Whom to keep behind the wall, where there is one.
    pub(crate) tenant: Option<Tenant>,
    pub(crate) id: ResourceId,
    reply: oneshot::Sender<Answer>,
}

impl Read {
    pub(crate) fn answer(self, answer: Answer) {
        // Who went away does not need it.
        let _ = self.reply.send(answer);
    }
}

/// Who answers what waits in a lane.
pub(crate) trait Answers: Send + 'static {
    /// Answers all of them.
    fn answer(&mut self, reads: Vec<Read>) -> impl Future<Output = ()> + Send;

    /// Forgets whatever was half done.
    fn reset(&mut self);
}

/// The ways in. The lanes end when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Lanes(PerRuntime<mpsc::Sender<Read>>);

impl Way for mpsc::Sender<Read> {
    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}

impl Lanes {
    /// Reads by the lane of the runtime that asks. If there is none yet, `start` says who answers there.
    pub(crate) async fn get<A: Answers>(
        &self,
        tenant: Option<Tenant>,
        id: ResourceId,
        start: impl FnOnce() -> A,
    ) -> Answer {
        let queue = self.0.here(|here| {
            let (queue, reads) = mpsc::channel(QUEUE);
            here.spawn(supervise(start(), reads));
            queue
        });
        let (reply, answer) = oneshot::channel();
        let lost = |_| Failure::new(FailureKind::Defect, "a read was dropped without an answer");
        queue.send(Read { tenant, id, reply }).await.map_err(|_| lost(()))?;
        answer.await.map_err(|_| lost(()))?
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.count()
    }
}

/// Answers for as long as anyone may ask, whatever happens inside.
async fn supervise(mut answers: impl Answers, mut reads: mpsc::Receiver<Read>) {
    while AssertUnwindSafe(run(&mut answers, &mut reads)).catch_unwind().await.is_err() {
        tracing::error!("a read lane failed and is started again");
        answers.reset();
    }
}

async fn run(answers: &mut impl Answers, queue: &mut mpsc::Receiver<Read>) {
    let mut reads = Vec::with_capacity(MAX_BATCH);
    while queue.recv_many(&mut reads, MAX_BATCH).await > 0 {
        // Whoever has sent a request by now comes along: nobody waits for that, and small batches beget small ones.
        tokio::task::yield_now().await;
        while reads.len() < MAX_BATCH
            && let Ok(read) = queue.try_recv()
        {
            reads.push(read);
        }
        // Nobody waits for these any more.
        reads.retain(|read| !read.reply.is_closed());
        if !reads.is_empty() {
            answers.answer(std::mem::take(&mut reads)).await;
        }
    }
}
