//! The clock of all waits and repetitions. It is monotonic, so a machine whose clock is set repeats nothing and misses
//! nothing. Times of the API are moved to it when they are read.

use std::time::Instant;

use hyperfleet_core::Timestamp;

use crate::backoff::later;

/// Clones show the same time.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    begun: Instant,
    /// What the machine's clock showed then.
    time: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { begun: Instant::now(), time: Timestamp::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        later(self.time, self.begun.elapsed())
    }
}
