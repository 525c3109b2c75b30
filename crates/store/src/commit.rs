//! The committer: takes whatever commands are waiting, decides them on one working set, and
//! commits them together.
//!
//! It never waits for more to come, so a lone request pays no delay; under load batches form by
//! themselves. Callers are answered only after the commit. Whatever fails, every command in the
//! queue gets an answer: a batch that the database refuses is tried again command by command, a
//! rule that panics costs only its own command, and a committer that dies is started again.
//!
//! Batches are settled one after the other, but for those that [`flights`] may send ahead.

mod boarding;
mod doorbell;
mod flights;
mod post;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use hyperfleet_core::rules::{Needs, Outcome, Rulebook, WorkingSet, answered, decide};
use hyperfleet_core::{Action, Change, Command, Error, ErrorKind, ResourceId, Timestamp};
use tokio::sync::{mpsc, oneshot};

use crate::failure::{Failure, FailureKind};
use crate::feed::Feed;
use crate::known::Known;
use crate::memory::{Mark, Memory, Recalled};
use crate::metrics::Metrics;
use crate::per_runtime::PerRuntime;
use crate::{postgres, sqlite};

use doorbell::Doorbell;
use flights::{Boarding, Flights};
use post::{Post, Postbox};

/// Commands that one commit may carry. Larger batches gain nothing and make everyone wait.
const MAX_BATCH: usize = 256;

/// How often a lone command is tried again after a conflict with another transaction.
const MAX_ATTEMPTS: usize = 3;

/// The side of a store that writes.
pub(crate) enum Writer {
    Postgres(Box<postgres::Writer>),
    Sqlite(sqlite::Writer),
}

/// A queue in front of the one task that writes.
#[derive(Debug, Clone)]
pub(crate) struct Committer {
    queue: mpsc::Sender<Job>,
    doorbell: Arc<Doorbell>,
    postboxes: Arc<PerRuntime<Postbox>>,
    metrics: Metrics,
}

struct Job {
    command: Command,
    caller: Waiting,
}

/// Jobs that share a commit.
#[derive(Default)]
struct Batch {
    commands: Vec<Command>,
    callers: Vec<Waiting>,
}

impl Batch {
    fn of(jobs: Vec<Job>) -> Self {
        let (commands, callers) = jobs.into_iter().map(|job| (job.command, job.caller)).unzip();
        Self { commands, callers }
    }

    fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Those whose command is one of these, and the others.
    fn split(self, is_one: impl Fn(&Command) -> bool) -> (Self, Self) {
        let jobs = self.commands.into_iter().zip(self.callers);
        let (these, others) =
            jobs.map(|(command, caller)| Job { command, caller }).partition(|job| is_one(&job.command));
        (Self::of(these), Self::of(others))
    }

    fn answer(callers: Vec<Waiting>, answers: Vec<Result<Outcome, Error>>) {
        let mut post = Post::default();
        for (caller, answer) in callers.into_iter().zip(answers) {
            post.add(caller.postbox, caller.reply, answer);
        }
        post.send();
    }
}

/// Whoever waits for an answer, and until when.
struct Waiting {
    deadline: Instant,
    postbox: Postbox,
    reply: oneshot::Sender<Result<Outcome, Error>>,
}

impl Waiting {
    fn is_over(&self) -> bool {
        self.deadline <= Instant::now() || self.reply.is_closed()
    }

    fn answer(self, answer: Result<Outcome, Error>) {
        // A caller that went away does not need its answer.
        let _ = self.reply.send(answer);
    }
}

/// A batch that was committed: what came of it, and where it found and left the feed.
pub(crate) struct Committed {
    pub(crate) verdicts: Verdicts,
    pub(crate) found: Mark,
    pub(crate) left: Mark,
}

/// What came of a batch: the set to persist and an answer per command, in order.
pub(crate) struct Verdicts {
    pub(crate) set: WorkingSet,
    pub(crate) answers: Vec<Result<Outcome, Error>>,
}

