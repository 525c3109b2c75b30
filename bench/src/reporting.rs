//! The server that takes reports, on one store: every cluster needs four adapters, and all of them have reported
//! success, so that the fleet is reconciled before anything is measured.
//!
//! A fast answer proves nothing by itself. A sample of clusters is read before and after each load: it must show the
//! very last report of each adapter, and an entity tag that moved exactly when the content of reports did.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_testkit::{Client, Launch, Server, Store};
use serde_json::Value;

use crate::load::Connection;
use crate::reports::{ADAPTERS, Moves, Pair, Reporter, Reports};
use crate::subject::{LOADERS, load, process};
use crate::workload::{CLUSTERS, Target, Workload};

/// How many clusters are read again after a load.
const SAMPLE: usize = 16;

/// One store with its server.
#[derive(Debug)]
pub(crate) struct Reporting {
    pub(crate) store: &'static str,
    server: Server,
    reports: Arc<Reports>,
}

impl Reporting {
    /// Starts the server and fills it with `clusters` and their first reports.
    pub(crate) async fn start(
        store: &'static str,
        launch: &Launch,
        at: Store,
        clusters: usize,
    ) -> Result<Self> {
        let adapters = ADAPTERS.join(", ");
        let config = format!(
            "entities:\n  - kind: Cluster\n    plural: clusters\n    required_adapters: [{adapters}]\n"
        );
        let server = launch.clone().config(config).store(at).start().await?;
        let api = server.api();
        let ids = load(&api, clusters).await?;
        let newest = read(&api, ids.last().context("no clusters")?).await?.body;
        let start = newest["created_time"].as_str().context("a cluster without created_time")?;
        let reporting = Self { store, reports: Arc::new(Reports::new(ids, start)?), server };
        reporting.report_first().await?;
        reporting.views().await?;
        Ok(reporting)
    }

    /// Where reports are measured, and with what.
    pub(crate) fn target(&self, moves: Moves) -> Result<Target> {
        let workload = Workload::Reports { moves, reports: Arc::clone(&self.reports) };
        let address = self.server.api().authority().parse()?;
        Ok(Target { address, process: Some(process(&self.server)?), workload })
    }

    async fn report_first(&self) -> Result<()> {
        let loaders: Vec<_> = (0..LOADERS)
            .map(|loader| {
                let (api, mut reporter) =
                    (self.server.api(), self.reports.reporter(Moves::Content, loader, LOADERS));
                tokio::spawn(async move {
                    let mut connection = connect(&api).await?;
                    for pair in reporter.own() {
                        send(&mut connection, &mut reporter, pair).await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for loader in loaders {
            loader.await??;
        }
        Ok(())
    }

    /// A sample of the clusters, spread over all, as they are now.
    pub(crate) async fn views(&self) -> Result<Vec<View>> {
        let clusters = self.reports.ids().len();
        let sample = (0..clusters).step_by(clusters.div_ceil(SAMPLE)).zip((0..ADAPTERS.len()).cycle());
        let mut views = Vec::new();
        for (cluster, adapter) in sample {
            views.push(self.view(Pair { cluster, adapter }).await?);
        }
        Ok(views)
    }

    /// What is not as it must be after a load of such reports, for clusters that were seen before it.
    pub(crate) async fn faults(&self, moves: Moves, before: &[View]) -> Vec<String> {
        let mut faults = Vec::new();
        for view in before {
            if let Err(fault) = self.check(moves, view).await {
                faults.push(format!("cluster {}: {fault:#}", self.reports.ids()[view.pair.cluster]));
            }
        }
        faults
    }

    /// Looks at a cluster again, and once more after one more report.
    async fn check(&self, moves: Moves, before: &View) -> Result<()> {
        let after = self.view(before.pair).await?;
        before.leads_to(&after)?;
        let mut connection = connect(&self.server.api()).await?;
        send(&mut connection, &mut self.reports.reporter(moves, 0, 1), before.pair).await?;
        after.leads_to(&self.view(before.pair).await?)
    }

    async fn view(&self, pair: Pair) -> Result<View> {
        let cluster = read(&self.server.api(), &self.reports.ids()[pair.cluster]).await?;
        self.shows_last(&cluster, pair.cluster)?;
        let run = |adapter| self.reports.last(Pair { adapter, ..pair }).1;
        Ok(View { pair, tag: cluster.tag, runs: std::array::from_fn(run) })
    }

    /// The cluster must be reconciled and show the last report of each adapter, its time included.
    fn shows_last(&self, cluster: &Cluster, number: usize) -> Result<()> {
        let mut times = Vec::new();
        for (adapter, name) in ADAPTERS.into_iter().enumerate() {
            let (time, run) = self.reports.last(Pair { cluster: number, adapter });
            let condition = cluster.condition(&successful(name))?;
            let message = condition["message"].as_str().unwrap_or_default();
            ensure!(condition["last_updated_time"] == *time, "no report of {name} at {time}: {condition}");
            ensure!(message.contains(&run.to_string()), "no run {run} of {name}: {condition}");
            times.push(time);
        }
        let oldest = times.into_iter().min().context("no adapters")?;
        let reconciled = cluster.condition("Reconciled")?;
        ensure!(reconciled["status"] == "True", "not reconciled: {reconciled}");
        ensure!(reconciled["last_updated_time"] == *oldest, "not of {oldest}: {reconciled}");
        Ok(())
    }
}

/// What was seen of a cluster, and the content that its reports had then.
#[derive(Debug)]
pub(crate) struct View {
    /// The cluster, with the adapter that sends one more report when it is checked.
    pair: Pair,
    tag: String,
    runs: [u64; ADAPTERS.len()],
}

impl View {
    /// The entity tag must move exactly when content does.
    fn leads_to(&self, later: &Self) -> Result<()> {
        match (self.tag != later.tag, self.runs != later.runs) {
            (true, false) => bail!("time alone moved the ETag from {} to {}", self.tag, later.tag),
            (false, true) => bail!("a change left the ETag at {}", later.tag),
            _ => Ok(()),
        }
    }
}

/// The condition that tells of an adapter of one word.
fn successful(adapter: &str) -> String {
    let (first, rest) = adapter.split_at(1);
    format!("{}{rest}Successful", first.to_uppercase())
}

async fn connect(api: &Client) -> Result<Connection> {
    Connection::open(api.authority().parse()?).await
}

async fn send(connection: &mut Connection, reporter: &mut Reporter, pair: Pair) -> Result<()> {
    if connection.exchange(reporter.report(pair)).await? != 201 {
        bail!("a report: {}", connection.text());
    }
    Ok(())
}

/// A cluster as the API shows it.
struct Cluster {
    tag: String,
    body: Value,
}

impl Cluster {
    fn condition(&self, kind: &str) -> Result<&Value> {
        let conditions = self.body["status"]["conditions"].as_array();
        conditions
            .and_then(|all| all.iter().find(|condition| condition["type"] == kind))
            .with_context(|| format!("no condition {kind}: {}", self.body["status"]))
    }
}

async fn read(api: &Client, id: &str) -> Result<Cluster> {
    let answer = api.get(&format!("{CLUSTERS}/{id}")).send().await?;
    if answer.status != 200 {
        bail!("reading it: {answer}");
    }
    let tag = answer.header("etag").context("no ETag")?.to_owned();
    Ok(Cluster { tag, body: serde_json::from_slice(&answer.body)? })
}
