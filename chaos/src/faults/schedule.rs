//! A seeded schedule: the same seed and kinds draw the same faults. Every kind comes once in each round, in an order of its
//! own, so that a short run has met all of them.

use std::time::Duration;

use fastrand::Rng;

use super::{Fault, Kind};

/// How wrong a clock can be, in seconds: minutes, an hour, and more than history is kept for.
const OFFSETS: [i64; 6] = [-3600, -400, 90, 400, 3600, 40 * 86_400];

/// A fault, and the quiet time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) quiet: Duration,
    pub(crate) fault: Fault,
}

/// An endless schedule.
#[derive(Debug)]
pub(crate) struct Schedule {
    random: Rng,
    kinds: Vec<Kind>,
    round: Vec<Kind>,
}

impl Schedule {
    /// A schedule of these kinds, of which there must be one.
    pub(crate) fn new(seed: u64, kinds: &[Kind]) -> Self {
        Self { random: Rng::with_seed(seed), kinds: kinds.to_vec(), round: Vec::new() }
    }

    fn milliseconds(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.u64(range))
    }
}

impl Iterator for Schedule {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.round.is_empty() {
            self.round.clone_from(&self.kinds);
            self.random.shuffle(&mut self.round);
        }
        let kind = self.round.pop()?;
        let quiet = self.milliseconds(500..2500);
        let which = self.random.usize(..6);
        let hold = match kind {
            Kind::Kill | Kind::Sentinel | Kind::Adapter | Kind::Broker => self.milliseconds(0..2000),
            Kind::Restore => self.milliseconds(500..3000),
            Kind::Freeze | Kind::PartitionClients | Kind::Clock | Kind::DiskFull => {
                self.milliseconds(2500..6000)
            }
            // Longer than a replica may take to say that it is not ready.
            Kind::PartitionDatabase => self.milliseconds(4000..7000),
            Kind::Listen | Kind::PostgresFast | Kind::PostgresImmediate => Duration::ZERO,
        };
        let offset = self.random.choice(OFFSETS)?;
        let cuts = self.random.bool();
        Some(Planned { quiet, fault: Fault { kind, which, hold, offset, cuts } })
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        let draw = |seed| Schedule::new(seed, Kind::value_variants()).take(100).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn every_round_has_every_kind_once() {
        let kinds = Kind::value_variants();
        let drawn: Vec<_> = Schedule::new(3, kinds).take(3 * kinds.len()).collect();
        for round in drawn.chunks(kinds.len()) {
            let mut round: Vec<Kind> = round.iter().map(|planned| planned.fault.kind).collect();
            round.sort_unstable();
            assert_eq!(round, kinds);
        }
    }
}
