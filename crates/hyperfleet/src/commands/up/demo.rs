//! `hyperfleet up --demo`: simulated adapters for every kind that requires some, and a fleet that changes. It is
//! created after the start, through the public API, so that nothing waits for it.

mod fleet;

use std::time::Duration;

use clap::{Args, value_parser};
use hyperfleet_adapter::{Parts, Rate, Simulation};
use hyperfleet_api::config::Config;
use hyperfleet_client::Client;
use hyperfleet_events::{Broker, BrokerConfig, Metrics};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::commands::Failure;
use crate::remote::session::duration;

pub(super) use fleet::FIRST;
use fleet::Fleet;

/// The kinds of the demo, unless others are configured.
pub(super) const ENTITIES: &str = "\
- {kind: Cluster, plural: clusters, required_adapters: [validator, dns, network], spec_schema_name: ClusterSpec, name_min_len: 3, name_max_len: 53}
- {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade, required_adapters: [validator, machines], spec_schema_name: NodePoolSpec, name_min_len: 3, name_max_len: 15}
";
/// Time for adapters at shutdown. Simulated work needs none.
const GRACE: Duration = Duration::ZERO;
/// How long a failure of an adapter lasts.
const OUTAGE: Duration = Duration::from_secs(25);
/// Events that each adapter works on at one time: work that only waits costs nothing.
const PARALLELISM: usize = 2_000;
/// Time between two changes of a fleet of the usual size; larger ones change more often.
const USUAL_PACE: Duration = Duration::from_secs(3);
const FASTEST_PACE: Duration = Duration::from_millis(100);
const USUAL_CLUSTERS: u32 = 12;

/// The options of the demo.
#[derive(Debug, Clone)]
pub(super) struct Demo {
    clusters: u32,
    pace: Duration,
    delays: Vec<Setting<Duration>>,
    failing: Vec<Setting<Rate>>,
}

/// A value for one adapter, or for all that have none of their own.
#[derive(Debug, Clone, PartialEq)]
struct Setting<T> {
    adapter: Option<String>,
    value: T,
}

impl<T: Copy> Setting<T> {
    /// `VALUE` or `ADAPTER=VALUE`.
    fn read(text: &str, value: impl Fn(&str) -> Result<T, String>) -> Result<Self, String> {
        match text.split_once('=') {
            Some((adapter, text)) => Ok(Self { adapter: Some(adapter.to_owned()), value: value(text)? }),
            None => Ok(Self { adapter: None, value: value(text)? }),
        }
    }

    /// The value for an adapter: the last one given for it, else the last one for all.
    fn of(all: &[Self], adapter: &str) -> Option<T> {
        let last = |named: Option<&str>| all.iter().rev().find(|one| one.adapter.as_deref() == named);
        last(Some(adapter)).or_else(|| last(None)).map(|one| one.value)
    }
}

/// The flags of the demo.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Run simulated adapters and a fleet that changes, in memory unless --data is given
    #[arg(long)]
    pub(super) demo: bool,
    /// Clusters of the fleet, each with one to three node pools [default: 12]
    #[arg(long = "demo-clusters", value_name = "NUMBER", requires = "demo", value_parser = value_parser!(u32).range(1..=100_000))]
    clusters: Option<u32>,
    /// Time between two changes of the fleet [default: 3s, less for large fleets]
    #[arg(long = "demo-pace", value_name = "DURATION", requires = "demo", value_parser = duration)]
    pace: Option<Duration>,
    /// How long a simulated adapter works, or all of them; may be given again
    #[arg(long = "demo-delay", value_name = "[ADAPTER=]DURATION", requires = "demo", value_parser = |text: &str| Setting::read(text, duration))]
    delays: Vec<Setting<Duration>>,
    /// How many attempts of a simulated adapter fail, or of all of them; may be given again
    #[arg(long = "demo-fail", value_name = "[ADAPTER=]RATE", requires = "demo", value_parser = |text: &str| Setting::read(text, str::parse::<Rate>))]
    failing: Vec<Setting<Rate>>,
}

impl Demo {
    /// The options by the flags.
    pub(super) fn of(flags: Flags) -> Option<Self> {
        let clusters = flags.clusters.unwrap_or(USUAL_CLUSTERS);
        let usual_pace = (USUAL_PACE * USUAL_CLUSTERS / clusters).clamp(FASTEST_PACE, USUAL_PACE);
        let pace = flags.pace.unwrap_or(usual_pace);
        flags.demo.then_some(Self { clusters, pace, delays: flags.delays, failing: flags.failing })
    }