impl Committer {
    /// A committer and the task that drives it. The task ends when every committer is dropped.
    pub(crate) fn new(
        writer: Writer,
        rulebook: Arc<Rulebook>,
        queue_limit: usize,
        metrics: Metrics,
        feed: Feed,
        known: Arc<Known>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, jobs) = mpsc::channel(queue_limit.max(1));
        let doorbell = Arc::new(Doorbell::default());
        let task = supervise(Task {
            writer,
            rulebook,
            jobs,
            doorbell: doorbell.clone(),
            memory: Memory::new(known),
            alone: true,
            crowd: 0,
            distrust: 0,
            metrics: metrics.clone(),
            feed,
        });
        (Self { queue, doorbell, postboxes: Arc::default(), metrics }, task)
    }

    /// Hands a command in and waits for its answer.
    pub(crate) async fn execute(&self, command: Command, timeout: Duration) -> Result<Outcome, Error> {
        let (reply, answer) = oneshot::channel();
        let deadline = Instant::now() + timeout;
        let caller = Waiting { deadline, postbox: Postbox::here(&self.postboxes), reply };
        let job = Job { command, caller };
        // Counted before it is there, because the committer may have taken it before this goes on.
        self.metrics.queue_length.inc();
        if let Err(refused) = self.queue.try_send(job) {
            self.metrics.queue_length.dec();
            return Err(match refused {
                mpsc::error::TrySendError::Full(_) => {
                    Error::new(ErrorKind::Overloaded, "Too many writes are waiting. Please try again later.")
                }
                mpsc::error::TrySendError::Closed(_) => stopping(),
            });
        }
        self.doorbell.tell(self.queue.max_capacity() - self.queue.capacity());
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => answer,
            // After a pause of the whole process the committer may see that it is too late before this does.
            Ok(Err(_)) if Instant::now() < deadline => {
                Err(Error::internal("the committer dropped a command without an answer"))
            }
            _ => Err(Failure::new(FailureKind::Timeout, "no commit within the deadline").into_error()),
        }
    }
}

fn stopping() -> Error {
    Error::new(ErrorKind::Overloaded, "The server is stopping. Please try again.")
}

struct Task {
    writer: Writer,
    rulebook: Arc<Rulebook>,
    jobs: mpsc::Receiver<Job>,
    doorbell: Arc<Doorbell>,
    memory: Memory,
    /// Whether nobody else wrote lately. If somebody does, what is remembered is seldom worth trying.
    alone: bool,
    /// How many jobs there lately were at a time, on the ground and in the air.
    crowd: usize,
    /// For how many more batches names are not trusted to be free.
    distrust: usize,
    metrics: Metrics,
    feed: Feed,
}

/// Runs the task for as long as anyone may send, whatever happens inside. The jobs of a batch
/// that died are answered by the drop of their reply.
async fn supervise(mut task: Task) {
    while AssertUnwindSafe(task.run()).catch_unwind().await.is_err() {
        tracing::error!("the committer failed and is started again");
        task.writer.reset();
        task.memory.clear();
    }
}

impl Task {
    async fn run(&mut self) {
        let mut jobs = Vec::with_capacity(MAX_BATCH);
        let mut flights = Flights::default();
        loop {
            if flights.is_empty() {
                for failed in flights.failed() {
                    self.settle_after(failed).await;
                }
                if jobs.is_empty() {
                    let due = self.writer.ring_due();
                    let taken = tokio::select! {
                        biased;
                        taken = self.jobs.recv_many(&mut jobs, MAX_BATCH) => taken,
                        () = until(due) => {
                            self.writer.ring().await;
                            continue;
                        }
                    };
                    if taken == 0 {
                        return;
                    }
                    self.metrics.queue_length.dec_by(taken as i64);
                }
            }
            while jobs.len() < MAX_BATCH
                && let Ok(job) = self.jobs.try_recv()
            {
                self.metrics.queue_length.dec();
                jobs.push(job);
            }
            jobs.retain(|job| !job.caller.is_over());
            match self.board(&mut jobs, &flights) {
                Boarding::Ready(batch) => self.take_off(batch, &mut flights).await,
                Boarding::TooFew(missing) => self.gather(missing, &mut flights).await,
                Boarding::Grounded if !flights.is_empty() => self.land_next(&mut flights).await,
                Boarding::Grounded if jobs.is_empty() => {}
                Boarding::Grounded => self.settle(Batch::of(std::mem::take(&mut jobs))).await,
            }
        }
    }

