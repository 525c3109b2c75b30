//! Single requests: creates, gets, patches, pages and reports on SQLite, on PostgreSQL, on three replicas, and in a fleet
//! ten times as large. Each round measures all rows and their limits one after the other.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hyperfleet_testkit::{Launch, Postgres};
use serde_json::Value;

use crate::baseline::{self, Baseline};
use crate::fleet::{Fleet, Plan, Reported};
use crate::load::Outcome;
use crate::options::Options;
use crate::pgbench::{self, Pgbench};
use crate::reports::{ADAPTERS, Change};
use crate::results::{Results, mebibytes};
use crate::stats::median;
use crate::workload::{CLUSTERS, Operation, Workload};

/// Pages from which on two connections seldom read the same one.
const PAGES: usize = 200;
/// How often a server is restarted to measure its start.
const STARTS: usize = 5;
/// How long a server is left alone before its memory counts as idle.
const SETTLE: Duration = Duration::from_secs(1);

/// A deployment to measure.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The store, the number of replicas and the size of the fleet, where they differ from the usual.
    pub(crate) name: String,
    is_postgres: bool,
    replicas: usize,
    clusters: usize,
    operations: &'static [Operation],
    /// Whether only the largest number of connections is measured.
    most_connections_only: bool,
}

const REPORTS: &[Operation] = &[Operation::Report(Change::Content), Operation::Report(Change::Time)];
const GETS_AND_REPORTS: &[Operation] =
    &[Operation::Get, Operation::Report(Change::Content), Operation::Report(Change::Time)];

/// One row of a shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) operation: Operation,
    pub(crate) connections: usize,
}

impl Shape {
    /// The shapes of which any row is wanted.
    pub(crate) fn wanted(options: &Options) -> Vec<Self> {
        let clusters = options.clusters;
        let shape = |name: &str| Self {
            name: name.to_owned(),
            is_postgres: true,
            replicas: 1,
            clusters,
            operations: &Operation::ALL,
            most_connections_only: false,
        };
        let replicated = |replicas| Self { replicas, ..shape(&format!("postgresql x{replicas}")) };
        let sqlite = Self { is_postgres: false, ..shape("sqlite") };
        let brief = |operations, shape| Self { operations, most_connections_only: true, ..shape };
        let large = Self { clusters: 10 * clusters, ..shape(&format!("postgresql of {}", 10 * clusters)) };
        let all = match options.replicas {
            None => vec![
                sqlite,
                shape("postgresql"),
                brief(GETS_AND_REPORTS, replicated(3)),
                brief(REPORTS, large),
            ],
            Some(1) => vec![sqlite, shape("postgresql")],
            Some(replicas) => vec![replicated(replicas)],
        };
        all.into_iter().filter(|shape| !shape.rows(options).is_empty()).collect()
    }

    pub(crate) fn rows(&self, options: &Options) -> Vec<Row> {
        let mut rows = Vec::new();
        for &operation in self.operations {
            let connections = options.connections(operation);
            let skipped = if self.most_connections_only { connections.len() - 1 } else { 0 };
            for connections in connections.into_iter().skip(skipped) {
                let row = Row { operation, connections };
                if options.wants(&self.row_name(row)) {
                    rows.push(row);
                }
            }
        }
        rows
    }

    /// `postgresql get @32`.
    pub(crate) fn row_name(&self, row: Row) -> String {
        format!("{} {} @{}", self.name, row.operation.name(), row.connections)
    }
}

/// The running servers of a shape.
pub(crate) struct Deployment<'a> {
    pub(crate) shape: Shape,
    pub(crate) rows: Vec<Row>,
    /// A reconciled fleet for reads and reports.
    fleet: Option<Fleet<'a>>,
    /// Another one for creates and patches, which would change what reads and reports cost.
    written: Option<Fleet<'a>>,
    /// The tokens of all pages but the first.
    pages: Arc<[String]>,
}

impl<'a> Deployment<'a> {
    pub(crate) async fn start(
        options: &Options,
        shape: Shape,
        launch: &Launch,
        postgres: &'a Postgres,
    ) -> Result<Self> {
        let rows = shape.rows(options);
        let most = rows.iter().map(|row| row.connections).max().unwrap_or(0);
        ensure!(
            shape.clusters * ADAPTERS.len() >= most,
            "--clusters: too few for reports of {most} connections"
        );
        let is_written = |row: &Row| matches!(row.operation, Operation::Create | Operation::Patch);
        let plan = Plan {
            replicas: shape.replicas,
            adapters: ADAPTERS.len(),
            ..Plan::new(shape.is_postgres.then_some(postgres), shape.clusters)
        };
        eprintln!("{}: making {} clusters", shape.name, shape.clusters);
        let (mut fleet, mut written) = (None, None);
        if !rows.iter().all(is_written) {
            fleet = Some(Fleet::start(launch, &Plan { reported: Reported::All, ..plan.clone() }).await?);
        }
        if rows.iter().any(is_written) {
            written = Some(Fleet::start(launch, &plan).await?);
        }
        let pages = match &fleet {
            Some(fleet) if rows.iter().any(|row| row.operation == Operation::AnyPage) => {
                page_tokens(fleet).await?.into()
            }
            _ => Arc::default(),
        };
        Ok(Self { shape, rows, fleet, written, pages })
    }

