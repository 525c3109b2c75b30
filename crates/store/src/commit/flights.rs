//! Flights: batches on their way to PostgreSQL. While one is being committed the next is decided and sent, so that the
//! committer and the database work at the same time.
//!
//! A flight is decided on what the one before it will leave, and the database carries it out only if that one was
//! committed. For reports on what is remembered nothing has to be read; for anything else a [`scout`] looks it up while
//! others are in the air. A command that has a [stake](stakes) in what a flight is about waits for it on the ground, as
//! does, with everyone behind it, one whose stakes are not known. Whatever goes wrong is put right when nothing is in
//! the air any more.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use futures_util::poll;
use hyperfleet_core::rules::{Outcome, WorkingSet};
use hyperfleet_core::{Error, Intent, ResourceId};

use super::scout::{Back, Scout};
use super::stakes::{self, Stake};
use super::{Batch, Failure, FailureKind, Job, MAX_BATCH, Mark, Task, Verdicts, Writer, deliberate};

/// One is carried out, one waits for it to end, one is being decided. More would only wait for the one session that
/// carries them out.
const MAX_FLIGHTS: usize = 3;

/// A flight that would find nothing in the air takes no more than this: while a large batch is decided, the database
/// would have nothing to do.
const FIRST: usize = 48;

/// Which part of the one ahead a flight must be. One that is much smaller would be carried out before there is enough
/// for the next.
const WORTH: usize = 3;

/// While more are ahead, no scout is sent: they would only wait, and those who come later would wait for another.
const SCOUTED_BEHIND: usize = 1;

/// What is in the air, in the order in which it lands; the batch for which a scout is out, and the one whose scout is
/// back; and what did not get through since there was nothing.
#[derive(Default)]
pub(super) struct Flights {
    pub(super) in_the_air: VecDeque<Flight>,
    pub(super) out: Option<Scout>,
    pub(super) back: Option<Back>,
    stranded: Vec<(Batch, Option<Failure>)>,
}

pub(super) struct Flight {
    about: Manifest,
    commands: usize,
    changes: bool,
    /// Where it expects to find the feed.
    pub(super) found: Mark,
    journey: Pin<Box<dyn Future<Output = Landed> + Send>>,
}

/// What a batch is about.
#[derive(Clone)]
pub(super) struct Manifest {
    pub(super) stakes: HashSet<Stake>,
    /// The resources that reports are about.
    pub(super) reported: BTreeSet<ResourceId>,
}

impl Manifest {
    pub(super) fn of(batch: &Batch) -> Self {
        let reported = batch.commands.iter().filter_map(|command| match &command.intent {
            Intent::Report(submit) => ResourceId::parse(&submit.target.id),
            _ => None,
        });
        let stakes = batch.commands.iter().filter_map(stakes::of).flatten();
        Self { stakes: stakes.collect(), reported: reported.collect() }
    }
}

struct Landed {
    about: Manifest,
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
    /// For these something has to be looked up first.
    Unknown(Vec<Job>),
    /// Nothing, as long as something is in the air.
    Grounded,
    /// So many more would be worth a flight.
    TooFew(usize),
}

impl Flights {
    pub(super) fn is_idle(&self) -> bool {
        self.in_the_air.is_empty() && self.out.is_none() && self.back.is_none()
    }

    /// Takes out the batches that did not get through, with what has gone wrong; nothing if they were never sent.
    pub(super) fn stranded(&mut self) -> Vec<(Batch, Option<Failure>)> {
        std::mem::take(&mut self.stranded)
    }

    pub(super) fn strand(&mut self, batch: Batch, failure: Option<Failure>) {
        self.stranded.push((batch, failure));
    }

    /// Whether the batch whose scout is back can be sent.
    pub(super) fn can_depart(&self) -> bool {
        self.back.is_some() && self.in_the_air.len() < MAX_FLIGHTS
    }

    fn hold(&self, stakes: &[Stake]) -> bool {
        let scouted = self.back.iter().map(|back| &back.scout.about);
        let mut abouts = self.in_the_air.iter().map(|flight| &flight.about).chain(scouted);
        abouts.any(|about| stakes.iter().any(|stake| about.stakes.contains(stake)))
    }
}

impl Task {
    /// Takes those of `jobs` that can be sent, or looked up for, out of it.
    pub(super) fn board(&self, jobs: &mut Vec<Job>, flights: &Flights) -> Boarding {
        let connected = matches!(&self.writer, Writer::Postgres(writer) if writer.is_connected());
        let closed = !connected || !self.alone || self.memory.mark().is_none();
        let busy = flights.out.is_some() || !flights.stranded.is_empty();
        if closed || busy || (jobs.is_empty() && flights.is_idle()) {
            return Boarding::Grounded;
        }
        let scouted = flights.back.as_ref().map(|back| back.scout.batch.commands.len());
        let ahead = scouted.or_else(|| flights.in_the_air.back().map(|flight| flight.commands)).unwrap_or(0);
        let enough = (ahead / WORTH).max(1);
        if jobs.len() < enough {
            return Boarding::TooFew(enough - jobs.len());
        }
        let mut boards = Vec::with_capacity(jobs.len());
        let mut seats = if ahead == 0 { FIRST } else { MAX_BATCH };
        let mut known = true;
        for job in jobs.iter() {
            let Some(stakes) = stakes::of(&job.command).filter(|_| seats > 0) else { break };
            let free = !flights.hold(&stakes);
            if free {
                seats -= 1;
                known = known && self.remembers(&job.command.intent);
            }
            boards.push(free);
        }
        let in_the_air = flights.in_the_air.len();
        let fits = match (known, &flights.back) {
            (true, None) => in_the_air < MAX_FLIGHTS,
            // It is next.
            (true, Some(_)) => false,
            (false, back) => in_the_air + usize::from(back.is_some()) <= SCOUTED_BEHIND,
        };
        if !fits || !boards.contains(&true) {
            return Boarding::Grounded;
        }
        let mut boards = boards.into_iter();
        let boarding: Vec<Job> = jobs.extract_if(.., |_| boards.next() == Some(true)).collect();
        if known { Boarding::Ready(boarding) } else { Boarding::Unknown(boarding) }
    }