    /// Gives every job its answer.
    async fn settle(&mut self, Batch { commands, callers }: Batch) {
        self.distrust = self.distrust.saturating_sub(1);
        let result = self.attempt(&commands).await;
        self.conclude(&commands, callers, result).await;
    }

    async fn conclude(
        &mut self,
        commands: &[Command],
        callers: Vec<Waiting>,
        result: Result<Vec<Result<Outcome, Error>>, Failure>,
    ) {
        match result {
            Ok(answers) => Batch::answer(callers, answers),
            Err(failure) if failure.is_outage() => {
                callers.into_iter().for_each(|caller| caller.answer(Err(failure.clone().into_error())));
            }
            Err(failure) => {
                tracing::warn!(error = failure.cause, commands = commands.len(), "a batch was refused");
                self.settle_one_by_one(commands, callers).await;
            }
        }
    }

    /// For a batch that was refused as a whole. An outage ends it for all that are left.
    async fn settle_one_by_one(&mut self, commands: &[Command], callers: Vec<Waiting>) {
        let mut outage: Option<Failure> = None;
        for (command, caller) in commands.iter().zip(callers) {
            if caller.is_over() {
                continue;
            }
            if let Some(failure) = &outage {
                caller.answer(Err(failure.clone().into_error()));
                continue;
            }
            match self.attempt_alone(command).await {
                Ok(answer) => caller.answer(answer),
                Err(failure) => {
                    outage = failure.is_outage().then(|| failure.clone());
                    caller.answer(Err(failure.into_error()));
                }
            }
        }
    }

    async fn attempt_alone(&mut self, command: &Command) -> Result<Result<Outcome, Error>, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.attempt(std::slice::from_ref(command)).await {
                Ok(mut answers) => return Ok(answers.swap_remove(0)),
                Err(failure) if failure.kind == FailureKind::Conflict && tries < MAX_ATTEMPTS => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// One transaction for all of `commands`, by what is remembered if that is still right.
    async fn attempt(&mut self, commands: &[Command]) -> Result<Vec<Result<Outcome, Error>>, Failure> {
        let mut needs = Needs::of(commands);
        if self.alone
            && let Some(recalled) = self.memory.recall(&mut needs)
        {
            match self.transact(commands, &needs, Some(recalled)).await {
                Err(failure) if failure.kind == FailureKind::Outdated => {}
                result => return result,
            }
            let result = self.transact(commands, &Needs::of(commands), None).await;
            self.alone = false;
            return result;
        }
        self.transact(commands, &needs, None).await
    }

    /// The same without anything that is remembered, if the feed is there.
    async fn attempt_at(
        &mut self,
        mark: Mark,
        commands: &[Command],
    ) -> Result<Vec<Result<Outcome, Error>>, Failure> {
        let nothing = Recalled { mark, dossiers: Vec::new() };
        self.transact(commands, &Needs::of(commands), Some(nothing)).await
    }

    async fn transact(
        &mut self,
        commands: &[Command],
        needs: &Needs,
        recalled: Option<Recalled>,
    ) -> Result<Vec<Result<Outcome, Error>>, Failure> {
        let started = Instant::now();
        let rulebook = self.rulebook.clone();
        let deliberate = |set| deliberate(&rulebook, set, commands);
        let result = match &mut self.writer {
            Writer::Postgres(writer) => writer.commit(needs, recalled, deliberate).await,
            Writer::Sqlite(writer) => writer.commit(needs, recalled, deliberate),
        };
        let took = started.elapsed();
        let Committed { verdicts: Verdicts { set, answers }, found, left } = match result {
            Ok(committed) => committed,
            Err(failure) => {
                self.memory.clear();
                self.count_failure(&failure, took);
                return Err(failure);
            }
        };
        self.measure(commands, &set, &answers, took);
        let about: BTreeSet<ResourceId> = commands.iter().filter_map(boarding::subject).collect();
        self.alone = self.memory.learn(&rulebook.catalog, about, set, (found, left));
        Ok(answers)
    }

    /// To find that something is otherwise than it was remembered is part of the work, and no trouble of the database.
    fn count_failure(&self, failure: &Failure, took: Duration) {
        if !matches!(failure.kind, FailureKind::Outdated | FailureKind::NameTaken) {
            self.metrics.failed("commit", failure.error_type(), took);
        }
    }

    /// Counts a batch that was committed, and tells those who follow.
    fn measure(
        &self,
        commands: &[Command],
        set: &WorkingSet,
        answers: &[Result<Outcome, Error>],
        took: Duration,
    ) {
        let real = commands.iter().zip(answers).filter(|(command, _)| !command.dry_run);
        self.metrics.fleet.committed(set, real.map(|(_, answer)| answer));
        self.metrics.batch_size.observe(commands.len() as f64);
        self.metrics.commit_duration.observe(took.as_secs_f64());
        self.metrics.succeeded("commit", took);
        if !set.changes().is_empty() {
            self.feed.tell(set.version());
        }
    }
}

impl Writer {
    /// When other replicas are to be told of what was committed, if no commit did. An embedded database has none.
    fn ring_due(&self) -> Option<Instant> {
        match self {
            Self::Postgres(writer) => writer.ring_due(),
            Self::Sqlite(_) => None,
        }
    }

