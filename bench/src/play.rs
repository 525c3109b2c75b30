//! The largest fleet that this machine holds: a fleet is played at a rate that is raised until the slowest hundredth
//! takes longer than it may, and then once more for longer at the highest rate that held. What it proves is the rate;
//! that a fleet reports so often when it is so large is arithmetic.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::findings::verdict;
use crate::found::Found;
use crate::lives::{Lives, Plan, ROUND_SECONDS};
use crate::load::{Load, Outcome};
use crate::options::Options;
use crate::pgbench;
use crate::premises::{Premises, fill};
use crate::ramp::Ramp;
use crate::reports::ADAPTERS;
use crate::result::Conclusion;
use crate::spread::{Better, Measured, short};
use crate::workload::{Target, Workload};

/// What the slowest hundredth may take, in milliseconds.
const LATEST: f64 = 100.0;
/// The part of the rate that must really have been reached.
const REACHED: f64 = 0.97;
/// How often the last, long window is tried, each time a little slower.
const LAST_TRIALS: usize = 5;
const LOWER: f64 = 0.9;
/// Goals, for four adapters.
const CLUSTERS: f64 = 5_000_000.0;
const KIB_PER_CLUSTER: f64 = 4.0;
const MIB: f64 = 1024.0 * 1024.0;
/// Clients of PostgreSQL: the pool of one server, and ourselves.
const POOL: usize = 100;

/// What is played.
#[derive(Clone, Debug, Args)]
pub(crate) struct Played {
    /// Clusters that really exist
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(20..))]
    clusters: u32,
    /// Adapters that report on every cluster
    #[arg(long, value_delimiter = ',', default_values_t = ADAPTERS.map(str::to_owned))]
    adapters: Vec<String>,
    /// Connections of the adapters together
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Requests a second to begin with
    #[arg(long, default_value_t = 1_000.0)]
    start: f64,
    /// Length of the last window, at the highest rate that held
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    hold: u64,
    /// `postgresql` or `sqlite`
    #[arg(long, default_value = "postgresql", value_parser = ["postgresql", "sqlite"])]
    store: String,
    /// A running server to play against, HOST:PORT of its API, instead of one of our own. Its clusters must need these
    /// adapters, and it must let everyone in
    #[arg(long, value_name = "HOST:PORT")]
    at: Option<SocketAddr>,
    /// The process of that server, to look at its CPU time and memory
    #[arg(long, requires = "at")]
    pid: Option<u32>,
}

/// Plays, prints and compares.
pub(crate) async fn run(options: &Options, played: &Played) -> Result<()> {
    let connections = usize::from(played.connections).min(usize::try_from(played.clusters)?);
    let plan = Plan {
        clusters: usize::try_from(played.clusters)?,
        adapters: played.adapters.clone(),
        connections,
        calm: false,
    };
    let postgres = pgbench::postgres(options, POOL).await?;
    let settings = json!({
        "clusters": plan.clusters, "adapters": plan.adapters, "connections": plan.connections, "hold": played.hold,
    });
    let conclusion = Conclusion::prepare(options, &postgres, settings)?;
    let mut found = Steady { clusters: plan.clusters, adapters: plan.adapters.len(), ..Steady::default() };
    if let Some(address) = played.at {
        let lives = Arc::new(Lives::new(&plan));
        fill(&lives, address).await?;
        let target = Target { address, process: played.pid, workload: Workload::Lives(Arc::clone(&lives)) };
        found.place = format!("a running server at {address}");
        found.play(options, played, &lives, &target, None)?;
    } else {
        let store = if played.store == "sqlite" { "sqlite" } else { "postgresql" };
        let premises = Premises::start(store, &options.launch()?, &postgres, &plan).await?;
        let lives = Arc::clone(&premises.lives);
        let target = premises.target(Workload::Lives(Arc::clone(&lives)))?;
        found.place = store.to_owned();
        found.play(options, played, &lives, &target, Some(&premises))?;
    }
    conclusion.draw(&[&found])
}

