//! The model of a fleet: watch events go in, views come out. It holds no more of a resource than a view needs, and reads
//! no clock: callers pass the time.

mod entry;
mod view;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use hyperfleet_client::{Resource, WatchEvent};
use hyperfleet_core::Timestamp;

use entry::Entry;
#[cfg(test)]
pub(super) use view::{Adapter, Row, Sort};
pub(super) use view::{View, ViewOptions};

/// How far back the rate of changes is shown, in seconds.
pub(super) const HISTORY: usize = 60;
/// Seconds over which the present rate is taken.
const PRESENT: i64 = 10;
const SECOND: i64 = 1_000_000;

/// The phase of a resource, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ReconciliationPhase {
    Reconciled,
    Reconciling,
    Finalizing,
    Degraded,
    Stuck,
}

impl ReconciliationPhase {
    pub(super) const ALL: [Self; 5] =
        [Self::Reconciled, Self::Reconciling, Self::Degraded, Self::Finalizing, Self::Stuck];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reconciled => "Reconciled",
            Self::Reconciling => "Reconciling",
            Self::Finalizing => "Finalizing",
            Self::Degraded => "Degraded",
            Self::Stuck => "Stuck",
        }
    }
}

/// The resources of a fleet. A pause shows a copy.
#[derive(Debug, Clone)]
pub(super) struct Model {
    stuck_after: Duration,
    entries: HashMap<String, Entry>,
    /// Changes by second, newest last.
    changes: VecDeque<(i64, u64)>,
    /// How often each adapter began to fail somewhere.
    setbacks: BTreeMap<String, u64>,
    /// Whether the initial state is complete.
    is_complete: bool,
}

impl Model {
    pub(super) fn new(stuck_after: Duration) -> Self {
        Self {
            stuck_after,
            entries: HashMap::new(),
            changes: VecDeque::new(),
            setbacks: BTreeMap::new(),
            is_complete: false,
        }
    }

    /// Takes an event of the watch.
    pub(super) fn take(&mut self, event: WatchEvent, now: Timestamp) {
        match event {
            WatchEvent::Added { resource, .. } | WatchEvent::Modified { resource, .. } => {
                self.learn(&resource, now);
            }
            WatchEvent::Deleted { resource, .. } => {
                self.count(now);
                self.entries.remove(resource.id());
            }
            WatchEvent::Bookmark { .. } => self.is_complete = true,
            WatchEvent::Restart => {
                self.entries.clear();
                self.is_complete = false;
            }
        }
    }

    /// The fleet at this time.
    pub(super) fn view(&self, options: &ViewOptions, now: Timestamp) -> View {
        View::of(self, options, now)
    }

    fn learn(&mut self, resource: &Resource, now: Timestamp) {
        let fresh = Entry::of(resource);
        let before = self.entries.get(resource.id());
        let begun = |adapter: &&String| before.is_none_or(|before| !before.failing.contains(adapter));
        if self.is_complete {
            for adapter in fresh.failing.iter().filter(begun) {
                *self.setbacks.entry(adapter.clone()).or_default() += 1;
            }
            self.count(now);
        }
        self.entries.insert(resource.id().to_owned(), fresh);
    }

    fn count(&mut self, now: Timestamp) {
        let second = now.micros().div_euclid(SECOND);
        match self.changes.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => self.changes.push_back((second, 1)),
        }
        while self.changes.len() > HISTORY + 1 {
            self.changes.pop_front();
        }
    }

    fn history(&self, now: Timestamp) -> Vec<u64> {
        let newest = now.micros().div_euclid(SECOND);
        let mut history = vec![0; HISTORY];
        for (second, count) in &self.changes {
            let back = usize::try_from(newest - second).unwrap_or_default();
            if back < HISTORY {
                history[HISTORY - 1 - back] = *count;
            }
        }
        history
    }

    fn rate(&self, now: Timestamp) -> f64 {
        let newest = now.micros().div_euclid(SECOND);
        let late = self.changes.iter().filter(|(second, _)| newest - second < PRESENT);
        late.map(|(_, count)| *count).sum::<u64>() as f64 / PRESENT as f64
    }
}

#[cfg(test)]
mod tests;
