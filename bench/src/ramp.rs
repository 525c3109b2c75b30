//! The search for the highest rate that holds: up by half until one does not, then between the two.

/// By how much the rate is raised while it holds.
const STEP: f64 = 1.5;
/// How often the span between what held and what did not is halved.
const HALVINGS: u32 = 3;
/// Where it is not worth looking any further down.
const LEAST: f64 = 1.0;

/// What was tried so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ramp {
    held: Option<f64>,
    failed: Option<f64>,
    next: f64,
    halvings: u32,
}

impl Ramp {
    pub(crate) fn from(rate: f64) -> Self {
        Self { held: None, failed: None, next: rate, halvings: 0 }
    }

    /// What to try next, until enough is known.
    pub(crate) fn next(&self) -> Option<f64> {
        (self.halvings <= HALVINGS && self.next >= LEAST).then_some(self.next)
    }

    /// The highest rate that held.
    pub(crate) fn held(&self) -> Option<f64> {
        self.held
    }

    /// Whether the last one held.
    pub(crate) fn record(&mut self, holds: bool) {
        let tried = Some(self.next);
        if holds {
            self.held = tried;
        } else {
            self.failed = tried;
        }
        self.next = match (self.held, self.failed) {
            (Some(held), Some(failed)) => {
                self.halvings += 1;
                (held * failed).sqrt()
            }
            (_, None) => self.next * STEP,
            (None, _) => self.next / 2.0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches where everything up to `limit` holds; gives what was found and after how many trials.
    fn search(start: f64, limit: f64) -> (Option<f64>, u32) {
        let (mut ramp, mut trials) = (Ramp::from(start), 0);
        while let Some(rate) = ramp.next() {
            ramp.record(rate <= limit);
            trials += 1;
        }
        (ramp.held(), trials)
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above() {
        for start in [100.0, 1_000.0, 50_000.0] {
            let (held, trials) = search(start, 7_000.0);
            let held = held.unwrap();
            assert!(held <= 7_000.0 && held > 6_300.0 && trials < 20, "{held} after {trials}");
        }
    }

    #[test]
    fn where_nothing_holds_nothing_is_found() {
        assert_eq!(search(100.0, 0.0).0, None);
    }
}