/// One window.
#[derive(Debug)]
struct Window {
    wanted: f64,
    reports: f64,
    outcome: Outcome,
    /// Cores that the database used, where that is known.
    database: Option<f64>,
}

impl Window {
    fn holds(&self) -> bool {
        self.outcome.errors == 0
            && self.outcome.tail() <= LATEST
            && self.outcome.rate() >= self.wanted * REACHED
    }

    fn line(&self) -> String {
        let cores = |cores: Option<f64>| cores.map_or_else(|| "?".to_owned(), |cores| format!("{cores:.2}"));
        let used = self.outcome.cores;
        format!(
            "{:>10.0} {:>10.0} {:>10.0} {:>9.1} {:>9.1} {:>7} {:>8} {:>9} {:>6}  {}",
            self.wanted,
            self.outcome.rate(),
            self.reports,
            self.outcome.latency.value_at_quantile(0.5) as f64 / 1e3,
            self.outcome.tail(),
            cores(used.and_then(|used| used.target)),
            cores(self.database),
            cores(used.map(|used| used.generator)),
            self.outcome.errors,
            if self.holds() { "holds" } else { "too much" }
        )
    }
}

const HEAD: &str =
    "    wanted  requests/s  reports/s    p50 ms    p99 ms  server database generator errors  (cores)";

/// What was found.
#[derive(Debug, Default)]
struct Steady {
    place: String,
    clusters: usize,
    adapters: usize,
    windows: Vec<Window>,
    /// The window at the highest rate that held.
    last: Option<Window>,
    /// Bytes on disk for each cluster, after the first reports and per simulated day at the end.
    stored: Option<f64>,
    untidied: Option<f64>,
    /// The largest tables after the first reports, with their indexes, in bytes.
    tables: Vec<(String, u64)>,
    growth: Option<f64>,
    resident: Option<u64>,
}

impl Steady {
    fn play(
        &mut self,
        options: &Options,
        played: &Played,
        lives: &Arc<Lives>,
        target: &Target,
        premises: Option<&Premises<'_>>,
    ) -> Result<()> {
        let clusters = self.clusters as f64;
        self.stored = premises.map(Premises::taken).transpose()?.map(|taken| taken as f64 / clusters);
        self.untidied = premises.map(|premises| premises.untidied as f64 / clusters);
        self.tables = premises.map(Premises::tables).transpose()?.unwrap_or_default();
        let mut ramp = Ramp::from(played.start);
        eprintln!("{HEAD}");
        while let Some(rate) = ramp.next() {
            let held = self.window(rate, options.seconds, lives, target, premises)?
                // What disturbs the machine for a moment shall not decide.
                || self.window(rate, options.seconds, lives, target, premises)?;
            ramp.record(held);
        }
        let mut rate = ramp.held().context("no rate held, however low")?;
        let (mut before, mut reports) = (None, 0);
        for _ in 0..LAST_TRIALS {
            (before, reports) = (premises.map(Premises::taken).transpose()?, lives.reports());
            if self.window(rate, played.hold, lives, target, premises)? {
                break;
            }
            rate *= LOWER;
        }
        let last = self.windows.pop().context("no window")?;
        let rounds = (lives.reports() - reports) as f64 / (clusters * self.adapters as f64);
        let after = premises.map(Premises::taken).transpose()?;
        let days = rounds * ROUND_SECONDS / 86_400.0;
        self.growth =
            after.zip(before).map(|(after, before)| (after as f64 - before as f64) / clusters / days);
        self.resident = last.outcome.held.map(|held| held.end);
        self.last = Some(last);
        Ok(())
    }

