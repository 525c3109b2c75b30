//! What was found of events: how soon they come, how many go through, and what a Sentinel takes.

use std::fmt::{self, Display};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::findings::verdict;
use crate::found::Found;
use crate::spread::{Better, Measured, median};

/// The broker that goals are set for.
const GOALS_OF: &str = "nats";
/// How late the slowest hundredth of events may be, in milliseconds.
const LATEST: f64 = 100.0;
/// How many events a second a Sentinel shall publish.
const THROUGH: f64 = 5_000.0;
/// What an idle Sentinel may use, in percent of a core, and ask the API, in requests a second.
const IDLE_PERCENT: f64 = 1.0;
const IDLE_REQUESTS: f64 = 1.0;
const MIB: f64 = 1024.0 * 1024.0;

#[derive(Debug)]
struct Delay {
    broker: &'static str,
    rate: f64,
    told: Histogram<u64>,
    /// The p99 of each round, in milliseconds.
    tails: Vec<f64>,
    errors: u64,
}

impl Delay {
    /// In milliseconds.
    fn quantile(&self, quantile: f64) -> f64 {
        milliseconds(&self.told, quantile)
    }
}

fn milliseconds(told: &Histogram<u64>, quantile: f64) -> f64 {
    told.value_at_quantile(quantile) as f64 / 1e3
}

#[derive(Debug)]
struct Burst {
    broker: &'static str,
    clusters: usize,
    rates: Vec<f64>,
    errors: u64,
}

/// What a Sentinel took.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) what: &'static str,
    pub(super) clusters: usize,
    pub(super) cores: f64,
    /// A second.
    pub(super) requests: f64,
    pub(super) bytes: u64,
}

impl Rest {
    fn has_goals(&self) -> bool {
        self.what == "idle"
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Eventing {
    delays: Vec<Delay>,
    bursts: Vec<Burst>,
    pub(super) rests: Vec<Rest>,
}

impl Eventing {
    /// One more round of changes, with how long their events took and how many never came.
    pub(super) fn add_delay(&mut self, broker: &'static str, rate: f64, told: &Histogram<u64>, errors: u64) {
        let tail = milliseconds(told, 0.99);
        match self.delays.iter_mut().find(|delay| delay.broker == broker) {
            Some(delay) => {
                delay.told += told;
                delay.tails.push(tail);
                delay.errors += errors;
            }
            None => self.delays.push(Delay { broker, rate, told: told.clone(), tails: vec![tail], errors }),
        }
    }

    /// One more burst, with how many of its events nobody got.
    pub(super) fn add_burst(&mut self, broker: &'static str, clusters: usize, rate: f64, errors: u64) {
        match self.bursts.iter_mut().find(|burst| burst.broker == broker) {
            Some(burst) => {
                burst.rates.push(rate);
                burst.errors += errors;
            }
            None => self.bursts.push(Burst { broker, clusters, rates: vec![rate], errors }),
        }
    }
}

impl Found for Eventing {
    fn name(&self) -> &'static str {
        "events"
    }

    /// Events that never came.
    fn errors(&self) -> u64 {
        let delays = self.delays.iter().map(|delay| delay.errors);
        delays.chain(self.bursts.iter().map(|burst| burst.errors)).sum()
    }

    fn json(&self) -> Value {
        let delays = self.delays.iter().map(|delay| {
            json!({"broker": delay.broker, "changes_per_second": delay.rate, "p50_ms": delay.quantile(0.5),
                   "p99_ms": delay.quantile(0.99), "errors": delay.errors})
        });
        let bursts = self.bursts.iter().map(|burst| {
            json!({"broker": burst.broker, "clusters": burst.clusters, "events_per_second": median(&burst.rates),
                   "errors": burst.errors})
        });
        let rests = self.rests.iter().map(|rest| {
            json!({"what": rest.what, "clusters": rest.clusters, "core_percent": rest.cores * 100.0,
                   "requests_per_second": rest.requests, "resident_mib": rest.bytes as f64 / MIB})
        });
        json!({"delays": delays.collect::<Vec<_>>(), "bursts": bursts.collect::<Vec<_>>(),
               "sentinel": rests.collect::<Vec<_>>()})
    }

    fn measured(&self) -> Vec<Measured> {
        let well = self.delays.iter().filter(|delay| delay.errors == 0);
        let delays = well.map(|Delay { broker, tails, .. }| {
            Measured::new(format!("event over {broker} p99"), "ms", Better::Less, tails)
        });
        let well = self.bursts.iter().filter(|burst| burst.errors == 0);
        let bursts = well.map(|Burst { broker, rates, .. }| {
            Measured::new(format!("events over {broker}"), "/s", Better::More, rates)
        });
        let rests = self.rests.iter().flat_map(|rest| {
            let name = |figure: &str| format!("Sentinel {} {figure} with {}", rest.what, rest.clusters);
            [
                Measured::new(name("CPU"), "% of a core", Better::Less, &[rest.cores * 100.0]),
                Measured::new(name("requests"), "/s", Better::Less, &[rest.requests]),
                Measured::new(name("memory"), "MiB", Better::Less, &[rest.bytes as f64 / MIB]),
            ]
        });
        delays.chain(bursts).chain(rests).collect()
    }
}

impl Display for Eventing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.delays.is_empty() {
            return Ok(());
        }
        let goal = |broker: &str, errors: u64, goal: String| match errors {
            0 if broker == GOALS_OF => goal,
            0 => String::new(),
            errors => format!("no result: {errors} events never came"),
        };
        writeln!(out, "{:<27} {:>9} {:>8} {:>8}  goal", "change→event", "changes/s", "p50 ms", "p99 ms")?;
        for delay in &self.delays {
            let (p50, p99) = (delay.quantile(0.5), delay.quantile(0.99));
            let goal = goal(delay.broker, delay.errors, format!("≤ {LATEST} {}", verdict(p99 <= LATEST)));
            writeln!(out, "{:<27} {:>9.0} {p50:>8.1} {p99:>8.1}  {goal}", delay.broker, delay.rate)?;
        }
        for burst in &self.bursts {
            let rate = median(&burst.rates);
            let goal = goal(burst.broker, burst.errors, format!("≥ {THROUGH} {}", verdict(rate >= THROUGH)));
            writeln!(
                out,
                "{:<27} {rate:.0} events/s of {} due at once  {goal}",
                burst.broker, burst.clusters
            )?;
        }
        for rest in &self.rests {
            let (percent, requests) = (rest.cores * 100.0, rest.requests);
            let goals = match rest.has_goals() {
                true => format!(
                    "  ≤ {IDLE_PERCENT} % {}, ≤ {IDLE_REQUESTS}/s {}",
                    verdict(percent <= IDLE_PERCENT),
                    verdict(requests <= IDLE_REQUESTS)
                ),
                false => String::new(),
            };
            writeln!(
                out,
                "Sentinel {}, {} clusters: {percent:.2} % of a core, {requests:.2} requests/s, {:.0} MiB{goals}",
                rest.what,
                rest.clusters,
                rest.bytes as f64 / MIB
            )?;
        }
        Ok(())
    }
}
