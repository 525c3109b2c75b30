//! Servers on one database that holds a fleet of clusters. The fleet is made through the API: many requests at a time
//! share commits, so a hundred thousand clusters with four reports each take about a minute.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::{Client, Database, Launch, Postgres, Server, Store};
use serde_json::Value;

use crate::connection::Connection;
use crate::pgbench;
use crate::process;
use crate::reports::{ADAPTERS, Change, Reports};
use crate::workload::{CLUSTERS, Servers, Signature, Workload, cluster, request};

/// Connections that make a fleet.
const LOADERS: usize = 64;
/// Clusters with the label of few, and clusters without reports where there are some.
pub(crate) const FEW: usize = 10;

/// What a fleet consists of.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    /// The PostgreSQL server for a new database; SQLite without it.
    pub(crate) postgres: Option<&'a Postgres>,
    /// Servers on the database; SQLite has one.
    pub(crate) replicas: usize,
    pub(crate) clusters: usize,
    /// How many of [`ADAPTERS`] a cluster needs.
    pub(crate) adapters: usize,
    pub(crate) reported: Reported,
    /// More configuration.
    pub(crate) config: String,
    /// Headers of all requests that make the fleet.
    pub(crate) headers: String,
}

/// The clusters on which all adapters have reported success.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reported {
    None,
    All,
    /// All but [`FEW`].
    Most,
}

/// The names of both stores, with PostgreSQL where it is the store.
pub(crate) fn stores(postgres: &Postgres) -> [(&'static str, Option<&Postgres>); 2] {
    [("sqlite", None), ("postgresql", Some(postgres))]
}

impl<'a> Plan<'a> {
    pub(crate) fn new(postgres: Option<&'a Postgres>, clusters: usize) -> Self {
        let (config, headers) = (String::new(), String::new());
        Self { postgres, replicas: 1, clusters, adapters: 1, reported: Reported::None, config, headers }
    }

    fn is_reported(&self, number: usize) -> bool {
        match self.reported {
            Reported::None => false,
            Reported::All => true,
            Reported::Most => number % (self.clusters / FEW) != 2,
        }
    }
}

/// A running fleet. The fields are dropped in this order: servers before their database.
pub(crate) struct Fleet<'a> {
    servers: Vec<Server>,
    database: Option<Database>,
    postgres: Option<&'a Postgres>,
    pub(crate) ids: Arc<[String]>,
    pub(crate) reports: Arc<Reports>,
    /// The size on disk of the empty database.
    empty: u64,
    /// The size of the fleet on disk as its reports left it, and after VACUUM, in bytes.
    pub(crate) size_before_vacuum: u64,
    pub(crate) size_after_vacuum: u64,
}

impl<'a> Fleet<'a> {
    /// Starts the servers and makes the fleet.
    pub(crate) async fn start(launch: &Launch, plan: &Plan<'a>) -> Result<Self> {
        let database = match plan.postgres {
            Some(postgres) => Some(postgres.database().await),
            None => None,
        };
        let store = database.as_ref().map_or(Store::Sqlite, |database| Store::Postgres(database.url()));
        let adapters = ADAPTERS[..plan.adapters].join(", ");
        let config = format!(
            "{}entities:\n  - {{kind: Cluster, plural: clusters, required_adapters: [{adapters}]}}\n",
            plan.config
        );
        let launch = launch.clone().store(store).config(config);
        let mut servers = Vec::new();
        // The first server migrates the database, so they start one after the other.
        for _ in 0..plan.replicas {
            servers.push(launch.clone().start().await?);
        }
        let nobody = Reports::new(Arc::default(), 0, NO_TIME, |_| false)?;
        let mut fleet = Self {
            servers,
            database,
            postgres: plan.postgres,
            ids: Arc::default(),
            reports: Arc::new(nobody),
            empty: 0,
            size_before_vacuum: 0,
            size_after_vacuum: 0,
        };
        fleet.empty = fleet.size()?;
        fleet.fill(plan).await?;
        Ok(fleet)
    }

    async fn fill(&mut self, plan: &Plan<'a>) -> Result<()> {
        let mut clusters = self.create(plan).await?;
        clusters.sort_unstable_by_key(|cluster| cluster.number);
        let newest = clusters.iter().map(|cluster| cluster.created_time.clone()).max();
        self.ids = clusters.into_iter().map(|cluster| cluster.id).collect();
        let (ids, start) = (Arc::clone(&self.ids), newest.context("a fleet without clusters")?);
        let is_reported = |number| plan.is_reported(number);
        self.reports = Arc::new(Reports::new(ids, plan.adapters, &start, is_reported)?);
        self.report_first(&plan.headers).await?;
        self.size_before_vacuum = self.size()?;
        if self.postgres.is_some() {
            self.execute("VACUUM ANALYZE")?;
        }
        self.size_after_vacuum = self.size()?;
        Ok(())
    }