    /// Refuses values for adapters that no kind requires.
    pub(super) fn check(&self, config: &Config) -> Result<(), Failure> {
        let there = adapters(config);
        let named =
            self.delays.iter().map(|one| &one.adapter).chain(self.failing.iter().map(|one| &one.adapter));
        match named.flatten().find(|adapter| !there.iter().any(|(name, _)| name == adapter)) {
            None => Ok(()),
            Some(unknown) => Err(Failure::usage(format!(
                "no kind requires an adapter {unknown:?}; required are {}",
                names(&there)
            ))),
        }
    }

    /// A description for the start message.
    pub(super) fn summary(&self, config: &Config) -> String {
        let adapters = format!("simulated adapters: {}", names(&adapters(config)));
        if has_fleet(config) { format!("{} clusters, and {adapters}", self.clusters) } else { adapters }
    }

    /// The broker that adapters and Sentinel share.
    pub(super) async fn broker(metrics: Metrics) -> Result<Broker, Failure> {
        let mut config = BrokerConfig::memory();
        config.subscriber.parallelism = PARALLELISM;
        Broker::open(&config, metrics).await.map_err(Failure::new)
    }

    /// Runs adapters and fleet until `stop`.
    pub(super) async fn run(self, config: &Config, client: Client, broker: Broker, stop: CancellationToken) {
        let mut parts = JoinSet::new();
        for (name, kinds) in adapters(config) {
            let adapter = Parts {
                simulation: self.simulation(name),
                client: client.clone(),
                broker: broker.clone(),
                kinds: kinds.into_iter().map(str::to_owned).collect(),
                topic: None,
                grace: GRACE,
            };
            let stop = stop.clone();
            parts.spawn(async move {
                if let Err(error) = hyperfleet_adapter::run(adapter, stop, || {}).await {
                    tracing::error!(%error, "a simulated adapter ended");
                }
            });
        }
        if has_fleet(config) {
            let fleet = Fleet::new(client, self.clusters as usize);
            let pace = self.pace;
            parts.spawn(async move {
                stop.run_until_cancelled(fleet.live(pace)).await;
            });
        }
        while parts.join_next().await.is_some() {}
    }

    fn simulation(&self, name: &str) -> Simulation {
        let (delay, percent) = match name {
            "validator" => (400, 2),
            "dns" => (1_500, 5),
            "network" => (3_000, 8),
            "machines" => (5_000, 10),
            _ => (2_000, 5),
        };
        Simulation {
            name: name.to_owned(),
            delay: Setting::of(&self.delays, name).unwrap_or(Duration::from_millis(delay)),
            failing: Setting::of(&self.failing, name).unwrap_or(Rate::percent(percent)),
            outage: OUTAGE,
            seed: fastrand::u64(..),
        }
    }
}

/// Whether there are the kinds that the fleet is made of.
fn has_fleet(config: &Config) -> bool {
    ["Cluster", "NodePool"].iter().all(|kind| config.entities.iter().any(|entity| entity.kind == *kind))
}

/// Every adapter that some kind requires, with those kinds.
fn adapters(config: &Config) -> Vec<(&str, Vec<&str>)> {
    let mut adapters: Vec<(&str, Vec<&str>)> = Vec::new();
    for entity in &config.entities {
        for adapter in &entity.required_adapters {
            match adapters.iter_mut().find(|(name, _)| name == adapter) {
                Some((_, kinds)) => kinds.push(&entity.kind),
                None => adapters.push((adapter, vec![&entity.kind])),
            }
        }
    }
    adapters
}

fn names(adapters: &[(&str, Vec<&str>)]) -> String {
    adapters.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_about_an_adapter_counts_and_else_the_last_about_all() {
        let given = ["1s", "dns=2s", "3s", "dns=4s"].map(|text| Setting::read(text, duration).unwrap());
        assert_eq!(Setting::of(&given, "dns"), Some(Duration::from_secs(4)));
        assert_eq!(Setting::of(&given, "network"), Some(Duration::from_secs(3)));
        assert_eq!(Setting::of(&given[1..2], "network"), None);
        assert!(Setting::read("dns=soon", duration).is_err());
    }
}
