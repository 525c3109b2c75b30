//! Two builds of the server, or one with two settings, that take turns on one machine. What a machine gives changes from
//! minute to minute, by more than two builds differ; so both are there all the time, each with databases of its own, and
//! a window of the one stands beside a window of the other.

mod found;

use std::path::Path;

use anyhow::{Result, ensure};
use hyperfleet_testkit::{Database, Launch, Postgres, Store};
use serde_json::json;

use crate::findings::Findings;
use crate::options::{Options, STORES};
use crate::reporting::Reporting;
use crate::result::Conclusion;
use crate::subject::Subject;
use crate::workload::Operation;
use crate::{pgbench, requests};
use found::Turns;

/// Clients of PostgreSQL: the pools of six servers, and ourselves.
const POOLS: usize = 400;

/// One of the two, on one store.
#[derive(Debug, Default)]
struct Contender {
    subject: Option<Subject>,
    reporting: Option<Reporting>,
    /// They go with this value, after the servers.
    databases: Vec<Database>,
}

/// Measures this build and another, and shows the one beside the other.
pub(crate) async fn run(options: &Options, other: &Path) -> Result<()> {
    let counts = options.row_counts();
    ensure!(
        !counts.is_empty(),
        "--only {}: builds take turns in create, get, patch, pages of 20 and reports",
        options.only
    );
    let launches = [options.launch_of(other)?, options.launch()?];
    let postgres = pgbench::postgres(options, POOLS).await?;
    let settings = json!({"clusters": options.clusters, "only": options.only, "against_environment": options.against_env});
    let conclusion = Conclusion::prepare(options, &postgres, settings)?;
    let mut found = Turns::default();
    let operations = || Operation::on_clusters().into_iter().chain(Operation::reports());
    let is_wanted = |store: &&str| operations().any(|operation| options.measures(store, &[operation]));
    for store in STORES.into_iter().filter(is_wanted) {
        let mut contenders = Vec::new();
        for launch in &launches {
            contenders.push(Contender::start(options, store, launch, &postgres).await?);
        }
        for round in 1..=options.rounds {
            for &connections in &counts {
                eprintln!("{store}: round {round} of {}, {connections} connections", options.rounds);
                for operation in operations() {
                    for who in order(round) {
                        contenders[who]
                            .measure(options, &mut found.findings[who], operation, connections)
                            .await?;
                    }
                }
            }
        }
    }
    conclusion.draw(&[&found])
}

/// Whoever came last begins the next round, so that neither always comes after the other.
fn order(round: u64) -> [usize; 2] {
    if round.is_multiple_of(2) { [1, 0] } else { [0, 1] }
}

impl Contender {
    /// Starts the servers that are needed, and fills them.
    async fn start(
        options: &Options,
        store: &'static str,
        launch: &Launch,
        postgres: &Postgres,
    ) -> Result<Self> {
        let clusters = usize::try_from(options.clusters)?;
        let mut contender = Self::default();
        if options.measures(store, &Operation::on_clusters()) {
            eprintln!("{store}: loading {clusters} clusters");
            let places = [contender.place(store, postgres).await, contender.place(store, postgres).await];
            contender.subject = Some(Subject::start(store, launch, places, clusters).await?);
        }
        if options.measures(store, &Operation::reports()) {
            eprintln!("{store}: loading {clusters} clusters and their reports");
            let place = contender.place(store, postgres).await;
            contender.reporting = Some(Reporting::start(store, launch, place, clusters).await?);
        }
        for database in &contender.databases {
            pgbench::execute(postgres, database, "VACUUM ANALYZE")?;
        }
        Ok(contender)
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

    async fn measure(
        &self,
        options: &Options,
        findings: &mut Findings,
        operation: Operation,
        connections: usize,
    ) -> Result<()> {
        match (operation, &self.subject, &self.reporting) {
            (Operation::Cluster(verb), Some(subject), _) => {
                requests::clusters(options, findings, subject, verb, connections)
            }
            (Operation::Report(moves), _, Some(reporting)) => {
                requests::reports(options, findings, reporting, moves, connections).await
            }
            _ => Ok(()),
        }
    }
}