    async fn create(&self, plan: &Plan<'a>) -> Result<Vec<Created>> {
        let addresses = self.addresses()?;
        let loaders: Vec<_> = (0..LOADERS)
            .map(|loader| {
                let (address, total) = (addresses[loader % addresses.len()], plan.clusters);
                let headers = plan.headers.clone();
                tokio::spawn(async move {
                    let mut connection = Connection::open(address).await?;
                    let mut created = Vec::new();
                    for number in (loader..total).step_by(LOADERS) {
                        let (environment, team) = labels(number, total);
                        let body = cluster(&name(number), environment, team);
                        let request =
                            request(&format!("POST {CLUSTERS}"), &headers, "application/json", &body);
                        let status = connection.exchange(&request).await?;
                        ensure!(status == 201, "creating a cluster: {}", connection.text());
                        created.push(Created::parse(number, connection.body())?);
                    }
                    Ok(created)
                })
            })
            .collect();
        let mut created = Vec::with_capacity(plan.clusters);
        for loader in loaders {
            created.extend(loader.await??);
        }
        Ok(created)
    }

    /// Sends the first report of every pair, so that no measured report is the first of its kind.
    async fn report_first(&self, headers: &str) -> Result<()> {
        let addresses = self.addresses()?;
        let signature = Signature::new([headers.to_owned()]);
        let loaders: Vec<_> = (0..LOADERS)
            .map(|loader| {
                let mut reporter = self.reports.reporter(Change::Content, loader, LOADERS);
                let (address, signature) = (addresses[loader % addresses.len()], signature.clone());
                tokio::spawn(async move {
                    let mut connection = Connection::open(address).await?;
                    let mut request = Vec::new();
                    for pair in reporter.pairs() {
                        signature.sign(loader, reporter.report(pair), &mut request);
                        let status = connection.exchange(&request).await?;
                        ensure!(status == 201, "a first report: {}", connection.text());
                    }
                    Ok(())
                })
            })
            .collect();
        for loader in loaders {
            loader.await??;
        }
        Ok(())
    }

    /// A client of a replica; numbers go round the replicas.
    pub(crate) fn api(&self, number: usize) -> Client {
        self.servers[number % self.servers.len()].api()
    }

    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>> {
        self.servers.iter().map(|server| Ok(server.api().authority().parse()?)).collect()
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(self.addresses()?[0]).await
    }

    /// All replicas as the target of a load.
    pub(crate) fn target(&self, workload: Workload) -> Result<Servers> {
        let processes = self.servers.iter().map(|server| server.pid().context("the server has ended"));
        Ok(Servers { addresses: self.addresses()?, processes: processes.collect::<Result<_>>()?, workload })
    }

    /// The first replica.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.servers[0]
    }

    /// The memory of all replicas, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let pids = self.servers.iter().map(|server| server.pid().context("the server has ended"));
        pids.map(|pid| process::resident(pid?)).sum()
    }

    /// Runs SQL statements in the fleet's PostgreSQL database.
    pub(crate) fn execute(&self, sql: &str) -> Result<String> {
        let (postgres, database) =
            self.postgres.zip(self.database.as_ref()).context("the fleet is on SQLite")?;
        pgbench::execute(postgres, database, sql)
    }

    /// The size on disk without that of the empty database, in bytes.
    fn size(&self) -> Result<u64> {
        let size = match self.postgres.zip(self.database.as_ref()) {
            Some((postgres, database)) => pgbench::size(postgres, database)?,
            None => fs::metadata(self.servers[0].directory().join("hyperfleet.db"))?.len(),
        };
        Ok(size.saturating_sub(self.empty))
    }
}

/// A time for reports on no clusters.
const NO_TIME: &str = "2000-01-01T00:00:00.000000Z";

/// A new cluster.
struct Created {
    number: usize,
    id: String,
    created_time: String,
}

impl Created {
    fn parse(number: usize, body: &[u8]) -> Result<Self> {
        let body: Value = serde_json::from_slice(body)?;
        let text =
            |member: &str| body[member].as_str().map(str::to_owned).with_context(|| format!("no {member}"));
        Ok(Self { number, id: text("id")?, created_time: text("created_time")? })
    }
}

/// The name of the cluster with this number.
pub(crate) fn name(number: usize) -> String {
    format!("cluster-{number}")
}

/// A quarter of the clusters has the environment `production`, [`FEW`] have the team `few`.
fn labels(number: usize, clusters: usize) -> (&'static str, &'static str) {
    let environment = if number.is_multiple_of(4) { "production" } else { "staging" };
    let team = if number % (clusters / FEW).max(1) == 1 { "few" } else { "fleet" };
    (environment, team)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_has_as_many_of_each_label_and_without_reports_as_its_queries_expect() {
        for clusters in [10_000, 100_000] {
            let plan = Plan { reported: Reported::Most, ..Plan::new(None, clusters) };
            let count =
                |matches: &dyn Fn(usize) -> bool| (0..clusters).filter(|number| matches(*number)).count();
            assert_eq!(count(&|number| labels(number, clusters).0 == "production"), clusters / 4);
            assert_eq!(count(&|number| labels(number, clusters).1 == "few"), FEW);
            assert_eq!(count(&|number| !plan.is_reported(number)), FEW);
        }
    }
}
