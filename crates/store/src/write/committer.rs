//! The committer: takes the commands that wait, decides them on one working set, and commits them together.
//!
//! It never waits for more commands, so a lone request pays no delay; under load batches form by themselves. Callers are
//! answered after the commit. A batch that the database refuses is retried one command at a time, a rule that panics
//! costs its own command only, and a committer that panics is started again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use hyperfleet_core::rules::{LoadPlan, Outcome, Rulebook, WorkingSet, decide, replay};
use hyperfleet_core::{Action, Change, Command, Error, ErrorKind, FeedPosition, ResourceId, Timestamp};
use tokio::sync::mpsc;

use super::batch::{Batch, CommandResult, Job, late};
use super::{DecidedBatch, Writer};
use crate::database_health::DatabaseHealth;
use crate::failure::{Failure, FailureKind};
use crate::feed::{Feed, just_restored};
use crate::maintenance::migrations::OpenError;
use crate::metrics::Metrics;

/// The most commands of one commit. Larger batches gain nothing and make every caller wait.
const MAX_BATCH: usize = 256;

/// How often a lone command is tried again after a conflict with another transaction.
const MAX_ATTEMPTS: usize = 3;

/// The queue in front of the one task that writes.
#[derive(Debug, Clone)]
pub(crate) struct Committer {
    queue: mpsc::Sender<Job>,
    metrics: Metrics,
    health: DatabaseHealth,
}

impl Committer {
    /// Starts the committer on a thread with a runtime of its own: the committer and the connection that it drives wake
    /// each other without crossing threads, and a blocking commit delays no request. The thread ends when every
    /// committer is dropped.
    pub(crate) fn start(
        writer: impl Writer,
        rulebook: &Arc<Rulebook>,
        queue_limit: usize,
        metrics: &Metrics,
        feed: &Feed,
        health: &DatabaseHealth,
    ) -> Result<Self, OpenError> {
        let fail = |error: std::io::Error| OpenError::new(format!("cannot start the committer: {error}"));
        let (queue, jobs) = mpsc::channel(queue_limit.max(1));
        let (rulebook, metrics, feed) = (rulebook.clone(), metrics.clone(), feed.clone());
        let task = Task { writer, rulebook, jobs, metrics: metrics.clone(), feed, health: health.clone() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let run = move || runtime.block_on(supervise(task));
        std::thread::Builder::new().name("committer".to_owned()).spawn(run).map_err(fail)?;
        Ok(Self { queue, metrics, health: health.clone() })
    }

    /// Submits a command and waits for its answer.
    pub(crate) async fn execute(&self, command: Command, timeout: Duration) -> CommandResult {
        self.health.check_damage().map_err(Failure::into_error)?;
        let (job, answer) = Job::new(command, timeout);
        // Counted before it is queued, because the committer may take it before this task goes on.
        self.metrics.queue_length.inc();
        if let Err(refused) = self.queue.try_send(job) {
            self.metrics.queue_length.dec();
            let detail = match refused {
                mpsc::error::TrySendError::Full(_) => "Too many writes are waiting. Please try again later.",
                mpsc::error::TrySendError::Closed(_) => "The server is stopping. Please try again.",
            };
            return Err(Error::new(ErrorKind::Overloaded, detail));
        }
        match tokio::time::timeout(timeout, self.health.or_fail(async { Ok(answer.await) })).await {
            Ok(Ok(answer)) => answer.unwrap_or_else(|closed| Err(Error::internal(closed))),
            Ok(Err(failure)) => Err(failure.into_error()),
            Err(_) => Err(late().into_error()),
        }
    }
}

struct Task<W> {
    writer: W,
    rulebook: Arc<Rulebook>,
    jobs: mpsc::Receiver<Job>,
    metrics: Metrics,
    feed: Feed,
    health: DatabaseHealth,
}

/// Runs the task for as long as anyone may submit commands. The callers of a batch that panicked are answered when the
/// batch is dropped.
async fn supervise<W: Writer>(mut task: Task<W>) {
    while AssertUnwindSafe(task.run()).catch_unwind().await.is_err() {
        tracing::error!("the committer failed and is started again");
    }
}

impl<W: Writer> Task<W> {
    async fn run(&mut self) {
        let mut jobs = Vec::with_capacity(MAX_BATCH);
        loop {
            tokio::select! {
                // Commands first: their commit carries a notification that is due.
                biased;
                taken = self.jobs.recv_many(&mut jobs, MAX_BATCH) => {
                    if taken == 0 {
                        return;
                    }
                    self.metrics.queue_length.dec_by(taken as i64);
                    self.commit_batch(Batch::of(jobs.drain(..))).await;
                }
                () = until(self.writer.notification_due()) => self.writer.notify().await,
            }
        }
    }

