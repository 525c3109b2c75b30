//! A view of the fleet at one time: counts by phase and kind, rows, failing adapters.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use hyperfleet_core::Timestamp;

use super::entry::Entry;
use super::{Model, ReconciliationPhase};

/// In which order resources are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::commands::top) enum Sort {
    #[default]
    Time,
    Phase,
    Name,
    Kind,
}

impl Sort {
    pub(in crate::commands::top) fn next(self) -> Self {
        match self {
            Self::Time => Self::Phase,
            Self::Phase => Self::Name,
            Self::Name => Self::Kind,
            Self::Kind => Self::Time,
        }
    }

    pub(in crate::commands::top) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Phase => "phase",
            Self::Name => "name",
            Self::Kind => "kind",
        }
    }
}

/// Order, filter and size of a view.
#[derive(Debug, Clone, Default)]
pub(in crate::commands::top) struct ViewOptions {
    pub(in crate::commands::top) sort: Sort,
    pub(in crate::commands::top) reversed: bool,
    /// Only resources with this text in kind, name, owner, phase or reason.
    pub(in crate::commands::top) filter: String,
    /// Include reconciled resources.
    pub(in crate::commands::top) all: bool,
    /// No more rows than this.
    pub(in crate::commands::top) rows: usize,
}

/// The fleet at one time.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands::top) struct View {
    pub(in crate::commands::top) total: usize,
    /// How many there are of each kind.
    pub(in crate::commands::top) kinds: Vec<(String, usize)>,
    /// In the order of [`ReconciliationPhase::ALL`].
    pub(in crate::commands::top) phases: [usize; 5],
    /// Changes per second of late.
    pub(in crate::commands::top) rate: f64,
    /// Changes in each of the last [`HISTORY`] seconds, oldest first.
    pub(in crate::commands::top) history: Vec<u64>,
    pub(in crate::commands::top) rows: Vec<Row>,
    /// How many rows there would be without a limit.
    pub(in crate::commands::top) matching: usize,
    pub(in crate::commands::top) adapters: Vec<Adapter>,
    pub(in crate::commands::top) is_complete: bool,
}

/// A resource in the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands::top) struct Row {
    pub(in crate::commands::top) kind: String,
    /// With its owner's name before it.
    pub(in crate::commands::top) name: String,
    pub(in crate::commands::top) phase: ReconciliationPhase,
    pub(in crate::commands::top) generation: i64,
    pub(in crate::commands::top) lasts: Duration,
    /// The reason why it is not reconciled.
    pub(in crate::commands::top) why: String,
}

/// The failures of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands::top) struct Adapter {
    pub(in crate::commands::top) name: String,
    /// Resources on which it fails now.
    pub(in crate::commands::top) failing: usize,
    /// How often it began to fail since the view was opened.
    pub(in crate::commands::top) setbacks: u64,
}

impl View {
    /// The fleet at this time.
    pub(super) fn of(model: &Model, options: &ViewOptions, now: Timestamp) -> Self {
        let mut phases = [0; 5];
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut failing: BTreeMap<&str, usize> =
            model.setbacks.keys().map(|adapter| (adapter.as_str(), 0)).collect();
        let mut rows: Vec<(&Entry, ReconciliationPhase)> = Vec::new();
        let filter = options.filter.to_lowercase();
        for entry in model.entries.values() {
            let phase = entry.phase(now, model.stuck_after);
            *kinds.entry(&entry.kind).or_default() += 1;
            if let Some(at) = ReconciliationPhase::ALL.iter().position(|one| *one == phase) {
                phases[at] += 1;
            }
            for adapter in &entry.failing {
                *failing.entry(adapter).or_default() += 1;
            }
            if (options.all || phase != ReconciliationPhase::Reconciled) && fits(model, entry, phase, &filter)
            {
                rows.push((entry, phase));
            }
        }
        let matching = rows.len();
        let in_order = |a: &(&Entry, ReconciliationPhase), b: &(&Entry, ReconciliationPhase)| {
            in_order(model, options, *a, *b)
        };
        // Of many thousands of rows only some dozens are shown.
        if options.rows > 0 && options.rows < matching {
            rows.select_nth_unstable_by(options.rows - 1, in_order);
        }
        rows.truncate(options.rows);
        rows.sort_unstable_by(in_order);
        let rows = rows.into_iter().map(|(entry, phase)| Row {
            kind: entry.kind.clone(),
            name: match full_name(model, entry) {
                (owner, "") => owner.to_owned(),
                (owner, name) => format!("{owner}/{name}"),
            },
            phase,
            generation: entry.generation,
            lasts: entry.lasts(now),
            why: entry.why.clone(),
        });
        let mut adapters: Vec<Adapter> = failing
            .into_iter()
            .map(|(name, failing)| Adapter {
                name: name.to_owned(),
                failing,
                setbacks: model.setbacks.get(name).copied().unwrap_or_default(),
            })
            .collect();
        adapters.sort_by_key(|adapter| std::cmp::Reverse((adapter.failing, adapter.setbacks)));
        Self {
            total: model.entries.len(),
            kinds: kinds.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
            phases,
            rate: model.rate(now),
            history: model.history(now),
            rows: rows.collect(),
            matching,
            adapters,
            is_complete: model.is_complete,
        }
    }
}

/// The direction of each order: the longest and the worst first, names ascending.
fn in_order(
    model: &Model,
    options: &ViewOptions,
    (a, a_phase): (&Entry, ReconciliationPhase),
    (b, b_phase): (&Entry, ReconciliationPhase),
) -> Ordering {
    let by_time = || a.since_micros().cmp(&b.since_micros());
    let by_kind = || a.kind.cmp(&b.kind);
    let by_name = || full_name(model, a).cmp(&full_name(model, b));
    let order = match options.sort {
        Sort::Time => by_time().then_with(by_kind).then_with(by_name),
        Sort::Phase => b_phase.cmp(&a_phase).then_with(by_time).then_with(by_name),
        Sort::Name => by_name().then_with(by_kind),
        Sort::Kind => by_kind().then_with(by_name),
    };
    if options.reversed { order.reverse() } else { order }
}

fn fits(model: &Model, entry: &Entry, phase: ReconciliationPhase, filter: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(filter);
    let owned = || owner(model, entry).is_some_and(|owner| has(&owner.name));
    filter.is_empty() || entry.words.contains(filter) || has(phase.name()) || owned()
}

fn owner<'a>(model: &'a Model, entry: &Entry) -> Option<&'a Entry> {
    entry.owner.as_ref().and_then(|owner| model.entries.get(owner))
}

/// The name behind its owner's, or alone.
fn full_name<'a>(model: &'a Model, entry: &'a Entry) -> (&'a str, &'a str) {
    owner(model, entry).map_or((&entry.name, ""), |owner| (&owner.name, &entry.name))
}
