//! A server with a whole fleet in it, on one store: what the fleet takes on disk and in memory, and where it is loaded.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hyperfleet_testkit::{Database, Launch, Postgres, Server, Store};

use crate::lives::{Lives, Plan};
use crate::load::Connection;
use crate::subject::process;
use crate::workload::{Target, Workload};
use crate::{memory, pgbench, processor};

/// A server of our own, with its fleet.
pub(crate) struct Premises<'a> {
    pub(crate) store: &'static str,
    pub(crate) lives: Arc<Lives>,
    server: Server,
    database: Option<Database>,
    postgres: &'a Postgres,
    /// What the database took before anything was in it.
    empty: u64,
    /// What the fleet took on disk when it was just filled, before the database was tidied up.
    pub(crate) untidied: u64,
    /// The same afterwards.
    pub(crate) tidied: u64,
}

impl<'a> Premises<'a> {
    /// Starts a server and fills it: each cluster is made and reported on once by every adapter.
    pub(crate) async fn start(
        store: &'static str,
        launch: &Launch,
        postgres: &'a Postgres,
        plan: &Plan,
    ) -> Result<Self> {
        let database = match store {
            "sqlite" => None,
            _ => Some(postgres.database().await),
        };
        let at = database.as_ref().map_or(Store::Sqlite, |database| Store::Postgres(database.url()));
        let adapters = plan.adapters.join(", ");
        let config = format!(
            "entities:\n  - kind: Cluster\n    plural: clusters\n    required_adapters: [{adapters}]\n"
        );
        let server = launch.clone().config(config).store(at).start().await?;
        let lives = Arc::new(Lives::new(plan));
        let mut premises =
            Self { store, lives, server, database, postgres, empty: 0, untidied: 0, tidied: 0 };
        premises.empty = premises.stored()?;
        let started = Instant::now();
        fill(&premises.lives, premises.address()?).await?;
        eprintln!("{store}: {} clusters with their reports in {:.0?}", plan.clusters, started.elapsed());
        premises.untidied = premises.taken()?;
        if let Some(database) = &premises.database {
            pgbench::execute(postgres, database, "VACUUM ANALYZE")?;
        }
        premises.tidied = premises.taken()?;
        Ok(premises)
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(self.server.api().authority().parse()?)
    }

    pub(crate) fn api(&self) -> hyperfleet_testkit::Client {
        self.server.api()
    }

    /// The server, loaded with something.
    pub(crate) fn target(&self, workload: Workload) -> Result<Target> {
        Ok(Target { address: self.address()?, process: Some(process(&self.server)?), workload })
    }

    /// What the server holds in memory now, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        memory::resident(process(&self.server)?)
    }

    /// CPU time of the database so far, where it is a process of its own.
    pub(crate) fn database_time(&self) -> Result<Option<Duration>> {
        let is_apart = self.database.is_some();
        is_apart.then(|| processor::used_by_postgres(self.postgres.socket_directory())).transpose()
    }

    /// What the fleet takes on disk, in bytes: the database without what an empty one takes.
    pub(crate) fn taken(&self) -> Result<u64> {
        Ok(self.stored()?.saturating_sub(self.empty))
    }

    /// The largest tables with their indexes, in bytes, where the database can tell.
    pub(crate) fn tables(&self) -> Result<Vec<(String, u64)>> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        let text = pgbench::execute(
            self.postgres,
            database,
            "SELECT relname || ' ' || pg_total_relation_size(relid) FROM pg_stat_user_tables
             ORDER BY pg_total_relation_size(relid) DESC LIMIT 6",
        )?;
        let table = |line: &str| {
            let (name, bytes) = line.split_once(' ')?;
            Some((name.to_owned(), bytes.parse().ok()?))
        };
        Ok(text.lines().filter_map(table).collect())
    }

    fn stored(&self) -> Result<u64> {
        match &self.database {
            Some(database) => pgbench::size(self.postgres, database),
            None => {
                let file = self.server.directory().join("hyperfleet.db");
                Ok(fs::metadata(&file).with_context(|| file.display().to_string())?.len())
            }
        }
    }
}

/// Makes every cluster of a fleet, with a report of each adapter.
pub(crate) async fn fill(lives: &Arc<Lives>, address: SocketAddr) -> Result<()> {
    let loaders: Vec<_> = (0..lives.connections())
        .map(|connection| {
            let mut requests = lives.requests(connection, lives.connections());
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await?;
                while !requests.is_complete() {
                    let status = connection.exchange(requests.next()).await?;
                    if !requests.take(status, connection.body()) {
                        bail!("filling: {}", connection.text());
                    }
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
