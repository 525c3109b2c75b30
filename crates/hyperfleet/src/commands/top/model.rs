//! What is known of a fleet, fed by events and asked for views. It holds no more of a resource than the view needs, and
//! reads no clock: whoever feeds it says when.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use hyperfleet_client::{Condition, Resource, Status, WatchEvent};
use hyperfleet_core::Timestamp;

/// How far back the rate of changes is shown, in seconds.
pub(super) const HISTORY: usize = 60;
/// Seconds over which the present rate is taken.
const PRESENT: i64 = 10;
const SUCCESSFUL: &str = "Successful";
const SECOND: i64 = 1_000_000;

/// Where a resource stands, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    Reconciled,
    Reconciling,
    Finalizing,
    Degraded,
    Stuck,
}

impl Phase {
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

/// What is kept of a resource.
#[derive(Debug, Clone)]
struct Known {
    kind: String,
    name: String,
    owner: Option<String>,
    generation: i64,
    is_reconciled: bool,
    is_finalizing: bool,
    /// Since when it is as it is: reconciled or not, or asked to go.
    since: Option<Timestamp>,
    why: String,
    /// Adapters that fail at the present generation.
    failing: Vec<String>,
    /// What a filter looks at, in small letters.
    words: String,
}

/// What is known of a fleet.
#[derive(Debug)]
pub(super) struct Model {
    stuck_after: Duration,
    known: HashMap<String, Known>,
    /// Changes by second, newest last.
    changes: VecDeque<(i64, u64)>,
    /// How often each adapter began to fail somewhere.
    setbacks: BTreeMap<String, u64>,
    /// Whether the present state has been told.
    is_complete: bool,
}

/// In which order resources are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    #[default]
    Time,
    Phase,
    Name,
    Kind,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Time => Self::Phase,
            Self::Phase => Self::Name,
            Self::Name => Self::Kind,
            Self::Kind => Self::Time,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Phase => "phase",
            Self::Name => "name",
            Self::Kind => "kind",
        }
    }
}

/// What somebody wants to see.
#[derive(Debug, Clone, Default)]
pub(super) struct Wish {
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    /// Only what has this in its kind, name, owner, phase or reason.
    pub(super) filter: String,
    /// Also what is reconciled.
    pub(super) all: bool,
    /// No more rows than this.
    pub(super) rows: usize,
}

/// A picture of the fleet at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    pub(super) total: usize,
    /// How many there are of each kind.
    pub(super) kinds: Vec<(String, usize)>,
    /// In the order of [`Phase::ALL`].
    pub(super) phases: [usize; 5],
    /// Changes per second of late.
    pub(super) rate: f64,
    /// Changes in each of the last [`HISTORY`] seconds, oldest first.
    pub(super) history: Vec<u64>,
    pub(super) rows: Vec<Row>,
    /// How many rows there would be without a limit.
    pub(super) matching: usize,
    pub(super) adapters: Vec<Adapter>,
    pub(super) is_complete: bool,
}

/// A resource in the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) kind: String,
    /// With its owner's name before it.
    pub(super) name: String,
    pub(super) phase: Phase,
    pub(super) generation: i64,
    pub(super) lasts: Duration,
    /// Who or what is in the way.
    pub(super) why: String,
}

/// How an adapter is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Adapter {
    pub(super) name: String,
    /// Resources on which it fails now.
    pub(super) failing: usize,
    /// How often it began to fail since the view was opened.
    pub(super) setbacks: u64,
}

impl Model {
    pub(super) fn new(stuck_after: Duration) -> Self {
        Self {
            stuck_after,
            known: HashMap::new(),
            changes: VecDeque::new(),
            setbacks: BTreeMap::new(),
            is_complete: false,
        }
    }

