//! One execution of a task for a resource, as a state machine without I/O. It asks for one effect after the other and is
//! given the answers, each with the time; it knows no clock, no socket and no Kubernetes. The live driver, the dry run,
//! the rehearsal and the simulation tests drive the same machine.
//!
//! The steps are written as one asynchronous function whose only pause is the question for an effect. [`Execution`]
//! polls it by hand, so that nothing here needs a runtime.

mod act;
mod calls;
mod conditions;
mod effect;
mod guard;
mod journal;
mod nested;
mod params;
mod post;
mod preconditions;
mod report;
mod run;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};

use crate::task::Task;

pub use effect::{Answer, Apply, Call, Delete, Effect, Lookup, Reply, Retries, Stored};
pub use journal::{ActionRecord, CallRecord, Journal, PreconditionRecord, ResourceRecord};

/// What all executions of a process share.
#[derive(Debug)]
pub struct Program {
    /// What to do.
    pub task: Task,
    /// Name of the adapter, as it reports.
    pub adapter: String,
    /// `adapter.version` of the configuration.
    pub version: String,
    /// The configuration, for sources `config.…`, without secrets.
    pub config: Value,
    /// The variables of the environment that the task names.
    pub environment: Map<String, Value>,
    /// `clients.hyperfleet_api.base_url`, the origin that absolute URLs may name.
    pub base_url: String,
    /// The version of the API in relative URLs.
    pub api_version: String,
    /// Whether `Finalized` is guarded.
    pub guards_finalized: bool,
}

/// What one execution is about.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Data of the event.
    pub event: Map<String, Value>,
    /// Id of the resource.
    pub id: String,
    /// Which delivery of the event this is, from 1.
    pub attempt: u32,
    /// After how many deliveries the event is given up.
    pub attempts: u32,
    /// Whether there is no other attempt: what may pass counts as final.
    pub once: bool,
    /// The generation that was last reported; reading an older one is reading a stale replica.
    pub reported_generation: i64,
}

/// What an execution came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Everything is as it should be.
    Done,
    /// The work goes on elsewhere.
    Working,
    /// The work failed for a reason of the resource.
    Failed,
    /// A precondition is not met.
    Skipped,
    /// The resource is not there.
    Gone,
    /// The adapter failed.
    Error,
}

impl Outcome {
    /// The word for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Working => "working",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Gone => "gone",
            Self::Error => "error",
        }
    }
}

/// What becomes of the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// It is done.
    Acknowledge,
    /// It comes again after a pause.
    Retry(String),
    /// A dependency is away: it is held until the dependency is back.
    Outage {
        /// Which, and how.
        reason: String,
        /// When the dependency asked to be called again.
        retry_after: Option<std::time::Duration>,
    },
}

/// The end of an execution.
#[derive(Debug)]
pub struct Finished {
    /// What it came to.
    pub outcome: Outcome,
    /// What becomes of the event.
    pub settle: Settle,
    /// The generation that was read; 0 when it was not.
    pub generation: i64,
    /// Whether the resource has to be looked at again soon, though nothing will tell.
    pub recheck: bool,
    /// What was done.
    pub journal: Journal,
}

/// What the machine wants next.
#[derive(Debug)]
pub enum Step {
    /// An effect; its answer is given to the next [`Execution::resume`].
    Ask(Effect),
    /// Nothing any more.
    Done(Box<Finished>),
}

/// One running execution.
pub struct Execution {
    machine: Pin<Box<dyn Future<Output = Finished> + Send>>,
    exchange: Arc<Exchange>,
}

impl Execution {
    /// An execution that has asked for nothing yet.
    pub fn new(program: Arc<Program>, input: Input) -> Self {
        let exchange = Arc::new(Exchange::default());
        let machine = Box::pin(run::run(program, input, exchange.clone()));
        Self { machine, exchange }
    }

    /// Goes on with the answer to the last effect; the first call needs none. `now` is the time of the answer.
    pub fn resume(&mut self, answer: Option<Answer>, now: Timestamp) -> Step {
        self.exchange.answer(answer, now);
        let mut context = Context::from_waker(Waker::noop());
        match self.machine.as_mut().poll(&mut context) {
            Poll::Ready(finished) => Step::Done(Box::new(finished)),
            Poll::Pending => match self.exchange.take_effect() {
                Some(effect) => Step::Ask(effect),
                None => unreachable!("the machine pauses only to ask"),
            },
        }
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").finish_non_exhaustive()
    }
}

/// Where effects go out and answers come in.
#[derive(Default)]
struct Exchange(Mutex<Slot>);

#[derive(Default)]
struct Slot {
    effect: Option<Effect>,
    answer: Option<Answer>,
    now: Option<Timestamp>,
}

impl Exchange {
    fn slot<T>(&self, with: impl FnOnce(&mut Slot) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(&self, answer: Option<Answer>, now: Timestamp) {
        self.slot(|slot| {
            slot.answer = answer;
            slot.now = Some(now);
        });
    }

    fn take_effect(&self) -> Option<Effect> {
        self.slot(|slot| slot.effect.take())
    }

    /// The time of the last answer.
    fn now(&self) -> Timestamp {
        self.slot(|slot| slot.now).unwrap_or_else(|| Timestamp::from_micros(0))
    }

    /// Asks for an effect and waits for its answer.
    fn ask(&self, effect: Effect) -> impl Future<Output = Answer> {
        let mut effect = Some(effect);
        std::future::poll_fn(move |_| match effect.take() {
            Some(effect) => {
                self.slot(|slot| {
                    slot.effect = Some(effect);
                    slot.answer = None;
                });
                Poll::Pending
            }
            None => match self.slot(|slot| slot.answer.take()) {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Ready(Answer::None),
            },
        })
    }
}
