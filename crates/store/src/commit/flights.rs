//! Flights: batches for which nothing has to be read, on their way to PostgreSQL. While one is being committed the next
//! is decided and sent, so that the committer and the database work at the same time.
//!
//! A flight is decided on what the one before it will leave, and the database carries it out only if that one was
//! committed. What a flight is about is lent to it until it lands, so a command about the same resource waits for it
//! on the ground, as does, with everyone behind it, a command that [may not board](boarding). Whatever goes wrong is put
//! right when nothing is in the air any more.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use futures_util::poll;
use hyperfleet_core::rules::{Outcome, WorkingSet};
use hyperfleet_core::{Error, IdSet, Intent, ResourceId};

use super::{Batch, Failure, FailureKind, Job, MAX_BATCH, Task, Verdicts, Writer, boarding, deliberate};
use crate::memory::Mark;

/// One is carried out, one waits for it to end, one is being decided. More would only wait for the one session that
/// carries them out.
const MAX_FLIGHTS: usize = 3;

/// A flight that would find nothing in the air takes no more than this: while a large batch is decided, the database
/// would have nothing to do.
const FIRST: usize = 96;

/// Which part of the crowd a flight must carry while another is in the air. A batch costs the database several reports
/// more than the reports in it, and small ones beget small ones: those who are answered come back as few as they were.
const WORTH: usize = 3;

/// For how many batches names are not trusted to be free after one was not: who asks for one that is taken will soon ask
/// again, and each time the whole flight fails.
const DISTRUST: usize = 64;

/// How fast the crowd is forgotten, by which part of it each time.
const FORGOTTEN: usize = 16;

/// What is in the air, in the order in which it lands, and what has failed since there was nothing.
#[derive(Default)]
pub(super) struct Flights {
    in_the_air: VecDeque<Flight>,
    failed: Vec<Failed>,
}

/// A batch that was not committed, or of which nobody knows.
pub(super) struct Failed {
    batch: Batch,
    failure: Failure,
    /// Where it expected the feed.
    found: Mark,
}

struct Flight {
    about: IdSet,
    commands: usize,
    changes: bool,
    journey: Pin<Box<dyn Future<Output = Landed> + Send>>,
}

struct Landed {
    about: IdSet,
    found: Mark,
    batch: Batch,
    set: WorkingSet,
    answers: Vec<Result<Outcome, Error>>,
    started: Instant,
    result: Result<(), Failure>,
}

/// What can be done with the jobs that wait.
pub(super) enum Boarding {
    /// These can be sent now.
    Ready(Vec<Job>),
    /// Nothing, as long as something is in the air.
    Grounded,
    /// So many more would be worth a flight.
    TooFew(usize),
}

impl Flights {
    pub(super) fn is_empty(&self) -> bool {
        self.in_the_air.is_empty()
    }

    /// Takes out the batches that failed.
    pub(super) fn failed(&mut self) -> Vec<Failed> {
        std::mem::take(&mut self.failed)
    }

    fn has_room(&self) -> bool {
        self.in_the_air.len() < MAX_FLIGHTS && self.failed.is_empty()
    }

    fn is_about(&self, id: ResourceId) -> bool {
        self.in_the_air.iter().any(|flight| flight.about.contains(&id))
    }
}

impl Task {
    /// Takes those of `jobs` that can be sent out of it.
    pub(super) fn board(&mut self, jobs: &mut Vec<Job>, flights: &Flights) -> Boarding {
        let connected = matches!(&self.writer, Writer::Postgres(writer) if writer.is_connected());
        let is_ready = connected && self.alone && self.memory.is_oriented();
        if !is_ready || !flights.has_room() || (jobs.is_empty() && flights.is_empty()) {
            return Boarding::Grounded;
        }
        let in_the_air: usize = flights.in_the_air.iter().map(|flight| flight.commands).sum();
        self.crowd = (self.crowd - self.crowd / FORGOTTEN).max(jobs.len() + in_the_air);
        let enough = if flights.is_empty() { 1 } else { (self.crowd / WORTH).max(1) };
        if jobs.len() < enough {
            return Boarding::TooFew(enough - jobs.len());
        }
        let mut boards = Vec::with_capacity(jobs.len());
        let mut seats = if flights.is_empty() { FIRST } else { MAX_BATCH };
        for job in jobs.iter() {
            if seats == 0 {
                break;
            }
            let command = &job.command;
            let Some(subject) = boarding::subject(command) else { return Boarding::Grounded };
            let free = !flights.is_about(subject)
                && !boarding::owners(command).flatten().any(|owner| flights.is_about(owner));
            let (catalog, trusts_names) = (&self.rulebook.catalog, self.distrust == 0);
            if free && !boarding::may_board(&self.memory, catalog, command, subject, trusts_names) {
                return Boarding::Grounded;
            }
            boards.push(free);
            seats -= usize::from(free);
        }
        let mut boards = boards.into_iter();
        let boarding: Vec<Job> = jobs.extract_if(.., |_| boards.next() == Some(true)).collect();
        if boarding.is_empty() { Boarding::Grounded } else { Boarding::Ready(boarding) }
    }

