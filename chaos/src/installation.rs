//! The deployed shape on one machine: PostgreSQL, NATS, three replicas behind proxies, two Sentinels, and adapters.

pub(crate) mod disk;
mod programs;
pub(crate) mod proxy;
pub(crate) mod replica;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::{Client, Nats, Postgres, Process, without_settings};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use disk::SmallDisk;
use replica::Replica;

/// How many replicas share the database.
pub(crate) const REPLICAS: usize = 3;
const SENTINELS: usize = 2;
/// The adapters that the kinds require. Two processes of one name share the events.
const ADAPTERS: [&str; 4] = ["validator", "dns", "validator", "dns"];
const KINDS: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validator, dns], name_min_len: 1, name_max_len: 53}
  - kind: NodePool
    plural: nodepools
    parent_kind: Cluster
    on_parent_delete: cascade
    required_adapters: [validator]
    name_min_len: 1
    name_max_len: 53
";
const DATABASE: &str = "chaos";

/// All running parts. They go with this value, and with this process.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) sentinels: Vec<Process>,
    pub(crate) adapters: Vec<Process>,
    pub(crate) nats: Nats,
    pub(crate) postgres: Postgres,
    /// What the tables lie on, where this process may mount it. It goes after PostgreSQL.
    pub(crate) disk: Option<SmallDisk>,
    binary: PathBuf,
    backup: TempDir,
}

impl Installation {
    pub(crate) async fn start(binary: &Path, has_small_disk: bool) -> Result<Self> {
        let postgres = Postgres::durable().await?;
        let nats = Nats::start().await?;
        let disk = if has_small_disk { Some(SmallDisk::mount(&postgres)?) } else { None };
        if let Some(disk) = &disk {
            let directory = disk.path().display();
            execute(&postgres.url("postgres"), &format!("create tablespace small location '{directory}'"))
                .await?;
        }
        create_database(&postgres, disk.as_ref()).await?;

        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            replicas.push(Replica::start(binary, KINDS, &postgres, DATABASE).await?);
        }
        let url = |number: usize| replicas[number % REPLICAS].url();
        let adapters = ADAPTERS.iter().enumerate();
        let adapters =
            adapters.map(|(number, name)| programs::adapter(binary, name, &url(number + 1), &nats));
        let sentinels = (0..SENTINELS).map(|number| programs::sentinel(binary, &url(number), &nats));
        Ok(Self {
            adapters: adapters.collect::<Result<_>>()?,
            sentinels: sentinels.collect::<Result<_>>()?,
            replicas,
            nats,
            postgres,
            disk,
            binary: binary.to_owned(),
            backup: tempfile::tempdir()?,
        })
    }

    /// Clients of all replicas, through their proxies.
    pub(crate) fn clients(&self) -> Vec<Client> {
        self.replicas.iter().map(|replica| Client::new(&replica.url())).collect()
    }

    /// What `hyperfleet verify` finds.
    pub(crate) fn verify(&self) -> Result<Vec<String>> {
        programs::verify(&self.binary, KINDS, &self.postgres.url(DATABASE))
    }

    /// Backs up the database while it is in use.
    pub(crate) async fn back_up(&self) -> Result<()> {
        let mut dump = Command::new(self.postgres.program("pg_dump"));
        dump.arg("--format=custom").arg("--file").arg(self.backup_file()).arg(self.postgres.url(DATABASE));
        succeed(dump).await
    }

    /// Stops all replicas, puts the backup in the place of the database, and starts them again. Simulated adapters
    /// remember what they have reported, so they begin anew too.
    pub(crate) async fn restore(&mut self) -> Result<()> {
        self.replicas.iter_mut().for_each(Replica::kill);
        self.adapters.iter().for_each(Process::kill);
        let url = self.postgres.url(DATABASE);
        execute(&self.postgres.url("postgres"), &format!("drop database {DATABASE} with (force)")).await?;
        create_database(&self.postgres, self.disk.as_ref()).await?;
        let mut restore = Command::new(self.postgres.program("pg_restore"));
        restore.args(["--exit-on-error", "--dbname", &url]).arg(self.backup_file());
        succeed(restore).await?;
        let mut migrate = Command::new(&self.binary);
        without_settings(&mut migrate);
        migrate.args(["migrate", "--new-epoch", "--database-url", &url]);
        succeed(migrate).await?;
        for replica in &mut self.replicas {
            replica.start_again().await?;
        }
        self.adapters.iter().try_for_each(|adapter| adapter.start(|| true))
    }

    fn backup_file(&self) -> PathBuf {
        self.backup.path().join("backup")
    }

    /// Ends the connections that listen for notifications of commits.
    pub(crate) async fn cut_listeners(&self) -> Result<()> {
        let statement = "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen%'";
        execute(&self.postgres.url(DATABASE), statement).await
    }
}

async fn create_database(postgres: &Postgres, disk: Option<&SmallDisk>) -> Result<()> {
    let tablespace = if disk.is_some() { " tablespace small" } else { "" };
    execute(&postgres.url("postgres"), &format!("create database {DATABASE}{tablespace}")).await
}

/// Runs a command to its end.
async fn succeed(mut command: Command) -> Result<()> {
    tokio::task::spawn_blocking(move || {
        let output = command.output().with_context(|| format!("{command:?}"))?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    })
    .await?
}

async fn execute(url: &str, statement: &str) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    client.batch_execute(statement).await.with_context(|| statement.to_owned())?;
    drop(client);
    Ok(connection.await??)
}

/// The library that gives one process a clock of its own.
pub(crate) fn faketime() -> Result<PathBuf> {
    let places = std::fs::read_dir("/usr/lib")?.flatten().map(|entry| entry.path());
    let mut libraries = places.map(|place| place.join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.is_file()).context("libfaketime is not installed: run `make setup`")
}
