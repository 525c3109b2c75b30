//! Clients of all kinds, which write, report, watch and list while faults happen, and record what they are told.

mod caller;
mod creators;
mod lists;
mod reporters;
mod watchers;
mod writers;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyperfleet_testkit::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;

use caller::{Caller, PATIENCE, Shared, Target};
pub(crate) use lists::{pages, present_version};

use crate::history::{History, View};

/// Where the API lives.
pub(crate) const BASE: &str = "/api/hyperfleet/v1";
/// Writers, which have a replica of their own each and go to another after a failure.
const WRITERS: usize = 12;
/// Clusters that stay, with a counter that many writers increment.
const COUNTERS: usize = 6;
/// Clusters that stay and are reported on only, so that all reports are on one generation.
const QUIET: usize = 3;
/// How much of the load is of each kind, in percent.
const WRITES: u32 = 60;
const CREATIONS: u32 = 10;
const REPORTS: u32 = 30;

/// All clients at work.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) shared: Arc<Shared>,
    clients: JoinSet<()>,
    watchers: JoinSet<()>,
    /// The number of the last client.
    pub(crate) last_client: u16,
}

impl Load {
    /// Creates the counters and starts all clients, with numbers after those of an earlier load. Times count from
    /// `began`.
    pub(crate) async fn start(
        replicas: Vec<Client>,
        began: Instant,
        rate: u32,
        seed: u64,
        last_client: u16,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::new(replicas, began, rate));
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(last_client.into()));
        let mut client = last_client;
        let mut caller = || {
            client += 1;
            Caller::new(&shared, client, random.fork())
        };

        let mut first = caller();
        for _ in 0..COUNTERS {
            let target = cluster_that_stays(&mut first).await?;
            shared.targets().push(target);
        }
        let mut quiet = Vec::new();
        for _ in 0..QUIET {
            quiet.push(cluster_that_stays(&mut first).await?);
        }
        let since = present_version(&shared.replicas[0]).await?;

        let mut clients = JoinSet::new();
        for _ in 0..WRITERS {
            clients.spawn(writers::run(caller()));
        }
        for _ in 0..shared.replicas.len() {
            clients.spawn(creators::run(caller()));
            let caller = caller();
            let quiet = quiet[usize::from(caller.client) % QUIET];
            clients.spawn(reporters::run(caller, quiet));
        }
        clients.spawn(lists::run(caller()));
        clients.spawn(watchers::join_and_leave(caller()));
        let mut watchers = JoinSet::new();
        for view in
            [View::Everything, View::Everything, View::Everything, View::Active, View::Red, View::NodePools]
        {
            watchers.spawn(watchers::follow(caller(), view, since));
        }
        Ok(Self { shared: Arc::clone(&shared), clients, watchers, last_client: client })
    }

    /// Stops all clients but the watchers, which stay for what is still to come.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.shared.stop.send_replace(true);
        ended(&mut self.clients).await
    }

    /// Waits until every watcher has everything up to a version. Returns what was recorded, and how many watchers did not
    /// get there.
    pub(crate) async fn finish(mut self, version: u64, deadline: Duration) -> Result<(History, usize)> {
        self.shared.finish.send_replace(Some(version));
        if let Ok(ended) = tokio::time::timeout(deadline, ended(&mut self.watchers)).await {
            ended?;
        }
        let late = self.watchers.len();
        self.watchers.shutdown().await;
        Ok((std::mem::take(&mut *self.shared.history()), late))
    }
}

/// Waits until all tasks have ended.
async fn ended(tasks: &mut JoinSet<()>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a client ended by a panic")?;
    }
    Ok(())
}

async fn cluster_that_stays(caller: &mut Caller) -> Result<Target> {
    let created = creators::create(caller, None).await;
    let unexpected = || format!("no cluster can be created: {:?}", caller.shared.history().unexpected);
    created.map(|(target, _)| target).with_context(unexpected)
}