    /// Plays one window more; whether its rate holds.
    fn window(
        &mut self,
        rate: f64,
        seconds: u64,
        lives: &Arc<Lives>,
        target: &Target,
        premises: Option<&Premises<'_>>,
    ) -> Result<bool> {
        let window = window(rate, seconds, lives, target, premises)?;
        eprintln!("{}", window.line());
        let holds = window.holds();
        self.windows.push(window);
        Ok(holds)
    }

    /// How many clusters report as often as that, each adapter of each once in a round.
    fn largest(&self) -> Option<f64> {
        let last = self.last.as_ref().filter(|last| last.holds())?;
        Some(last.reports * ROUND_SECONDS / self.adapters as f64)
    }
}

fn window(
    rate: f64,
    seconds: u64,
    lives: &Arc<Lives>,
    target: &Target,
    premises: Option<&Premises<'_>>,
) -> Result<Window> {
    let window = Duration::from_secs(seconds);
    let load = Load { connections: lives.connections(), warm_up: window / 3, window, rate: Some(rate) };
    let whole = (load.warm_up + load.window).as_secs_f64();
    let time = || premises.map(Premises::database_time).transpose().map(Option::flatten);
    let (before, reports) = (time()?, lives.reports());
    let outcome = load.run(target)?;
    let database =
        time()?.zip(before).map(|(after, before)| after.saturating_sub(before).as_secs_f64() / whole);
    // The warm-up is at the same rate, so the part of reports among the requests is that of the whole.
    let reports = (lives.reports() - reports) as f64 / whole;
    Ok(Window { wanted: rate, reports, outcome, database })
}

impl Found for Steady {
    fn name(&self) -> &'static str {
        "fleet"
    }

    /// While the rate is raised a server may well refuse; what counts is that nothing is wrong at the rate that holds.
    fn errors(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.outcome.errors)
    }

    fn json(&self) -> Value {
        let window = |window: &Window| {
            json!({
                "wanted": window.wanted, "requests": window.outcome.rate(), "reports": window.reports,
                "p99_ms": window.outcome.tail(), "errors": window.outcome.errors, "holds": window.holds(),
                "server_cores": window.outcome.cores.and_then(|cores| cores.target),
                "generator_cores": window.outcome.cores.map(|cores| cores.generator),
                "database_cores": window.database,
            })
        };
        json!({
            "place": self.place, "clusters": self.clusters, "adapters": self.adapters,
            "windows": self.windows.iter().map(window).collect::<Vec<_>>(), "last": self.last.as_ref().map(window),
            "largest_fleet": self.largest(), "bytes_per_cluster": self.stored,
            "bytes_per_cluster_before_vacuum": self.untidied,
            "tables": self.tables,
            "growth_per_cluster_and_day": self.growth, "resident": self.resident,
        })
    }

    fn measured(&self) -> Vec<Measured> {
        let mut all = Vec::new();
        let mut keep = |what: &str, unit: &str, better, value: Option<f64>| {
            let name = format!("{} fleet: {what}", self.place);
            all.extend(value.map(|value| Measured::new(name, unit, better, &[value])));
        };
        keep(&format!("largest, played on {}", self.clusters), "clusters", Better::More, self.largest());
        let last = self.last.as_ref().filter(|last| last.holds());
        keep("p99", "ms", Better::Less, last.map(|last| last.outcome.tail()));
        let cores = last.and_then(|last| last.outcome.cores);
        keep("CPU of the server", "cores", Better::Less, cores.and_then(|cores| cores.target));
        keep("CPU of the database", "cores", Better::Less, last.and_then(|last| last.database));
        keep("stored per cluster", "bytes", Better::Less, self.stored);
        keep("stored per cluster before VACUUM", "bytes", Better::Less, self.untidied);
        keep("growth per cluster and day", "bytes", Better::Less, self.growth);
        keep("memory", "MiB", Better::Less, self.resident.map(|bytes| bytes as f64 / MIB));
        all
    }
}