    /// Commits a batch and answers its callers.
    async fn commit_batch(&mut self, batch: Batch) {
        match self.try_commit(batch.commands()).await {
            Ok(answers) => batch.answer(answers),
            Err(failure) if failure.is_outage() => batch.fail(&failure),
            Err(failure) => {
                tracing::warn!(
                    error = failure.chain(),
                    commands = batch.commands().len(),
                    "a batch was refused"
                );
                self.commit_one_by_one(batch).await;
            }
        }
    }

    /// Commits one command at a time. An outage ends it for all commands that are left.
    async fn commit_one_by_one(&mut self, batch: Batch) {
        let mut outage = None;
        for lone in batch.split() {
            if let Some(failure) = &outage {
                lone.fail(failure);
                continue;
            }
            match self.commit_with_retries(lone.commands()).await {
                Ok(answers) => lone.answer(answers),
                Err(failure) => {
                    lone.fail(&failure);
                    outage = failure.is_outage().then_some(failure);
                }
            }
        }
    }

    async fn commit_with_retries(&mut self, commands: &[Command]) -> Result<Vec<CommandResult>, Failure> {
        let mut attempts = 1;
        loop {
            match self.try_commit(commands).await {
                Err(failure) if failure.kind == FailureKind::Conflict && attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                }
                result => return result,
            }
        }
    }

    /// One transaction for all of `commands`.
    async fn try_commit(&mut self, commands: &[Command]) -> Result<Vec<CommandResult>, Failure> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let started = Instant::now();
        let rulebook = &*self.rulebook;
        let plan = LoadPlan::of(rulebook, commands);
        let (feed, seen) = (&self.feed, self.feed.seen());
        let commit = self.writer.commit(&plan, |set, now| {
            let found = FeedPosition { epoch: set.epoch(), version: set.version() };
            if found.epoch == seen.epoch() && !seen.is_ahead_of(found) {
                return decide_batch(rulebook, set, commands, now);
            }
            feed.wake();
            refuse_all(set, commands)
        });
        let result = commit.await;
        let took = started.elapsed();
        match result {
            Ok(DecidedBatch { set, answers }) => {
                self.publish(commands, &set, &answers, took);
                Ok(answers)
            }
            Err(failure) => {
                self.health.note_damage(&failure);
                self.metrics.failed("commit", failure.error_type(), took);
                Err(failure)
            }
        }
    }

    /// Counts a committed batch, and tells the watchers of this process about it.
    fn publish(
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
            self.feed.announce(set.version());
        }
    }
}

/// A version is given out once in an epoch, and callers are told of which. So nothing is written until the reader of the
/// feed knows the epoch, or has changed it.
fn refuse_all(set: WorkingSet, commands: &[Command]) -> DecidedBatch {
    let answers = commands.iter().map(|_| Err(just_restored())).collect();
    DecidedBatch { set, answers }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Decides the commands one after the other, each on what the commands before it left. `now` is the time of the database.
fn decide_batch(
    rulebook: &Rulebook,
    mut set: WorkingSet,
    commands: &[Command],
    now: Timestamp,
) -> DecidedBatch {
    let answers = commands.iter().map(|command| decide_command(rulebook, &mut set, command, now)).collect();
    log_force_deletes(set.changes());
    log_skipped_conditions(&set);
    DecidedBatch { set, answers }
}

fn decide_command(
    rulebook: &Rulebook,
    set: &mut WorkingSet,
    command: &Command,
    now: Timestamp,
) -> Result<Outcome, Error> {
    // A rule only reads the set, so a panic inside leaves nothing half done.
    let decided = catch_unwind(AssertUnwindSafe(|| match replay(rulebook, set, command, now) {
        Some(replayed) => replayed.map(Err),
        None => decide(rulebook, set, command, now).map(Ok),
    }));
    let decision = match decided.unwrap_or_else(|_| Err(Error::internal("a rule panicked")))? {
        Ok(decision) => decision,
        Err(replayed) => return Ok(replayed),
    };
    if command.dry_run {
        return Ok(set.dry_run(decision));
    }
    let outcome = set.apply(decision, &command.caller, now);
    if let Some(idempotency) = &command.idempotency {
        set.record_idempotency(idempotency, &outcome, now);
    }
    Ok(outcome)
}

/// A rule that fails costs its condition, not the report. The failure is logged and counted.
fn log_skipped_conditions(set: &WorkingSet) {
    for skipped in set.skipped_conditions() {
        tracing::warn!(
            resource_type = &*skipped.subject.kind,
            resource_id = %skipped.subject.id,
            condition = skipped.failure.kind,
            error = skipped.failure.cause,
            "a mapped condition is left out"
        );
    }
}

/// Force-deletes are logged before they are committed, so that neither a crash nor a caller that hangs up can keep them
/// out of the log.
fn log_force_deletes(changes: &[Change]) {
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
