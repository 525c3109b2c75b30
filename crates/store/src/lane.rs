//! Point reads, many at a time, and beside them the question where the database stands. Like the committer, a lane takes
//! whatever is waiting and never waits for more to come, so a lone read pays no delay; under load one question to the
//! database answers many requests. Each [runtime](PerRuntime) that reads has a lane of its own.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hyperfleet_core::{Resource, ResourceId, Tenant};
use tokio::sync::{mpsc, oneshot};

use crate::failure::{Failure, FailureKind};
use crate::moment::Moment;
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

/// What is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// For a resource.
    Read(Read),
    /// Where the database stands.
    Moment(oneshot::Sender<Result<Moment, Failure>>),
}

/// What waits at a time.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub(crate) reads: Vec<Read>,
    moments: Vec<oneshot::Sender<Result<Moment, Failure>>>,
}

impl Questions {
    fn take_in(&mut self, question: Question) {
        // Who went away asks no more.
        match question {
            Question::Read(read) if !read.reply.is_closed() => self.reads.push(read),
            Question::Moment(reply) if !reply.is_closed() => self.moments.push(reply),
            _ => {}
        }
    }

    fn len(&self) -> usize {
        self.reads.len() + self.moments.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether anyone asks where the database stands.
    pub(crate) fn want_the_moment(&self) -> bool {
        !self.moments.is_empty()
    }

    /// Tells those who asked where the database stands.
    pub(crate) fn tell_the_moment(&mut self, moment: &Result<Moment, Failure>) {
        for reply in self.moments.drain(..) {
            let _ = reply.send(moment.clone());
        }
    }
}

/// Who answers what waits in a lane.
pub(crate) trait Answers: Send + 'static {
    /// Answers all of them.
    fn answer(&mut self, questions: Questions) -> impl Future<Output = ()> + Send;

    /// Forgets whatever was half done.
    fn reset(&mut self);
}

/// The ways in. The lanes end when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Lanes(PerRuntime<mpsc::Sender<Question>>);

impl Way for mpsc::Sender<Question> {
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
        self.ask(start, |reply| Question::Read(Read { tenant, id, reply })).await
    }

    /// Where the database stands.
    pub(crate) async fn moment<A: Answers>(&self, start: impl FnOnce() -> A) -> Result<Moment, Failure> {
        self.ask(start, Question::Moment).await
    }

    async fn ask<A: Answers, T>(
        &self,
        start: impl FnOnce() -> A,
        question: impl FnOnce(oneshot::Sender<Result<T, Failure>>) -> Question,
    ) -> Result<T, Failure> {
        let queue = self.0.here(|here| {
            let (queue, questions) = mpsc::channel(QUEUE);
            here.spawn(supervise(start(), questions));
            queue
        });
        let (reply, answer) = oneshot::channel();
        let lost = |_| Failure::new(FailureKind::Defect, "a read was dropped without an answer");
        queue.send(question(reply)).await.map_err(|_| lost(()))?;
        answer.await.map_err(|_| lost(()))?
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.count()
    }
}

/// Answers for as long as anyone may ask, whatever happens inside.
async fn supervise(mut answers: impl Answers, mut queue: mpsc::Receiver<Question>) {
    while AssertUnwindSafe(run(&mut answers, &mut queue)).catch_unwind().await.is_err() {
        tracing::error!("a read lane failed and is started again");
        answers.reset();
    }
}

async fn run(answers: &mut impl Answers, queue: &mut mpsc::Receiver<Question>) {
    while let Some(first) = queue.recv().await {
        // Whoever has sent a request by now comes along: nobody waits for that, and small batches beget small ones.
        tokio::task::yield_now().await;
        let mut questions = Questions::default();
        questions.take_in(first);
        while questions.len() < MAX_BATCH
            && let Ok(next) = queue.try_recv()
        {
            questions.take_in(next);
        }
        if !questions.is_empty() {
            answers.answer(questions).await;
        }
    }
}