    fn remembers(&self, intent: &Intent) -> bool {
        let Intent::Report(submit) = intent else { return false };
        let id = ResourceId::parse(&submit.target.id);
        id.is_some_and(|id| self.memory.knows(id, &submit.submission.adapter))
    }

    /// Decides a batch for which everything is remembered, and sends it.
    pub(super) async fn take_off(&mut self, jobs: Vec<Job>, flights: &mut Flights) {
        let started = Instant::now();
        let batch = Batch::of(jobs);
        let about = Manifest::of(&batch);
        match self.memory.lend(&about.reported) {
            Some(recalled) => self.send(batch, about, recalled.into_set(), started, flights).await,
            None => flights.strand(batch, None),
        }
    }

    /// Decides a batch on a set that holds all it needs, as of the newest mark, and sends it.
    pub(super) async fn send(
        &mut self,
        batch: Batch,
        about: Manifest,
        set: WorkingSet,
        started: Instant,
        flights: &mut Flights,
    ) {
        let (Writer::Postgres(writer), Some(found)) = (&self.writer, self.memory.mark()) else {
            return flights.strand(batch, None);
        };
        let Verdicts { set, answers } = deliberate(&self.rulebook, set, &batch.commands);
        let left = found.after(&set);
        self.memory.expect(left);
        flights.out.iter_mut().for_each(|scout| scout.marks.push(left));
        let predicted = flights.in_the_air.iter().any(|flight| flight.changes);
        let (commands, changes) = (batch.commands.len(), !set.is_unchanged());
        let sent = writer.send(set, found, predicted);
        let mut journey = Box::pin({
            let about = about.clone();
            async move {
                let (set, result) = sent.await;
                Landed { about, batch, set, answers, started, result }
            }
        });
        if let Poll::Ready(landed) = poll!(&mut journey) {
            // It never left, and the session may be in any state: nothing may follow.
            while !flights.in_the_air.is_empty() {
                self.land_next(flights).await;
            }
            self.memory.clear();
            self.writer.reset();
            return flights.strand(landed.batch, None);
        }
        flights.in_the_air.push_back(Flight { about, commands, changes, found, journey });
        // The connection is driven by a task of the same thread: it must get to write before the next is decided.
        tokio::task::yield_now().await;
    }

    /// Waits for the first flight to land.
    async fn land_next(&mut self, flights: &mut Flights) {
        if let Some(flight) = flights.in_the_air.front_mut() {
            let landed = flight.journey.as_mut().await;
            flights.in_the_air.pop_front();
            self.land(landed, flights);
        }
    }

    /// Waits until the first flight lands or a scout comes back.
    pub(super) async fn wait(&mut self, flights: &mut Flights) {
        let Flights { in_the_air, out, back, .. } = flights;
        // Only one can be back.
        let awaited = out.as_mut().filter(|_| back.is_none());
        let landed = async {
            match in_the_air.front_mut() {
                Some(flight) => flight.journey.as_mut().await,
                None => std::future::pending().await,
            }
        };
        let found = async {
            match awaited {
                Some(scout) => scout.search.as_mut().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            landed = landed => {
                flights.in_the_air.pop_front();
                self.land(landed, flights);
            }
            found = found => flights.back = flights.out.take().map(|scout| Back { scout, found }),
        }
    }

    /// Waits until `missing` more jobs are there, or something happens.
    pub(super) async fn gather(&mut self, missing: usize, flights: &mut Flights) {
        let doorbell = self.doorbell.clone();
        doorbell.ask_for(missing);
        if self.jobs.len() < missing {
            tokio::select! {
                () = self.wait(flights) => {}
                () = doorbell.rung() => {}
            }
        }
        doorbell.ask_for(usize::MAX);
    }

    fn land(&mut self, landed: Landed, flights: &mut Flights) {
        let Landed { about, batch, set, answers, started, result } = landed;
        let took = started.elapsed();
        match result {
            Ok(()) => {
                self.measure(&batch.commands, &set, &answers, took);
                self.memory.take_in(&self.rulebook.catalog, &about.reported, set);
                Batch::answer(batch.callers, answers);
            }
            Err(failure) => {
                self.memory.clear();
                self.metrics.failed("commit", failure.error_type(), took);
                if failure.kind != FailureKind::Outdated {
                    self.writer.reset();
                }
                flights.strand(batch, Some(failure));
            }
        }
    }

    /// Gives every job of a batch that did not get through its answer.
    pub(super) async fn settle_after(&mut self, failure: Option<Failure>, batch: Batch) {
        let Some(failure) = failure else { return self.settle(batch).await };
        let again = match failure.kind {
            FailureKind::Outdated => true,
            // A report that was committed after all changes nothing when it is taken in again.
            FailureKind::Unavailable => {
                batch.commands.iter().all(|command| matches!(command.intent, Intent::Report(_)))
            }
            _ => false,
        };
        let Batch { commands, callers } = batch;
        let result = if again { self.attempt(&commands).await } else { Err(failure) };
        self.alone = self.alone && !again;
        self.conclude(&commands, callers, result).await;
    }
}
