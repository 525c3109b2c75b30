//! Two builds of the server, or one with two settings, that take turns on one machine. What a machine gives changes from
//! minute to minute, by more than two builds differ; so both are there all the time, each with databases of its own, and
//! windows of the one stand beside windows of the other.

mod found;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::{Database, Launch, Postgres, Store};
use serde_json::json;

use crate::findings::Findings;
use crate::options::{Options, STORES};
use crate::reporting::Reporting;
use crate::result::Conclusion;
use crate::subject::Subject;
use crate::workload::Operation;
use crate::{machine, pgbench, requests};
use found::Turns;

/// Clients of PostgreSQL: the pools of six servers, and ourselves.
const POOLS: usize = 400;

/// One of the two, on one store.
struct Contender<'a> {
    /// For whoever reads of its progress and its errors.
    name: &'static str,
    options: &'a Options,
    subject: Option<Subject>,
    reporting: Option<Reporting>,
    /// They go with this value, after the servers.
    databases: Vec<Database>,
}

/// Measures this build and another, and shows the one beside the other.
pub(crate) async fn run(options: &Options, path: &Path) -> Result<()> {
    let counts = options.row_counts();
    ensure!(
        !counts.is_empty(),
        "--only {}: builds take turns in create, get, patch, pages of 20 and reports",
        options.only
    );
    options.ensure_enough_for_reports()?;
    // Whoever runs a name without a directory runs what PATH has by it; so the file is found once, for all.
    let path = fs::canonicalize(path)
        .with_context(|| format!("--against {} is not there: build it first", path.display()))?;
    let (this, other) = (options.launch()?, options.launch_of(&path)?);
    let postgres = pgbench::postgres(options, POOLS).await?;
    let build = machine::build(&path).unwrap_or_default();
    let settings = json!({
        "clusters": options.clusters, "only": options.only,
        "against": build, "against_environment": options.against_env,
    });
    let conclusion = Conclusion::prepare(options, &postgres, settings)?;
    println!("the other     {}", [vec![build], options.against_env.clone()].concat().join(" "));
    let mut found = Turns::default();
    let operations = || Operation::on_clusters().into_iter().chain(Operation::reports());
    let is_wanted = |store: &&str| operations().any(|operation| options.measures(store, &[operation]));
    for store in STORES.into_iter().filter(is_wanted) {
        let other = Contender::start("the other build", options, store, &other, &postgres).await?;
        let this = Contender::start("this build", options, store, &this, &postgres).await?;
        for round in 1..=options.rounds {
            for &connections in &counts {
                eprintln!("{store}: round {round} of {}, {connections} connections", options.rounds);
                for operation in operations() {
                    // Whatever gets faster or slower meanwhile, or hurts whoever comes second, is the same for both.
                    other.measure(&mut found.other, operation, connections).await?;
                    this.measure(&mut found.this, operation, connections).await?;
                    this.measure(&mut found.this, operation, connections).await?;
                    other.measure(&mut found.other, operation, connections).await?;
                }
            }
        }
    }
    ensure!(!found.is_empty(), "--clusters {}: too few for any page of 20", options.clusters);
    conclusion.draw(&[&found])
}

impl<'a> Contender<'a> {
    /// Starts the servers that are needed, and fills them.
    async fn start(
        name: &'static str,
        options: &'a Options,
        store: &'static str,
        launch: &Launch,
        postgres: &Postgres,
    ) -> Result<Self> {
        eprintln!("{store}: loading {} clusters for {name}", options.clusters);
        let mut contender = Self { name, options, subject: None, reporting: None, databases: Vec::new() };
        contender.fill(store, launch, postgres).await.context(name)?;
        for database in &contender.databases {
            pgbench::execute(postgres, database, "VACUUM ANALYZE")?;
        }
        Ok(contender)
    }

    async fn fill(&mut self, store: &'static str, launch: &Launch, postgres: &Postgres) -> Result<()> {
        let clusters = usize::try_from(self.options.clusters)?;
        if self.options.measures(store, &Operation::on_clusters()) {
            let places = [self.place(store, postgres).await, self.place(store, postgres).await];
            self.subject = Some(Subject::start(store, launch, places, clusters).await?);
        }
        if self.options.measures(store, &Operation::reports()) {
            let place = self.place(store, postgres).await;
            self.reporting = Some(Reporting::start(store, launch, place, clusters).await?);
        }
        Ok(())
    }

    /// A database of its own.
    async fn place(&mut self, store: &str, postgres: &Postgres) -> Store {
        if store == "sqlite" {
            return Store::Sqlite;
        }
        let database = postgres.database().await;
        let place = Store::Postgres(database.url());
        self.databases.push(database);
        place
    }

    /// One window, if that row is wanted.
    async fn measure(&self, findings: &mut Findings, operation: Operation, connections: usize) -> Result<()> {
        let measured = match (operation, &self.subject, &self.reporting) {
            (Operation::Cluster(verb), Some(subject), _) => {
                requests::clusters(self.options, findings, subject, verb, connections)
            }
            (Operation::Report(moves), _, Some(reporting)) => {
                requests::reports(self.options, findings, reporting, moves, connections).await
            }
            // It is on a store where that is not wanted.
            _ => Ok(()),
        };
        measured.context(self.name)
    }
}