    /// One window of a row; nothing where the fleet is too small for it.
    pub(crate) async fn measure(&self, options: &Options, row: Row) -> Result<Option<Outcome>> {
        let load = options.load(row.connections);
        let fleet = match row.operation {
            Operation::Create | Operation::Patch => &self.written,
            _ => &self.fleet,
        };
        let Some(fleet) = fleet else { return Ok(None) };
        let workload = match row.operation {
            Operation::Report(change) => return fleet.load_reports(&load, change).await.map(Some),
            Operation::AnyPage if self.pages.len() < PAGES => return Ok(None),
            Operation::Create => Workload::Creates,
            Operation::Get => Workload::Gets(Arc::clone(&fleet.ids)),
            Operation::Patch => Workload::Patches(Arc::clone(&fleet.ids)),
            Operation::Page => Workload::Pages(Arc::default()),
            Operation::AnyPage => Workload::Pages(Arc::clone(&self.pages)),
        };
        load.run(&fleet.target(workload)?).map(Some)
    }
}

/// The tokens of all full pages of twenty but the first.
async fn page_tokens(fleet: &Fleet<'_>) -> Result<Vec<String>> {
    let mut tokens: Vec<String> = Vec::new();
    loop {
        let token = tokens.last().map_or_else(String::new, |token| format!("&pageToken={token}"));
        let page = read(fleet, &format!("{CLUSTERS}?pageSize=20&total=none{token}")).await?.1;
        match page["next_page_token"].as_str() {
            Some(next) => tokens.push(next.to_owned()),
            None => {
                if page["size"] != 20 {
                    tokens.pop();
                }
                return Ok(tokens);
            }
        }
    }
}

/// The size and the content of a body.
async fn read(fleet: &Fleet<'_>, path: &str) -> Result<(usize, Value)> {
    let response = fleet.api(0).get(path).send().await?;
    ensure!(response.status == 200, "GET {path}: {response}");
    Ok((response.body.len(), response.json()))
}

/// The limits that rows are compared with.
struct Limits<'a> {
    pgbench: Pgbench<'a>,
    baseline: Option<Baseline>,
}

impl<'a> Limits<'a> {
    async fn start(postgres: &'a Postgres, deployments: &[Deployment<'_>], clusters: usize) -> Result<Self> {
        let mut baseline = None;
        if let Some(fleet) = deployments.iter().find_map(|deployment| deployment.fleet.as_ref()) {
            let cluster = read(fleet, &format!("{CLUSTERS}/{}", fleet.ids[0])).await?.0;
            let page = read(fleet, &format!("{CLUSTERS}?pageSize=20")).await?.0;
            baseline = Some(Baseline::start(cluster, page)?);
        }
        Ok(Self { pgbench: Pgbench::prepare(postgres, clusters).await?, baseline })
    }

    /// One round of the limits of these rows.
    fn measure(&self, options: &Options, rows: &[Row], results: &mut Results) -> Result<()> {
        let mut clients = BTreeSet::new();
        let mut baselines = BTreeSet::new();
        for row in rows {
            match row.operation {
                Operation::Create | Operation::Patch => {
                    clients.insert(row.connections);
                }
                Operation::Report(_) => clients.extend(pgbench::CLIENTS),
                Operation::Get => {
                    baselines.insert(("get", baseline::CLUSTER, row.connections));
                }
                Operation::Page | Operation::AnyPage => {
                    baselines.insert(("page of 20", baseline::PAGE, row.connections));
                }
            }
        }
        let mut best = 0.0_f64;
        for clients in clients {
            let rate = self.pgbench.update(clients, options.seconds)?;
            results.add(&format!("pgbench update @{clients}"), "/s", rate);
            best = best.max(rate);
        }
        if rows.iter().any(|row| matches!(row.operation, Operation::Report(_))) {
            results.add("pgbench update best", "/s", best);
        }
        let Some(baseline) = &self.baseline else { return Ok(()) };
        for (name, path, connections) in baselines {
            let outcome = options.load(connections).run(&baseline.target(path))?;
            results.add_load(&format!("baseline {name} @{connections}"), &outcome);
        }
        Ok(())
    }
}

/// Measures all rows that are wanted.
pub(crate) async fn measure(
    options: &Options,
    launch: &Launch,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    let mut deployments = Vec::new();
    for shape in Shape::wanted(options) {
        deployments.push(Deployment::start(options, shape, launch, postgres).await?);
    }
    if deployments.is_empty() {
        return Ok(());
    }
    let limits = Limits::start(postgres, &deployments, options.clusters).await?;
    let rows: Vec<Row> = deployments.iter().flat_map(|deployment| deployment.rows.clone()).collect();
    for round in 1..=options.rounds {
        eprintln!("requests: round {round} of {}", options.rounds);
        limits.measure(options, &rows, results)?;
        for operation in Operation::ALL {
            for deployment in &deployments {
                for &row in deployment.rows.iter().filter(|row| row.operation == operation) {
                    if let Some(outcome) = deployment.measure(options, row).await? {
                        results.add_load(&deployment.shape.row_name(row), &outcome);
                    }
                }
            }
        }
    }
    for mut deployment in deployments {
        idle(&mut deployment, results).await?;
    }
    results.add("server binary", "MB", fs::metadata(options.server()?)?.len() as f64 / 1e6);
    Ok(())
}

/// The memory of an idle server and how long it takes to start.
async fn idle(deployment: &mut Deployment<'_>, results: &mut Results) -> Result<()> {
    let is_plain = deployment.shape.replicas == 1 && !deployment.shape.most_connections_only;
    let Some(fleet) = deployment.fleet.as_mut().filter(|_| is_plain) else { return Ok(()) };
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        fleet.server().restart().await?;
        starts.push(fleet.server().started_in().as_secs_f64() * 1e3);
    }
    tokio::time::sleep(SETTLE).await;
    let row = format!("{} idle server", deployment.shape.name);
    results.add(&row, "MiB", mebibytes(fleet.resident()?));
    results.add(&row, "ms to ready", median(&starts));
    Ok(())
}
