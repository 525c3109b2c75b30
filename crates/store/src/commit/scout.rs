//! Scouts: what a batch needs and is not remembered is looked up while others are in the air, over a connection of its
//! own and without a lock.
//!
//! What a scout finds is right if nobody else has written since, which the flight makes sure of when it claims the feed,
//! and if no flight that it may have overtaken touches it, which its stakes rule out. So the feed must be found at a
//! mark that this committer left, or will have left once all is committed that it sent.

use std::pin::Pin;
use std::time::Instant;

use hyperfleet_core::rules::{Needs, WorkingSet};

use super::flights::{Flights, Manifest};
use super::{Batch, Failure, Job, Mark, Task, Writer};
use crate::postgres::outdated;

pub(super) type Found = Result<(Mark, Option<WorkingSet>), Failure>;

/// A batch for which something is looked up.
pub(super) struct Scout {
    pub(super) batch: Batch,
    pub(super) about: Manifest,
    /// Where the feed may be found.
    pub(super) marks: Vec<Mark>,
    pub(super) search: Pin<Box<dyn Future<Output = Found> + Send>>,
    started: Instant,
}

/// A scout with what it found.
pub(super) struct Back {
    pub(super) scout: Scout,
    pub(super) found: Found,
}

impl Task {
    /// Sends a scout.
    pub(super) async fn scout(&mut self, jobs: Vec<Job>, flights: &mut Flights) {
        let started = Instant::now();
        let batch = Batch::of(jobs);
        let about = Manifest::of(&batch);
        let mut needs = Needs::of(&batch.commands);
        let recalled = self.memory.recall(&mut needs).map(|recalled| recalled.dossiers).unwrap_or_default();
        let marks = flights.in_the_air.iter().map(|flight| flight.found).chain(self.memory.mark()).collect();
        let Writer::Postgres(writer) = &mut self.writer else { return flights.strand(batch, None) };
        match writer.look(needs, recalled).await {
            Ok(search) => {
                flights.out = Some(Scout { batch, about, marks, search: Box::pin(search), started });
                // Its questions must leave before anything else is decided.
                if let Some(scout) = &mut flights.out
                    && let std::task::Poll::Ready(found) = futures_util::poll!(&mut scout.search)
                {
                    flights.back = flights.out.take().map(|scout| Back { scout, found });
                }
                tokio::task::yield_now().await;
            }
            Err(_) => flights.strand(batch, None),
        }
    }

    /// Decides the batch whose scout is back, and sends it.
    pub(super) async fn depart(&mut self, flights: &mut Flights) {
        let Some(Back { scout, found }) = flights.back.take() else { return };
        let Scout { batch, about, marks, started, .. } = scout;
        match (found, self.memory.mark()) {
            (Ok((mark, Some(mut set))), Some(newest)) if marks.contains(&mark) => {
                set.move_on_to(newest.version);
                self.send(batch, about, set, started, flights).await;
            }
            (Ok((mark, _)), Some(_)) if !marks.contains(&mark) => {
                self.memory.clear();
                flights.strand(batch, Some(outdated()));
            }
            // It needs the lock, or the connection broke: the ordinary way finds out.
            _ => flights.strand(batch, None),
        }
    }
}
