//! The fleet of a demo: now and then one of its resources is changed, labelled, deleted or created. The demo touches
//! only resources with its label and remembers them, so that a change costs the same in a fleet of any size.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use hyperfleet_client::{Client, Collection, Error, ItemPath, ListQuery, PatchKind, Resource};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::output::progress_bar::progress_bar;
use crate::output::{age, dim, message, messages_on_terminal};

/// The first cluster of a demo, which is never deleted.
pub(crate) const FIRST: &str = STARS[0];
/// The label of every resource of the demo.
const LABEL: &str = "demo";
/// Clusters that are made at one time.
const PARALLEL: usize = 16;
/// The time between two rounds of creating missing clusters.
const PAUSE: Duration = Duration::from_secs(1);
/// Fleets from this size on take a while, which is shown.
const LARGE: usize = 200;

const STARS: [&str; 24] = [
    "altair",
    "vega",
    "rigel",
    "deneb",
    "sirius",
    "mira",
    "spica",
    "antares",
    "castor",
    "pollux",
    "capella",
    "procyon",
    "regulus",
    "algol",
    "bellatrix",
    "mintaka",
    "alcor",
    "mizar",
    "electra",
    "maia",
    "atlas",
    "merope",
    "alnitak",
    "hadar",
];
const REGIONS: [&str; 4] = ["eu-west-1", "us-east-1", "ap-south-1", "sa-east-1"];
const VERSIONS: [&str; 5] = ["4.18.9", "4.19.0", "4.19.3", "4.20.0", "4.20.1"];
const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "production"];
const POOLS: [&str; 3] = ["workers", "infra", "gpu"];

/// The clusters of the demo, and the client that changes them.
pub(super) struct Fleet {
    client: Client,
    wanted: usize,
    clusters: Vec<Cluster>,
    /// Numbers whose clusters are to be made.
    missing: BTreeSet<usize>,
    random: fastrand::Rng,
}

/// A cluster that the demo made.
#[derive(Debug)]
struct Cluster {
    /// `None` if an earlier, larger fleet created it.
    number: Option<usize>,
    path: ItemPath,
    pools: Vec<ItemPath>,
}

/// Whether every missing cluster was created.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    Complete,
    Incomplete,
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Create,
    Change,
    Label,
    Delete,
}

/// What to do next with so many clusters, by a chance from 0 up to 1.
fn next(there: usize, wanted: usize, draw: f64) -> Act {
    match draw {
        _ if there == 0 => Act::Create,
        ..0.5 if there < wanted => Act::Create,
        ..0.65 => Act::Change,
        ..0.9 => Act::Label,
        _ if there > wanted / 2 => Act::Delete,
        _ => Act::Change,
    }
}

impl Fleet {
    /// A fleet of this size, before its resources are looked up.
    pub(super) fn new(client: Client, wanted: usize) -> Self {
        Self { client, wanted, clusters: Vec::new(), missing: BTreeSet::new(), random: fastrand::Rng::new() }
    }

    /// Creates missing clusters, then changes the fleet for ever.
    pub(super) async fn live(mut self, pace: Duration) {
        if let Err(error) = self.begin().await {
            tracing::warn!(%error, "the demo's fleet could not be made");
        }
        let mut ticks = tokio::time::interval(pace.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if let Err(error) = self.act().await {
                tracing::debug!(%error, "a change of the demo failed");
            }
        }
    }

    /// Finds the resources of an earlier run, and creates the rest.
    async fn begin(&mut self) -> Result<(), Error> {
        let mut pools: HashMap<String, Vec<ItemPath>> = HashMap::new();
        for pool in self.own("nodepools").await? {
            if let (Some(owner), Some(path)) = (pool.owner(), pool.path()) {
                pools.entry(owner.id).or_default().push(path);
            }
        }
        let mut numbers: HashMap<String, usize> =
            (0..self.wanted).map(|number| (name(number), number)).collect();
        for cluster in self.own("clusters").await? {
            let (number, pools) = (numbers.remove(cluster.name()), pools.remove(cluster.id()));
            let pools = pools.unwrap_or_default();
            self.clusters.extend(cluster.path().map(|path| Cluster { number, path, pools }));
        }
        self.missing.extend(numbers.into_values());
        let (bar, begun) = (progress(self.missing.len()), Instant::now());
        while self.make_missing(&bar).await? == Round::Incomplete {
            tokio::time::sleep(PAUSE).await;
        }
        finished(&bar, &self.clusters, begun.elapsed());
        Ok(())
    }