    /// Takes what a watch told.
    pub(super) fn take(&mut self, event: WatchEvent, now: Timestamp) {
        match event {
            WatchEvent::Added { resource, .. } | WatchEvent::Modified { resource, .. } => {
                self.learn(&resource, now);
            }
            WatchEvent::Deleted { resource, .. } => {
                self.count(now);
                self.known.remove(resource.id());
            }
            WatchEvent::Bookmark { .. } => self.is_complete = true,
            WatchEvent::Restart => {
                self.known.clear();
                self.is_complete = false;
            }
        }
    }

    fn learn(&mut self, resource: &Resource, now: Timestamp) {
        let fresh = Known::of(resource);
        let before = self.known.get(resource.id());
        let begun = |adapter: &&String| before.is_none_or(|before| !before.failing.contains(adapter));
        if self.is_complete {
            for adapter in fresh.failing.iter().filter(begun) {
                *self.setbacks.entry(adapter.clone()).or_default() += 1;
            }
            self.count(now);
        }
        self.known.insert(resource.id().to_owned(), fresh);
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

    /// The picture that somebody wants to see.
    pub(super) fn view(&self, wish: &Wish, now: Timestamp) -> View {
        let mut phases = [0; 5];
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut failing: BTreeMap<&str, usize> =
            self.setbacks.keys().map(|adapter| (adapter.as_str(), 0)).collect();
        let mut rows: Vec<(&Known, Phase)> = Vec::new();
        let filter = wish.filter.to_lowercase();
        for known in self.known.values() {
            let phase = known.phase(now, self.stuck_after);
            *kinds.entry(&known.kind).or_default() += 1;
            if let Some(at) = Phase::ALL.iter().position(|one| *one == phase) {
                phases[at] += 1;
            }
            for adapter in &known.failing {
                *failing.entry(adapter).or_default() += 1;
            }
            if (wish.all || phase != Phase::Reconciled) && self.fits(known, phase, &filter) {
                rows.push((known, phase));
            }
        }
        let matching = rows.len();
        let in_order = |a: &(&Known, Phase), b: &(&Known, Phase)| self.in_order(wish, *a, *b);
        // Of many thousands some dozen are seen.
        if wish.rows > 0 && wish.rows < matching {
            rows.select_nth_unstable_by(wish.rows - 1, in_order);
        }
        rows.truncate(wish.rows);
        rows.sort_unstable_by(in_order);
        let rows = rows.into_iter().map(|(known, phase)| Row {
            kind: known.kind.clone(),
            name: match self.full_name(known) {
                (owner, "") => owner.to_owned(),
                (owner, name) => format!("{owner}/{name}"),
            },
            phase,
            generation: known.generation,
            lasts: known.lasts(now),
            why: known.why.clone(),
        });
        let mut adapters: Vec<Adapter> = failing
            .into_iter()
            .map(|(name, failing)| Adapter {
                name: name.to_owned(),
                failing,
                setbacks: self.setbacks.get(name).copied().unwrap_or_default(),
            })
            .collect();
        adapters.sort_by_key(|adapter| std::cmp::Reverse((adapter.failing, adapter.setbacks)));
        View {
            total: self.known.len(),
            kinds: kinds.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
            phases,
            rate: self.rate(now),
            history: self.history(now),
            rows: rows.collect(),
            matching,
            adapters,
            is_complete: self.is_complete,
        }
    }

    /// What has lasted longest and what is worst comes first; names begin at their beginning.
    fn in_order(
        &self,
        wish: &Wish,
        (a, a_phase): (&Known, Phase),
        (b, b_phase): (&Known, Phase),
    ) -> Ordering {
        let by_time = || a.since_micros().cmp(&b.since_micros());
        let by_kind = || a.kind.cmp(&b.kind);
        let by_name = || self.full_name(a).cmp(&self.full_name(b));
        let order = match wish.sort {
            Sort::Time => by_time().then_with(by_kind).then_with(by_name),
            Sort::Phase => b_phase.cmp(&a_phase).then_with(by_time).then_with(by_name),
            Sort::Name => by_name().then_with(by_kind),
            Sort::Kind => by_kind().then_with(by_name),
        };
        if wish.reversed { order.reverse() } else { order }
    }

    fn fits(&self, known: &Known, phase: Phase, filter: &str) -> bool {
        let has = |text: &str| text.to_lowercase().contains(filter);
        let owned = || self.owner(known).is_some_and(|owner| has(&owner.name));
        filter.is_empty() || known.words.contains(filter) || has(phase.name()) || owned()
    }

    fn owner(&self, known: &Known) -> Option<&Known> {
        known.owner.as_ref().and_then(|owner| self.known.get(owner))
    }

    /// The name behind its owner's, or alone.
    fn full_name<'a>(&'a self, known: &'a Known) -> (&'a str, &'a str) {
        self.owner(known).map_or((&known.name, ""), |owner| (&owner.name, &known.name))
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

impl Known {
    fn of(resource: &Resource) -> Self {
        let (generation, is_finalizing) = (resource.generation(), resource.is_finalizing());
        let reconciled = resource.condition("Reconciled");
        let (mut failing, mut troubles) = (Vec::new(), Vec::new());
        for condition in resource.conditions() {
            let Some(adapter) = condition.kind.strip_suffix(SUCCESSFUL).filter(|name| !name.is_empty())
            else {
                continue;
            };
            let fails =
                condition.status == Status::False && condition.observed_generation == Some(generation);
            // Nothing is available any more of what is being removed.
            if fails && !is_finalizing {
                let adapter = adapter_name(adapter);
                troubles.push(format!("{adapter}: {}", condition.reason));
                failing.push(adapter);
            }
        }
        let reason = reconciled.as_ref().map_or("", |condition| condition.reason.as_str());
        let message = reconciled.as_ref().map_or("", |condition| condition.message.as_str());
        let why = if troubles.is_empty() { why(reason, message) } else { troubles.join(", ") };
        let words = [resource.kind(), resource.name(), reason, &why].join("\n").to_lowercase();
        let flipped = reconciled.as_ref().and_then(|condition| condition.last_transition_time);
        Self {
            kind: resource.kind().to_owned(),
            name: resource.name().to_owned(),
            owner: resource.owner().map(|owner| owner.id),
            generation,
            is_reconciled: reconciled.as_ref().is_some_and(Condition::is_true),
            is_finalizing,
            since: resource.deleted_time().or(flipped),
            why,
            failing,
            words,
        }
    }

    fn lasts(&self, now: Timestamp) -> Duration {
        let micros = self.since.map_or(0, |since| now.micros().saturating_sub(since.micros()).max(0));
        Duration::from_micros(micros.unsigned_abs())
    }

    /// For the order by time; what nobody knows the beginning of comes last.
    fn since_micros(&self) -> i64 {
        self.since.map_or(i64::MAX, Timestamp::micros)
    }

    fn phase(&self, now: Timestamp, stuck_after: Duration) -> Phase {
        match self {
            _ if !self.is_reconciled && self.lasts(now) > stuck_after => Phase::Stuck,
            _ if self.is_finalizing => Phase::Finalizing,
            _ if self.is_reconciled => Phase::Reconciled,
            _ if !self.failing.is_empty() => Phase::Degraded,
            _ => Phase::Reconciling,
        }
    }
}

/// What is in the way, shorter than the condition has it: its message ends with who it is about.
fn why(reason: &str, message: &str) -> String {
    match (reason, message.rsplit_once(": ")) {
        ("ReconciledMissingAdapters" | "ReconciledWaitingForChildren", Some((_, awaited))) => {
            format!("waits for {awaited}")
        }
        ("ReconciledAll", _) => String::new(),
        (_, _) if message.is_empty() => reason.to_owned(),
        (_, _) => message.to_owned(),
    }
}

/// `MyAdapter` as it was most likely written: `my-adapter`.
fn adapter_name(kind: &str) -> String {
    let mut name = String::with_capacity(kind.len() + 4);
    for c in kind.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(c.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests;
