//! Commands and the callers that wait for their answers. A caller is answered exactly once on every path, because a
//! [`Reply`] that is dropped sends an error.

use std::time::{Duration, Instant};

use hyperfleet_core::rules::Outcome;
use hyperfleet_core::{Command, Error};
use tokio::sync::oneshot;

use crate::failure::{Failure, FailureKind};

/// What a caller is told.
pub(crate) type CommandResult = Result<Outcome, Error>;

/// A command in the queue.
#[derive(Debug)]
pub(super) struct Job {
    command: Command,
    reply: Reply,
}

impl Job {
    /// A job, and the receiver of its answer.
    pub(super) fn new(command: Command, timeout: Duration) -> (Self, oneshot::Receiver<CommandResult>) {
        let (sender, receiver) = oneshot::channel();
        let reply = Reply { deadline: Instant::now() + timeout, sender: Some(sender) };
        (Self { command, reply }, receiver)
    }
}

/// The way back to one caller.
#[derive(Debug)]
struct Reply {
    deadline: Instant,
    sender: Option<oneshot::Sender<CommandResult>>,
}

impl Reply {
    fn send(mut self, answer: CommandResult) {
        if let Some(sender) = self.sender.take() {
            // A caller that went away needs no answer.
            let _ = sender.send(answer);
        }
    }

    /// The reply, unless its caller has gone or is answered here that its deadline has passed.
    fn in_time(self) -> Option<Self> {
        if self.deadline <= Instant::now() {
            self.send(Err(late().into_error()));
            return None;
        }
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed()).then_some(self)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Err(Error::internal("the committer dropped a command without an answer")));
        }
    }
}

pub(super) fn late() -> Failure {
    Failure::new(FailureKind::Timeout, "no commit within the deadline")
}

/// Commands that share a transaction. Whatever consumes a batch answers all of its callers.
#[derive(Debug)]
pub(super) struct Batch {
    commands: Vec<Command>,
    replies: Vec<Reply>,
}

impl Batch {
    /// The jobs whose callers still wait.
    pub(super) fn of(jobs: impl IntoIterator<Item = Job>) -> Self {
        let in_time = |job: Job| Some((job.command, job.reply.in_time()?));
        let (commands, replies) = jobs.into_iter().filter_map(in_time).unzip();
        Self { commands, replies }
    }

    pub(super) fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Batches of one command each. One whose caller has gone meanwhile is empty.
    pub(super) fn split(self) -> impl Iterator<Item = Self> {
        let jobs = self.commands.into_iter().zip(self.replies);
        jobs.map(|(command, reply)| Self::of([Job { command, reply }]))
    }

    /// Gives each caller the answer to its command.
    pub(super) fn answer(self, answers: Vec<CommandResult>) {
        self.replies.into_iter().zip(answers).for_each(|(reply, answer)| reply.send(answer));
    }

    /// Gives every caller the same error.
    pub(super) fn fail(self, failure: &Failure) {
        self.replies.into_iter().for_each(|reply| reply.send(Err(failure.clone().into_error())));
    }
}
