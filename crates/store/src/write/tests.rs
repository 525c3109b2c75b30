//! Every command that the committer took is answered, whatever becomes of its batch.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::poll;
use hyperfleet_core::rules::{LoadPlan, Outcome, ReportLimits, Rulebook, WorkingSet};
use hyperfleet_core::{
    AccessScope, Caller, Catalog, Command, Contract, ErrorKind, FeedPosition, Intent, SpecSchemas, Timestamp,
};
use tokio::sync::oneshot;

use super::batch::{Batch, Job};
use super::{CommandResult, Committer, DecidedBatch, Writer};
use crate::database_health::DatabaseHealth;
use crate::failure::{Failure, FailureKind};
use crate::feed::Feed;
use crate::metrics::Metrics;

/// Exceeded only by a failing test.
const DEADLINE: Duration = Duration::from_secs(30);

/// What becomes of a transaction.
enum Step {
    Commit,
    /// Commits once the sender is dropped.
    Wait(oneshot::Receiver<()>),
    Fail(FailureKind),
    Panic,
}

/// A writer that follows a script, and commits when the script has ended.
struct Scripted {
    script: VecDeque<Step>,
    /// The size of each batch.
    sizes: Arc<Mutex<Vec<usize>>>,
    /// Each commit leaves a notification, which is due at once.
    is_pending: bool,
    /// After how many batches each notification was sent by itself.
    notified: Arc<Mutex<Vec<usize>>>,
}

impl Writer for Scripted {
    async fn commit(
        &mut self,
        _: &LoadPlan,
        decide: impl FnOnce(WorkingSet, Timestamp) -> DecidedBatch + Send,
    ) -> Result<DecidedBatch, Failure> {
        let decided = decide(WorkingSet::new(FeedPosition::default()), Timestamp::from_micros(0));
        self.sizes.lock().unwrap().push(decided.answers.len());
        match self.script.pop_front() {
            Some(Step::Fail(kind)) => return Err(Failure::new(kind, "as the script says")),
            Some(Step::Panic) => unreachable!("as the script says"),
            Some(Step::Wait(gate)) => drop(gate.await),
            Some(Step::Commit) | None => {}
        }
        self.is_pending = true;
        Ok(decided)
    }

    fn notification_due(&self) -> Option<Instant> {
        self.is_pending.then(Instant::now)
    }

    async fn notify(&mut self) {
        self.is_pending = false;
        self.notified.lock().unwrap().push(self.sizes.lock().unwrap().len());
    }
}

fn command() -> Command {
    let caller =
        Caller { actor: "me".to_owned(), request_id: "r".to_owned(), scope: AccessScope::everything() };
    Command { caller, dry_run: false, intent: Intent::Recompute(Vec::new()), idempotency: None }
}

struct Stage {
    committer: Committer,
    /// Lets the first transaction commit.
    gate: oneshot::Sender<()>,
    sizes: Arc<Mutex<Vec<usize>>>,
    notified: Arc<Mutex<Vec<usize>>>,
}

impl Stage {
    /// A committer whose first transaction waits, and whose next ones follow the script.
    fn new(script: impl IntoIterator<Item = Step>) -> Self {
        let (gate, waits) = oneshot::channel();
        let script = [Step::Wait(waits)].into_iter().chain(script).collect();
        let (sizes, notified) = <(Arc<Mutex<Vec<usize>>>, Arc<Mutex<Vec<usize>>>)>::default();
        let rulebook = Arc::new(Rulebook {
            catalog: Arc::new(Catalog::new(Vec::new()).unwrap()),
            schemas: SpecSchemas::default(),
            max_member_bytes: 1 << 20,
            report_limits: ReportLimits::default(),
            contract: Contract::Documented,
            legacy_conditions: false,
            tenancy: false,
            href_prefix: "/api/hyperfleet/v1",
        });
        let writer = Scripted { script, sizes: sizes.clone(), is_pending: false, notified: notified.clone() };
        let committer = Committer::start(
            writer,
            &rulebook,
            64,
            &Metrics::default(),
            &Feed::default(),
            &DatabaseHealth::default(),
        )
        .unwrap();
        Self { committer, gate, sizes, notified }
    }

    /// The answers to commands that share the batch behind the first transaction, one with each of these timeouts, and
    /// to one command after them.
    async fn answers(self, timeouts: &[Duration]) -> (Vec<Result<Outcome, ErrorKind>>, Vec<usize>) {
        let Self { committer, gate, sizes, .. } = self;
        let mut first = Box::pin(committer.execute(command(), DEADLINE));
        assert!(poll!(&mut first).is_pending());
        hyperfleet_testkit::eventually("the first transaction waits", DEADLINE, async || {
            (!sizes.lock().unwrap().is_empty()).then_some(())
        })
        .await;
        let mut together: Vec<Pin<Box<_>>> = Vec::new();
        for timeout in timeouts {
            let mut execution = Box::pin(committer.execute(command(), *timeout));
            let polled = poll!(&mut execution);
            // A caller whose timeout is zero goes at once.
            if !timeout.is_zero() {
                assert!(polled.is_pending());
                together.push(execution);
            }
        }
        drop(gate);
        let mut answers = vec![first.await];
        answers.extend(join_all(together).await);
        answers.push(committer.execute(command(), DEADLINE).await);
        let kinds = |answer: CommandResult| answer.map_err(|error| error.kind);
        let sizes = sizes.lock().unwrap().clone();
        (answers.into_iter().map(kinds).collect(), sizes)
    }
}

