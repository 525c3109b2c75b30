//! A temporary PostgreSQL of Debian's binaries in a directory below `/tmp`, reached by Unix socket alone.
//!
//! Tests share one server per process and get a database each, as a copy of one that was migrated once
//! ([`Postgres::migrated`]) or an empty one. The server ends with the process that started it, even under `kill -9`
//! (see [`Guard`]). The cluster sorts text by ICU in English, as many installations do, so that a query that relies on
//! byte order without saying so fails here first.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};
use tokio::sync::OnceCell;
use tokio_postgres::NoTls;

use crate::guard::{Guard, run_as};
use crate::server::without_settings;

/// The oldest server that HyperFleet supports.
const OLDEST: u32 = 13;

/// Speed over durability: these clusters do not outlive their test.
const SHARED_SETTINGS: &str =
    "fsync = off\nfull_page_writes = off\nautovacuum = off\nmax_connections = 500\n";

/// A running PostgreSQL with a data directory of its own.
#[derive(Debug)]
pub struct Postgres {
    programs: Programs,
    directory: PathBuf,
    user: Option<(u32, u32)>,
    databases: AtomicU32,
    migrated: OnceCell<String>,
    _guard: Guard,
}

impl Postgres {
    /// The server that all tests of this process share, started at the first call. It does not sync to disk.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Self::launch(SHARED_SETTINGS).expect("the shared test PostgreSQL must start"))
    }

    /// A private server with PostgreSQL's own, durable settings, for measurements and crash tests.
    pub async fn durable() -> Result<Self> {
        tokio::task::spawn_blocking(|| Self::launch("max_connections = 200\n")).await?
    }

    /// A private server that counts statements (`pg_stat_statements`). It does not sync to disk.
    pub async fn counting() -> Result<Self> {
        let settings = format!("{SHARED_SETTINGS}shared_preload_libraries = 'pg_stat_statements'\n");
        tokio::task::spawn_blocking(move || Self::launch(&settings)).await?
    }

    /// A new empty database.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn database(&self) -> Database {
        self.database_from("template1").await
    }

    /// A new database with the present schema and no data. The first call runs `binary migrate` on a template; every
    /// call copies the template, which is faster than migrating.
    ///
    /// # Panics
    /// When the server does not answer or the migration fails.
    pub async fn migrated(&self, binary: &Path) -> Database {
        let template = self.migrated.get_or_init(|| self.template(binary)).await;
        self.database_from(template).await
    }

    /// The name of a database that `binary` has migrated. It stays until the server goes.
    async fn template(&self, binary: &Path) -> String {
        let name = "migrated".to_owned();
        self.create(&name, "template1").await;
        let mut migrate = Command::new(binary);
        migrate.args(["migrate", "--database-url", &self.url(&name)]).stdin(Stdio::null());
        without_settings(&mut migrate);
        tokio::task::spawn_blocking(move || run(migrate))
            .await
            .expect("the migration must not panic")
            .expect("the template database must be migrated");
        name
    }

    /// A new database that starts as a copy of the database `template`, which must have no connections.
    ///
    /// # Panics
    /// When the server does not answer or there is no such template.
    pub async fn database_from(&self, template: &str) -> Database {
        let name = format!("db_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.create(&name, template).await;
        Database { url: self.url(&name), maintenance: self.url("postgres"), name }
    }

    async fn create(&self, name: &str, template: &str) {
        // A copy by files takes half the time of the default, a copy through the log. Before 15 it is the only way.
        let strategy = if self.programs.version >= 15 { " STRATEGY file_copy" } else { "" };
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template}{strategy}");
        execute(&self.url("postgres"), &statement).await.expect("a database per test must be created");
    }

    /// The URL of the database `name` on this server.
    pub fn url(&self, name: &str) -> String {
        let host = self.directory.to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@/{name}?host={host}")
    }

    /// The directory that holds the server's Unix socket.
    pub fn socket_directory(&self) -> &Path {
        &self.directory
    }

    /// The path of a program that belongs to this server's version, such as `pgbench`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.path(name)
    }

    /// Stops the server as an operator would: clients are cut off, nothing is lost.
    pub async fn stop_fast(&self) -> Result<()> {
        self.control(&["stop", "-w", "-m", "fast"]).await
    }

    /// Stops the server as a crash would: the next start recovers from the log.
    pub async fn stop_immediate(&self) -> Result<()> {
        self.control(&["stop", "-w", "-m", "immediate"]).await
    }

    /// Starts the server again after a stop, on the same data directory and socket.
    pub async fn start(&self) -> Result<()> {
        self.control(&START).await
    }

    async fn control(&self, arguments: &[&str]) -> Result<()> {
        let mut command = self.command("pg_ctl");
        command.arg("-D").arg(self.directory.join("data")).args(arguments);
        tokio::task::spawn_blocking(move || run(command)).await?
    }

    fn command(&self, program: &str) -> Command {
        command(&self.programs, program, &self.directory, self.user)
    }

    fn launch(settings: &str) -> Result<Self> {
        let programs = Programs::find()?;
        let user = server_user()?;
        // The socket's path is limited to 107 bytes, so a long TMPDIR is no place for it.
        let directory = tempfile::Builder::new().prefix("hf-pg-").tempdir_in("/tmp")?.keep();
        if let Some((uid, gid)) = user {
            chown(&directory, Some(uid), Some(gid))?;
        }
        let data = directory.join("data");
        let guard = Guard::set(
            "\"$1\" stop -D \"$2/data\" -m immediate; rm -rf \"$2\"",
            &[programs.path("pg_ctl").as_os_str(), directory.as_os_str()],
            user,
        )?;

        let mut initdb = command(&programs, "initdb", &directory, user);
        initdb.arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]);
        if programs.version >= 15 {
            initdb.args(["--locale-provider=icu", "--icu-locale=en-US"]);
        }
        run(initdb)?;
        let ours = format!(
            "port = 5432\nlisten_addresses = ''\nunix_socket_directories = '{}'\n{settings}",
            directory.display()
        );
        append(&data.join("postgresql.conf"), &ours)?;
        let mut start = command(&programs, "pg_ctl", &directory, user);
        start.arg("-D").arg(&data).args(START);
        run(start)?;
        Ok(Self {
            programs,
            directory,
            user,
            databases: AtomicU32::new(0),
            migrated: OnceCell::new(),
            _guard: guard,
        })
    }
}

