//! The rounds of one row, the rounds of its limit, and what the one shall reach of the other.

use hdrhistogram::Histogram;

use crate::load::Outcome;
use crate::memory::Held;
use crate::processor::Cores;
use crate::reports::Moves;
use crate::spread::median;
use crate::workload::{Operation, Verb};

/// From this many connections on, reports have goals.
const MANY: usize = 256;
/// From this many connections on, reads have goals.
const SEVERAL: usize = 32;

/// The rounds of one row of the table.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) store: &'static str,
    pub(crate) operation: Operation,
    pub(crate) connections: usize,
    pub(crate) rates: Vec<f64>,
    /// The p99 of each round, in milliseconds.
    pub(crate) tails: Vec<f64>,
    pub(crate) latency: Histogram<u64>,
    pub(crate) errors: u64,
    /// From the end of the first warm-up to the end of the last round.
    pub(crate) held: Option<Held>,
    pub(crate) cores: Vec<Cores>,
}

impl Samples {
    pub(crate) fn new(store: &'static str, operation: Operation, connections: usize, first: Outcome) -> Self {
        Self {
            store,
            operation,
            connections,
            rates: vec![first.rate()],
            tails: vec![first.tail()],
            errors: first.errors,
            held: first.held,
            cores: first.cores.into_iter().collect(),
            latency: first.latency,
        }
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.rates.push(outcome.rate());
        self.tails.push(outcome.tail());
        self.errors += outcome.errors;
        self.latency += &outcome.latency;
        self.cores.extend(outcome.cores);
        if let (Some(held), Some(newest)) = (&mut self.held, outcome.held) {
            held.end = newest.end;
        }
    }

    /// `postgresql get @32`.
    pub(crate) fn name(&self) -> String {
        format!("{} {} @{}", self.store, self.operation.name(), self.connections)
    }

    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// CPU time that all of the machine takes for one, the generator included, in microseconds.
    pub(crate) fn micros(&self) -> Option<f64> {
        micros(self.cores.iter().map(|cores| Some(cores.busy)), &self.rates)
    }

    /// How many times the median the slowest hundredth takes.
    pub(crate) fn tail(&self) -> f64 {
        self.latency.value_at_quantile(0.99) as f64 / self.latency.value_at_quantile(0.5) as f64
    }

    pub(crate) fn is_report(&self) -> bool {
        matches!(self.operation, Operation::Report(_))
    }

    pub(crate) fn is_report_at_many(&self) -> bool {
        self.is_report() && self.connections >= MANY
    }

    /// The part of its limit that it shall reach, where there is a goal.
    pub(crate) fn goal(&self) -> Option<f64> {
        let goal = match self.operation {
            Operation::Cluster(Verb::Create | Verb::Patch) => Some(0.6),
            Operation::Cluster(Verb::Get) => (self.connections >= SEVERAL).then_some(0.6),
            Operation::Cluster(Verb::List | Verb::AnyPage) => (self.connections >= SEVERAL).then_some(0.5),
            Operation::Report(Moves::Content) => (self.connections >= MANY).then_some(0.9),
            Operation::Report(Moves::Time) => (self.connections >= MANY).then_some(1.5),
        };
        goal.filter(|_| self.store == "postgresql")
    }

    /// The part of PostgreSQL's rate that the same row shall reach on SQLite, where there is a goal.
    pub(crate) fn goal_on_sqlite(&self) -> Option<f64> {
        match self.operation {
            Operation::Cluster(Verb::Get | Verb::List | Verb::AnyPage) => {
                (self.connections >= SEVERAL).then_some(1.0)
            }
            Operation::Report(_) => (self.connections >= MANY).then_some(0.5),
            Operation::Cluster(Verb::Create | Verb::Patch) => None,
        }
    }
}

/// The part of what the generator may use that it used, at the median of some windows.
pub(crate) fn share(cores: &[Cores]) -> Option<f64> {
    let shares: Vec<f64> = cores.iter().map(Cores::share).collect();
    (!shares.is_empty()).then(|| median(&shares))
}

/// What one round of a limit showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    /// Transactions or requests per second.
    pub(crate) rate: f64,
    /// Cores of the machine that did something, where that is known.
    pub(crate) busy: Option<f64>,
}

/// The rounds of one limit.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) connections: usize,
    pub(crate) rates: Vec<f64>,
    /// Where it was the generator that loaded it.
    pub(crate) cores: Vec<Cores>,
    /// Cores of the machine that did something, where that is known.
    pub(crate) busy: Vec<Option<f64>>,
}

impl Limit {
    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// CPU time that the generator takes for one request, in microseconds.
    pub(crate) fn generator_micros(&self) -> Option<f64> {
        micros(self.cores.iter().map(|cores| Some(cores.generator)), &self.rates)
    }

    /// CPU time that all of the machine takes for one.
    pub(crate) fn micros(&self) -> Option<f64> {
        micros(self.busy.iter().copied(), &self.rates)
    }
}

/// CPU time of one request in microseconds, at the median of the windows of which it is known, by the cores that were
/// busy in each and the requests that it had in a second.
fn micros(cores: impl Iterator<Item = Option<f64>>, rates: &[f64]) -> Option<f64> {
    let each: Vec<f64> = cores.zip(rates).filter_map(|(cores, rate)| Some(cores? / rate * 1e6)).collect();
    (!each.is_empty()).then(|| median(&each))
}

/// Names of the limits.
pub(crate) const UPDATE: &str = "pgbench update";
pub(crate) const SELECT: &str = "pgbench select";
pub(crate) const BARE_ONE: &str = "bare get";
pub(crate) const BARE_LIST: &str = "bare list";

/// The limit that an operation is held against. SQLite's writes too: it has no pgbench of its own, and the question
/// is the same, what a durable write costs here.
pub(crate) fn limit_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Cluster(Verb::Create | Verb::Patch) | Operation::Report(_) => UPDATE,
        Operation::Cluster(Verb::Get) => BARE_ONE,
        Operation::Cluster(Verb::List | Verb::AnyPage) => BARE_LIST,
    }
}