    /// Tells them, if they were not told by a commit.
    async fn ring(&mut self) {
        if let Self::Postgres(writer) = self {
            writer.ring().await;
        }
    }

    /// Forgets whatever was half done.
    fn reset(&mut self) {
        match self {
            Self::Postgres(writer) => writer.reset(),
            Self::Sqlite(writer) => writer.reset(),
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Decides the commands one after the other, each on what the ones before it left.
fn deliberate(rulebook: &Rulebook, mut set: WorkingSet, commands: &[Command]) -> Verdicts {
    let now = Timestamp::now();
    let answers = commands
        .iter()
        .map(|command| {
            // A rule only reads the set, so a panic inside leaves nothing half done.
            let decision = catch_unwind(AssertUnwindSafe(|| match answered(rulebook, &set, command, now) {
                Some(again) => again.map(Err),
                None => decide(rulebook, &set, command, now).map(Ok),
            }));
            let decision = match decision.unwrap_or_else(|_| Err(Error::internal("a rule panicked")))? {
                Ok(decision) => decision,
                Err(again) => return Ok(again),
            };
            if command.dry_run {
                return Ok(set.rehearse(decision));
            }
            let outcome = set.apply(decision, &command.caller, now);
            if let Some(retry) = &command.retry {
                set.keep_answer(retry, &outcome, now);
            }
            Ok(outcome)
        })
        .collect();
    audit(set.changes());
    warn_of_left_out(&set);
    Verdicts { set, answers }
}

/// A rule that fails costs its condition, not the report. Only the log and a metric tell.
fn warn_of_left_out(set: &WorkingSet) {
    for left_out in set.left_out() {
        tracing::warn!(
            resource_type = &*left_out.subject.kind,
            resource_id = %left_out.subject.id,
            condition = left_out.failure.kind,
            error = left_out.failure.cause,
            "a mapped condition is left out"
        );
    }
}

/// Force-deletes go to the log before they are done, so that no crash and no caller that hangs up
/// can keep them out of it.
fn audit(changes: &[Change]) {
    let list = |ids: &[ResourceId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    for change in changes {
        for entry in change.entries.iter().filter(|entry| entry.action == Action::ForceDeleted) {
            tracing::warn!(
                actor = change.actor,
                request_id = change.request_id,
                resource_type = &*change.kind,
                resource_id = %change.resource,
                reason = entry.reason,
                removed = list(&entry.removed),
                dropped_references_of = list(&entry.dropped_references_of),
                "force-delete"
            );
        }
    }
}