/// `pg_ctl` starts the server in its own session; the log takes its output, or ours would stay open with it.
const START: [&str; 4] = ["start", "-w", "-l", "log"];

/// One test's database, dropped with this value.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    /// The database to be connected to while this one is dropped.
    maintenance: String,
}

impl Database {
    /// The URL to connect to it, for `database.url` and tokio-postgres alike.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Its name, for use as a template.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let url = std::mem::take(&mut self.maintenance);
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // Best effort, and not waited for: what is left goes with the server.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(execute(&url, &statement)))
        });
    }
}

async fn execute(url: &str, statement: &str) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    client.batch_execute(statement).await?;
    drop(client);
    Ok(connection.await??)
}

/// The server programs of one PostgreSQL version.
#[derive(Debug)]
struct Programs {
    directory: PathBuf,
    version: u32,
}

impl Programs {
    /// The newest supported version of Debian's packages, else what `PATH` offers.
    fn find() -> Result<Self> {
        let debian = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let newest = debian.filter_map(Self::at).max_by_key(|programs| programs.version);
        newest.or_else(|| std::env::split_paths(&path).find_map(Self::at)).with_context(|| {
            format!("PostgreSQL {OLDEST} or newer is not installed (initdb and pg_ctl not found): run `make setup`")
        })
    }

    fn at(directory: PathBuf) -> Option<Self> {
        if !directory.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(directory.join("pg_ctl")).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number =
            text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
        let version = number.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()?;
        (version >= OLDEST).then_some(Self { directory, version })
    }

    fn path(&self, program: &str) -> PathBuf {
        self.directory.join(program)
    }
}

/// The user and group to run the server as: ourselves, but PostgreSQL refuses root.
fn server_user() -> Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd")?;
    let account = |name: &str| {
        let fields: Vec<&str> = accounts
            .lines()
            .map(|line| line.split(':').collect())
            .find(|fields: &Vec<_>| fields[0] == name)?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    let user = account("postgres").or_else(|| account("nobody"));
    user.map(Some).context("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`")
}

fn command(programs: &Programs, program: &str, directory: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(programs.path(program));
    command.current_dir(directory).env("LC_ALL", "C").stdin(Stdio::null());
    run_as(&mut command, user);
    command
}

fn run(mut command: Command) -> Result<()> {
    let Output { status, stdout, stderr } = command.output().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!(
            "{command:?}: {status}\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
    }
    Ok(())
}

fn append(file: &Path, text: &str) -> Result<()> {
    let before = fs::read_to_string(file)?;
    fs::write(file, before + text).with_context(|| format!("write {}", file.display()))
}