    /// Decides a batch and sends it.
    pub(super) async fn take_off(&mut self, jobs: Vec<Job>, flights: &mut Flights) {
        let started = Instant::now();
        let batch = Batch::of(jobs);
        let about_one = |command| boarding::owners(command).flatten().chain(boarding::subject(command));
        let about: IdSet = batch.commands.iter().flat_map(about_one).collect();
        let Writer::Postgres(writer) = &mut self.writer else { return };
        let Some(recalled) = self.memory.lend(&about) else { return };
        let found = recalled.mark;
        let Verdicts { set, answers } = deliberate(&self.rulebook, recalled.into_set(), &batch.commands);
        self.memory.expect(found.after(&set));
        let predicted = flights.in_the_air.iter().any(|flight| flight.changes);
        let (commands, changes) = (batch.commands.len(), !set.is_unchanged());
        let sent = writer.send(set, found, predicted);
        let mut journey = Box::pin({
            let about = about.clone();
            async move {
                let (set, result) = sent.await;
                Landed { about, found, batch, set, answers, started, result }
            }
        });
        if let Poll::Ready(landed) = poll!(&mut journey) {
            // It never left, and the session may be in any state: nothing may follow.
            while !flights.is_empty() {
                self.land_next(flights).await;
            }
            return self.land(landed, flights);
        }
        flights.in_the_air.push_back(Flight { about, commands, changes, journey });
        // The connection is driven by a task of the same thread: it must get to write before the next is decided.
        tokio::task::yield_now().await;
    }

    /// Waits for the first flight to land.
    pub(super) async fn land_next(&mut self, flights: &mut Flights) {
        if let Some(flight) = flights.in_the_air.front_mut() {
            let landed = flight.journey.as_mut().await;
            flights.in_the_air.pop_front();
            self.land(landed, flights);
        }
    }

    /// Waits until `missing` more jobs are there, or the first flight lands.
    pub(super) async fn gather(&mut self, missing: usize, flights: &mut Flights) {
        let Some(flight) = flights.in_the_air.front_mut() else { return };
        let doorbell = self.doorbell.clone();
        doorbell.ask_for(missing);
        if self.jobs.len() < missing {
            tokio::select! {
                landed = flight.journey.as_mut() => {
                    flights.in_the_air.pop_front();
                    self.land(landed, flights);
                }
                () = doorbell.rung() => {}
            }
        }
        doorbell.ask_for(usize::MAX);
    }

    fn land(&mut self, landed: Landed, flights: &mut Flights) {
        let Landed { about, found, batch, mut set, answers, started, result } = landed;
        let took = started.elapsed();
        self.distrust = self.distrust.saturating_sub(1);
        match result {
            Ok(()) => {
                if let Writer::Postgres(writer) = &mut self.writer {
                    writer.reached(set.version());
                }
                self.measure(&batch.commands, &set, &answers, took);
                let left = found.after(&set);
                self.memory.take_back(&about, &mut set, (found, left));
                Batch::answer(batch.callers, answers);
            }
            Err(mut failure) => {
                self.count_failure(&failure, took);
                if let Writer::Postgres(writer) = &mut self.writer {
                    writer.may_not_have_rung();
                }
                // Those behind a name that is taken were decided on what did not come to be. Nobody else need have written.
                let first = flights.failed.first().map(|failed| failed.failure.kind);
                if failure.kind == FailureKind::Outdated && first == Some(FailureKind::NameTaken) {
                    failure.kind = FailureKind::NameTaken;
                }
                match failure.kind {
                    FailureKind::NameTaken => {
                        self.memory.write_off(&about);
                        if first.is_none() {
                            self.memory.expect(found);
                            self.distrust = DISTRUST;
                        }
                    }
                    FailureKind::Outdated => self.memory.clear(),
                    _ => {
                        self.memory.clear();
                        self.writer.reset();
                    }
                }
                flights.failed.push(Failed { batch, failure, found });
            }
        }
    }

    /// Gives every job of a flight that failed its answer.
    pub(super) async fn settle_after(&mut self, Failed { batch, failure, found }: Failed) {
        let (again, lost) = match failure.kind {
            FailureKind::Outdated | FailureKind::NameTaken => (batch, Batch::default()),
            // While the feed is where it was it cannot have been committed.
            FailureKind::Unavailable => match self.attempt_at(found, &batch.commands).await {
                Ok(answers) => return Batch::answer(batch.callers, answers),
                // A report changes nothing when it is taken in again; of anything else nobody knows.
                Err(_) => batch.split(|command| matches!(command.intent, Intent::Report(_))),
            },
            _ => (Batch::default(), batch),
        };
        if !again.is_empty() {
            let result = self.attempt(&again.commands).await;
            self.alone &= failure.kind == FailureKind::NameTaken;
            self.conclude(&again.commands, again.callers, result).await;
        }
        if !lost.is_empty() {
            self.conclude(&lost.commands, lost.callers, Err(failure)).await;
        }
    }
}