    /// Creates missing clusters concurrently. A failed one is left for the next round.
    async fn make_missing(&mut self, bar: &ProgressBar) -> Result<Round, Error> {
        let client = &self.client;
        let made = stream::iter(self.missing.clone())
            .map(|number| async move { (number, made(client, number).await) })
            .buffer_unordered(PARALLEL);
        tokio::pin!(made);
        let mut round = Round::Complete;
        while let Some((number, made)) = made.next().await {
            match made {
                Ok(cluster) => {
                    bar.inc(1);
                    self.missing.remove(&number);
                    self.clusters.extend(cluster);
                }
                Err(error) if error.status().is_some_and(|status| (400..429).contains(&status)) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::debug!(%error, "a cluster of the demo has to wait");
                    round = Round::Incomplete;
                }
            }
        }
        Ok(round)
    }

    /// The resources of a kind that the demo created and that still exist.
    async fn own(&self, plural: &str) -> Result<Vec<Resource>, Error> {
        let query = ListQuery {
            search: Some(format!("labels.{LABEL}='true'")),
            page_size: Some(500),
            fields: Some("id,kind,name,href,owner_references".to_owned()),
            ..ListQuery::default()
        };
        self.client.pages(&Collection::of(plural), &query).try_collect().await
    }

    async fn act(&mut self) -> Result<(), Error> {
        match next(self.clusters.len(), self.wanted, self.random.f64()) {
            Act::Create => self.create().await,
            Act::Change => {
                let size = 1 + self.draw(9);
                let version = VERSIONS[self.draw(VERSIONS.len())];
                self.patch(&json!({"spec": {"version": version}}), &json!({"spec": {"replicas": size}})).await
            }
            Act::Label => {
                let environment = ENVIRONMENTS[self.draw(ENVIRONMENTS.len())];
                let patch = json!({"labels": {"environment": environment}});
                self.patch(&patch, &patch).await
            }
            Act::Delete => {
                let at = self.draw(self.clusters.len());
                // The start message names the first cluster, so it is never deleted.
                if self.clusters[at].number == Some(0) {
                    return Ok(());
                }
                let cluster = self.forget(at);
                self.client.delete(&cluster.path, None, false).await.map(drop)
            }
        }
    }

    async fn create(&mut self) -> Result<(), Error> {
        let at = self.draw(self.missing.len());
        let Some(number) = self.missing.iter().nth(at).copied() else { return Ok(()) };
        let made = made(&self.client, number).await?;
        self.missing.remove(&number);
        self.clusters.extend(made);
        Ok(())
    }

    /// Patches a cluster, or one of the pools of one.
    async fn patch(&mut self, cluster: &Value, pool: &Value) -> Result<(), Error> {
        let at = self.draw(self.clusters.len());
        let pools = self.clusters[at].pools.len();
        let which = self.draw(2 * pools);
        let (path, patch) = match self.clusters[at].pools.get(which) {
            Some(path) => (path, pool),
            None => (&self.clusters[at].path, cluster),
        };
        let patched = self.client.patch(path, patch, PatchKind::Merge, None, false).await;
        match patched {
            // The cluster was deleted meanwhile.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                if which < pools {
                    self.clusters[at].pools.swap_remove(which);
                } else {
                    self.forget(at);
                }
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Takes a cluster out, to be made again.
    fn forget(&mut self, at: usize) -> Cluster {
        let cluster = self.clusters.swap_remove(at);
        self.missing.extend(cluster.number);
        cluster
    }

    /// An index below `count`, or 0.
    fn draw(&mut self, count: usize) -> usize {
        self.random.usize(..count.max(1))
    }
}

/// Makes a cluster with its pools; nothing if its name is taken.
async fn made(client: &Client, number: usize) -> Result<Option<Cluster>, Error> {
    let environment = ENVIRONMENTS[number % ENVIRONMENTS.len()];
    let region = REGIONS[number % REGIONS.len()];
    let labels = json!({LABEL: "true", "environment": environment, "region": region});
    let spec = json!({"region": region, "version": VERSIONS[number % VERSIONS.len()]});
    let body = json!({"kind": "Cluster", "name": name(number), "labels": labels, "spec": spec});
    let path = match client.create(&Collection::of("clusters"), &body, false).await {
        Ok(cluster) => Collection::of("clusters").item(cluster.id()),
        Err(error) if error.is_conflict() => return Ok(None),
        Err(error) => return Err(error),
    };
    let below = path.below("nodepools");
    let mut pools = Vec::new();
    for pool in &POOLS[..1 + number % POOLS.len()] {
        let labels = json!({LABEL: "true", "environment": environment, "region": region});
        let spec = json!({"machine": "m6.large", "replicas": 3});
        let body = json!({"kind": "NodePool", "name": pool, "labels": labels, "spec": spec});
        pools.push(below.item(client.create(&below, &body, false).await?.id()));
    }
    Ok(Some(Cluster { number: Some(number), path, pools }))
}

/// The name of the cluster with this number.
fn name(number: usize) -> String {
    match number / STARS.len() {
        0 => STARS[number].to_owned(),
        round => format!("{}-{}", STARS[number % STARS.len()], round + 1),
    }
}

/// How far a large fleet is: a bar on a terminal, else a line at the beginning and at the end.
fn progress(clusters: usize) -> ProgressBar {
    if clusters < LARGE {
        return ProgressBar::hidden();
    }
    if !messages_on_terminal() {
        message(&format!("Creating {clusters} clusters with their node pools."));
    }
    progress_bar("Creating the fleet", clusters)
}

fn finished(bar: &ProgressBar, clusters: &[Cluster], took: Duration) {
    if bar.position() >= LARGE as u64 {
        let pools: usize = clusters.iter().map(|cluster| cluster.pools.len()).sum();
        message(&dim(&format!(
            "{} clusters with {pools} node pools are there, after {}.",
            clusters.len(),
            age::span(took)
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_fleet_keeps_its_size_and_changes_more_than_it_deletes() {
        assert_eq!(next(12, 12, 0.1), Act::Change);
        assert_eq!(next(12, 12, 0.7), Act::Label);
        assert_eq!(next(12, 12, 0.95), Act::Delete);
        assert_eq!(next(11, 12, 0.1), Act::Create);
        assert_eq!(next(6, 12, 0.95), Act::Change, "half of the fleet always stays");
        assert_eq!(next(0, 12, 0.9), Act::Create);
    }

    #[test]
    fn every_name_is_another_one_that_the_api_takes() {
        let names: BTreeSet<String> = (0..1_000).map(name).collect();
        assert_eq!(names.len(), 1_000);
        assert!(names.iter().all(|name| (3..=53).contains(&name.len())));
    }
}