impl Display for Steady {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}: {} clusters, {} adapters each\n{HEAD}", self.place, self.clusters, self.adapters)?;
        for window in self.windows.iter().chain(&self.last) {
            writeln!(out, "{}", window.line())?;
        }
        writeln!(out)?;
        let Some(last) = &self.last else { return Ok(()) };
        if let Some(largest) = self.largest() {
            let goal = match self.adapters {
                4 => format!("  ≥ {CLUSTERS} {}", verdict(largest >= CLUSTERS)),
                _ => String::new(),
            };
            writeln!(out, "largest fleet in steady state        {largest:>12.0} clusters{goal}")?;
            let reports = last.reports;
            writeln!(
                out,
                "  proved: {reports:.0} reports a second on {} clusters; the rest is arithmetic, and as true as the curves\n  \
                 of `growth` are level",
                self.clusters
            )?;
            if let Some(bytes) = self.stored {
                let gib = largest * bytes / MIB / 1024.0;
                writeln!(out, "  its database would take             {gib:>12.1} GiB")?;
            }
        } else {
            writeln!(out, "no rate held in the last, long window")?;
        }
        writeln!(
            out,
            "p99 in the last window               {:>12.1} ms  ≤ {LATEST} {}",
            last.outcome.tail(),
            verdict(last.outcome.tail() <= LATEST)
        )?;
        if let Some(bytes) = self.stored {
            let kib = bytes / 1024.0;
            let goal = verdict(kib <= KIB_PER_CLUSTER);
            writeln!(
                out,
                "database, a cluster with its reports {kib:>12.2} KiB  ≤ {KIB_PER_CLUSTER} {goal}"
            )?;
        }
        if let Some(bytes) = self.untidied {
            writeln!(out, "  before VACUUM                      {:>12.2} KiB", bytes / 1024.0)?;
        }
        for (name, bytes) in &self.tables {
            let kib = *bytes as f64 / 1024.0 / self.clusters as f64;
            writeln!(out, "  {name:<34} {kib:>12.2} KiB")?;
        }
        if let Some(bytes) = self.growth {
            writeln!(out, "database, growth by cluster and day  {:>12} bytes", short(bytes))?;
        }
        if let Some(cores) = last.outcome.cores {
            let of = |cores: Option<f64>| cores.map_or_else(|| "?".to_owned(), |cores| format!("{cores:.2}"));
            let (server, database) = (of(cores.target), of(last.database));
            writeln!(
                out,
                "CPU in the last window               {server:>12} cores, database {database}, generator {:.2}",
                cores.generator
            )?;
        }
        if let Some(bytes) = self.resident {
            writeln!(out, "memory of the server                 {:>12.1} MiB", bytes as f64 / MIB)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;

    fn window(millis: u64, answers: u64, errors: u64) -> Window {
        let mut latency = Histogram::new_with_bounds(1, 10_000_000, 3).unwrap();
        latency.record_n(millis * 1000, answers).unwrap();
        let window = Duration::from_secs(1);
        let outcome = Outcome { latency, window, errors, first_error: None, held: None, cores: None };
        Window { wanted: 1000.0, reports: 900.0, outcome, database: None }
    }

    #[test]
    fn a_rate_holds_when_it_is_reached_in_time_and_without_an_error() {
        assert!(window(50, 990, 0).holds());
        assert!(!window(150, 990, 0).holds() && !window(50, 900, 0).holds() && !window(50, 990, 1).holds());
    }

    #[test]
    fn a_fleet_is_as_large_as_its_reports_are_many() {
        let steady = Steady { adapters: 4, last: Some(window(50, 990, 0)), ..Steady::default() };
        assert_eq!(steady.largest(), Some(405_000.0));
        let text = steady.to_string();
        assert!(text.contains("405000 clusters  ≥ 5000000 MISS"), "{text}");
        assert_eq!(
            Steady { adapters: 4, last: Some(window(50, 990, 1)), ..Steady::default() }.largest(),
            None
        );
    }
}
