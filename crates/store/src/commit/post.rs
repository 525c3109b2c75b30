//! How answers go back: those of a batch go to each [runtime](PerRuntime) in one sack, and are handed out there. To wake
//! a task on another thread takes a system call; this takes one for a sack.

use hyperfleet_core::Error;
use hyperfleet_core::rules::Outcome;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::per_runtime::{PerRuntime, Way};

/// Sacks that may wait to be handed out.
const SACKS: usize = 64;

pub(super) type Answer = Result<Outcome, Error>;

/// An answer and whom it is for.
type Letter = (oneshot::Sender<Answer>, Answer);

/// The way to those who wait in one runtime.
#[derive(Debug, Clone)]
pub(super) struct Postbox(mpsc::Sender<Vec<Letter>>);

impl Way for Postbox {
    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Postbox {
    /// That of the runtime that asks.
    pub(super) fn here(boxes: &PerRuntime<Self>) -> Self {
        boxes.here(|here| {
            let (postbox, mut sacks) = mpsc::channel(SACKS);
            here.spawn(async move {
                while let Some(sack) = sacks.recv().await {
                    hand_out(sack);
                }
            });
            Self(postbox)
        })
    }
}

/// Answers that are about to leave, by where they go.
#[derive(Default)]
pub(super) struct Post(Vec<(Postbox, Vec<Letter>)>);

impl Post {
    pub(super) fn add(&mut self, postbox: Postbox, reply: oneshot::Sender<Answer>, answer: Answer) {
        match self.0.iter_mut().find(|(other, _)| other.0.same_channel(&postbox.0)) {
            Some((_, sack)) => sack.push((reply, answer)),
            None => self.0.push((postbox, vec![(reply, answer)])),
        }
    }

    pub(super) fn send(self) {
        for (postbox, sack) in self.0 {
            // One that is full will be emptied, but nobody shall wait for that; one that was closed with its runtime
            // may have served for another.
            match postbox.0.try_send(sack) {
                Ok(()) => {}
                Err(TrySendError::Full(sack) | TrySendError::Closed(sack)) => hand_out(sack),
            }
        }
    }
}

fn hand_out(sack: Vec<Letter>) {
    for (reply, answer) in sack {
        // A caller that went away does not need its answer.
        let _ = reply.send(answer);
    }
}
