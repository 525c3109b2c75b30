//! How long no write was acknowledged, after each fault and by kind of fault.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::faults::{Fault, Kind};
use crate::history::Micros;

/// A fault that has happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) fault: Fault,
    /// When it began.
    pub(crate) at: Micros,
    /// The longest time without an acknowledged write, until the next fault.
    pub(crate) gap: Duration,
    /// The limit for this time.
    pub(crate) limit: Option<Duration>,
    /// When a replica without its database said that it is not ready.
    pub(crate) unready: Option<Duration>,
}

/// Within this time a replica without its database says that it is not ready.
pub(crate) const UNREADY_LIMIT: Duration = Duration::from_secs(3);

impl Measured {
    pub(crate) fn is_missed(&self) -> bool {
        self.stood_still_too_long() || self.is_unready_late()
    }

    fn stood_still_too_long(&self) -> bool {
        self.limit.is_some_and(|limit| self.gap > limit)
    }

    pub(crate) fn is_unready_late(&self) -> bool {
        self.unready.is_some_and(|unready| unready > UNREADY_LIMIT)
    }
}

/// The longest time without an acknowledgement between two moments. If none comes any more, it lasts to the end.
pub(crate) fn longest_gap(acknowledged: &[Micros], from: Micros, to: Micros) -> Duration {
    let mut moments: Vec<Micros> =
        acknowledged.iter().copied().filter(|at| (from..=to).contains(at)).collect();
    moments.extend([from, to]);
    moments.sort_unstable();
    let longest = moments.windows(2).map(|pair| pair[1] - pair[0]).max();
    Duration::from_micros(longest.unwrap_or_default())
}

/// All faults of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) gaps: Vec<Duration>,
    /// How many gaps were too long.
    pub(crate) missed: usize,
}

pub(crate) fn table(measured: &[Measured]) -> Vec<Row> {
    let mut rows: BTreeMap<Kind, Row> = BTreeMap::new();
    for one in measured {
        let kind = one.fault.kind;
        let row = rows.entry(kind).or_insert(Row { kind, gaps: Vec::new(), missed: 0 });
        row.gaps.push(one.gap);
        row.missed += usize::from(one.stood_still_too_long());
    }
    rows.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_begins_with_the_fault_and_ends_with_an_acknowledgement_or_the_window() {
        let gap = |acknowledged: &[Micros]| longest_gap(acknowledged, 100, 200).as_micros();
        assert_eq!(gap(&[10, 99, 130, 140, 201]), 60);
        assert_eq!(gap(&[10, 190]), 90);
        assert_eq!(gap(&[150]), 50);
        assert_eq!(gap(&[]), 100);
    }

    #[test]
    fn a_row_counts_what_was_too_long() {
        let fault = Fault { kind: Kind::Kill, which: 0, hold: Duration::ZERO, offset: 0, cuts: false };
        let gaps = [30, 10, 600].map(Duration::from_millis);
        let measured =
            gaps.map(|gap| Measured { fault, at: 0, gap, limit: fault.kind.limit(), unready: None });
        assert_eq!(table(&measured), [Row { kind: Kind::Kill, gaps: gaps.to_vec(), missed: 1 }]);
    }
}