#[tokio::test]
async fn a_refused_batch_is_retried_one_command_at_a_time() {
    let refused = || Step::Fail(FailureKind::Refused);
    let script = [refused(), Step::Commit, refused(), Step::Commit];
    let (answers, sizes) = Stage::new(script).answers(&[DEADLINE; 3]).await;
    let done = || Ok(Outcome::Done);
    assert_eq!(answers, [done(), done(), Err(ErrorKind::Database), done(), done()]);
    assert_eq!(sizes, [1, 3, 1, 1, 1, 1]);
}

#[tokio::test]
async fn an_outage_is_told_to_the_whole_batch() {
    for (failure, kind) in [
        (FailureKind::Unavailable, ErrorKind::DependencyUnavailable),
        (FailureKind::Timeout, ErrorKind::Timeout),
    ] {
        let (answers, sizes) = Stage::new([Step::Fail(failure)]).answers(&[DEADLINE; 2]).await;
        assert_eq!(answers, [Ok(Outcome::Done), Err(kind.clone()), Err(kind), Ok(Outcome::Done)]);
        assert_eq!(sizes, [1, 2, 1]);
    }
}

#[tokio::test]
async fn an_outage_during_the_retry_is_told_to_the_commands_that_are_left() {
    let script = [Step::Fail(FailureKind::Refused), Step::Commit, Step::Fail(FailureKind::Unavailable)];
    let (answers, sizes) = Stage::new(script).answers(&[DEADLINE; 4]).await;
    let lost = || Err(ErrorKind::DependencyUnavailable);
    let done = || Ok(Outcome::Done);
    assert_eq!(answers, [done(), done(), lost(), lost(), lost(), done()]);
    assert_eq!(sizes, [1, 4, 1, 1, 1]);
}

#[tokio::test]
async fn a_command_alone_is_retried_after_a_conflict_a_few_times() {
    let conflict = || Step::Fail(FailureKind::Conflict);
    let (answers, _) = Stage::new([conflict(), conflict(), conflict()]).answers(&[DEADLINE]).await;
    assert_eq!(answers, [Ok(Outcome::Done), Ok(Outcome::Done), Ok(Outcome::Done)]);
    let always = [conflict(), conflict(), conflict(), conflict()];
    let (answers, _) = Stage::new(always).answers(&[DEADLINE]).await;
    assert_eq!(answers, [Ok(Outcome::Done), Err(ErrorKind::DependencyUnavailable), Ok(Outcome::Done)]);
}

#[tokio::test]
async fn a_panic_costs_its_batch_and_the_committer_goes_on() {
    let (answers, sizes) = Stage::new([Step::Panic]).answers(&[DEADLINE; 2]).await;
    let internal = || Err(ErrorKind::Internal);
    assert_eq!(answers, [Ok(Outcome::Done), internal(), internal(), Ok(Outcome::Done)]);
    assert_eq!(sizes, [1, 2, 1]);
}

#[tokio::test]
async fn a_command_whose_caller_has_gone_is_not_committed() {
    let (answers, sizes) = Stage::new([]).answers(&[Duration::ZERO, DEADLINE]).await;
    assert_eq!(answers, [Ok(Outcome::Done), Ok(Outcome::Done), Ok(Outcome::Done)]);
    assert_eq!(sizes, [1, 1, 1]);
}

#[tokio::test]
async fn commands_that_wait_are_committed_before_a_notification_is_sent_by_itself() {
    let stage = Stage::new([]);
    let (notified, _committer) = (stage.notified.clone(), stage.committer.clone());
    let (_, sizes) = stage.answers(&[DEADLINE; 2]).await;
    assert_eq!(sizes, [1, 2, 1]);
    let first = hyperfleet_testkit::eventually("a notification is sent by itself", DEADLINE, async || {
        notified.lock().unwrap().first().copied()
    });
    assert_ne!(first.await, 1, "the second batch waited behind the notification");
}

#[tokio::test]
async fn a_batch_that_is_dropped_answers_its_callers() {
    let (jobs, answers): (Vec<_>, Vec<_>) = (0..3).map(|_| Job::new(command(), DEADLINE)).unzip();
    drop(Batch::of(jobs));
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap_err().kind, ErrorKind::Internal);
    }
}

#[tokio::test]
async fn a_job_whose_deadline_has_passed_is_answered_with_a_timeout() {
    let (job, answer) = Job::new(command(), Duration::ZERO);
    assert!(Batch::of([job]).commands().is_empty());
    assert_eq!(answer.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
}
