//! The real binary, `hyperfleet serve`, in a process of its own, for tests of signals, crashes, restarts and
//! configuration. It listens on ports chosen by the kernel and logs them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::Client;
use crate::fake_clock::FakeClock;
use crate::guard::Guard;
use crate::output::Output;

/// Passes only when something is broken; the machine may be busy.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// Longer than the default drain of 20 s.
const STOP_DEADLINE: Duration = Duration::from_secs(60);
const PACE: Duration = Duration::from_millis(2);

/// Where the server keeps its data.
#[derive(Clone, Debug)]
pub enum Store {
    /// A SQLite file in the server's temporary directory, kept over restarts.
    Sqlite,
    /// SQLite in memory: gone with the process.
    SqliteMemory,
    /// A PostgreSQL database by its URL.
    Postgres(String),
}

/// How to start a [`Server`].
#[derive(Clone, Debug)]
pub struct Launch {
    binary: PathBuf,
    store: Store,
    config: Option<String>,
    environment: Vec<(String, String)>,
    arguments: Vec<OsString>,
    discards_logs: bool,
}

impl Launch {
    /// `binary serve` on a SQLite file, without authentication.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            store: Store::Sqlite,
            config: None,
            environment: Vec::new(),
            arguments: Vec::new(),
            discards_logs: false,
        }
    }

    /// Chooses the store.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.store = store;
        self
    }

    /// Gives it a configuration file with this text.
    #[must_use]
    pub fn config(mut self, yaml: impl Into<String>) -> Self {
        self.config = Some(yaml.into());
        self
    }

    /// Sets an environment variable; it wins over what the testkit sets.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it a wall clock of its own.
    #[must_use]
    pub fn clock(self, clock: &FakeClock) -> Self {
        clock.environment().iter().fold(self, |launch, (name, value)| launch.env(name, value))
    }

    /// Adds a flag after `serve`.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Drops what it logs once it is ready: a measured server writes too much to keep.
    #[must_use]
    pub fn discard_logs(mut self) -> Self {
        self.discards_logs = true;
        self
    }

    /// Its settings without the store: servers with the same settings behave alike.
    pub fn settings(&self) -> String {
        format!("{:?} {:?} {:?}", self.config, self.environment, self.arguments)
    }

    /// Starts it and waits until it is ready; the error of a server that gives up shows what it wrote.
    pub async fn start(self) -> Result<Server> {
        let directory = tempfile::Builder::new().prefix("hf-server-").tempdir()?;
        if let Some(text) = &self.config {
            fs::write(directory.path().join("config.yaml"), text)?;
        }
        let mut server = Server {
            launch: self,
            directory,
            process: None,
            output: Output::default(),
            listeners: None,
            started_in: Duration::ZERO,
        };
        server.launch().await?;
        Ok(server)
    }

    fn command(&self, directory: &TempDir) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("serve").args(&self.arguments).current_dir(directory.path());
        without_settings(&mut command);
        for listener in ["SERVER", "HEALTH", "METRICS"] {
            command.env(format!("HYPERFLEET_{listener}_HOST"), "127.0.0.1");
            command.env(format!("HYPERFLEET_{listener}_PORT"), "0");
        }
        let database = match &self.store {
            Store::Sqlite => format!("sqlite:{}", directory.path().join("hyperfleet.db").display()),
            Store::SqliteMemory => "sqlite::memory:".to_owned(),
            Store::Postgres(url) => url.clone(),
        };
        command
            .env("HYPERFLEET_DATABASE_URL", database)
            .env("HYPERFLEET_SERVER_JWT_ENABLED", "false")
            .env("HYPERFLEET_LOGGING_FORMAT", "json");
        if self.config.is_some() {
            command.env("HYPERFLEET_CONFIG", directory.path().join("config.yaml"));
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Keeps a developer's own settings from the program under test.
pub fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HYPERFLEET_"))
    {
        command.env_remove(name);
    }
}

/// A running server; it is killed when this value is dropped.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    directory: TempDir,
    process: Option<Process>,
    output: Output,
    listeners: Option<Listeners>,
    started_in: Duration,
}

/// The child, and what ends it if we end first.
#[derive(Debug)]
struct Process {
    child: Child,
    guard: Guard,
}

/// Clients of the three listeners of the present process.
#[derive(Debug)]
struct Listeners {
    api: Client,
    health: Client,
    metrics: Client,
}

impl Listeners {
    /// The listeners in log `lines`, once all of them are logged.
    fn from_log(lines: &[Value]) -> Option<Self> {
        let client = |listener: &str| {
            let told = |line: &&Value| line["message"] == "listening" && line["listener"] == listener;
            let address = lines.iter().find(told)?["address"].as_str()?;
            Some(Client::new(address))
        };
        Some(Self { api: client("api")?, health: client("health")?, metrics: client("metrics")? })
    }
}

impl Server {
    /// A client of the API listener.
    pub fn api(&self) -> Client {
        self.listeners().api.clone()
    }

    /// A client of the health listener.
    pub fn health(&self) -> Client {
        self.listeners().health.clone()
    }

    /// A client of the metrics listener.
    pub fn metrics(&self) -> Client {
        self.listeners().metrics.clone()
    }

    /// All log lines so far, of restarts too; a line that is not JSON comes as a string.
    pub fn logs(&self) -> Vec<Value> {
        self.output.lines().clone()
    }

    /// How long the present process took from its start until it was ready.
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// The directory that it works in, with its SQLite file `hyperfleet.db`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Ends it as a power cut would.
    pub fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only for a child that has ended already.
            let _ = process.child.kill();
            let _ = process.child.wait();
            process.guard.dismiss();
            self.output.drain();
        }
    }

    /// Sets an environment variable of the next start, or removes what this has set.
    pub fn set_env(&mut self, name: &str, value: Option<&str>) {
        self.launch.environment.retain(|(set, _)| set != name);
        self.launch.environment.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    /// Asks it to stop (SIGTERM), without waiting for the end.
    pub fn signal_terminate(&self) -> Result<()> {
        self.signal("TERM")
    }

    /// Sends it a signal, such as `STOP`, which freezes it until `CONT`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.pid().context("the server does not run")?.to_string();
        let sent =
            Command::new("/bin/sh").args(["-c", "kill -s \"$1\" \"$2\"", "kill", signal, &pid]).status()?;
        if !sent.success() {
            bail!("kill -s {signal} {pid}: {sent}");
        }
        Ok(())
    }

    /// Asks it to stop and waits until it has.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal_terminate()?;
        self.wait().await
    }

    /// Waits until it has ended by itself.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if started.elapsed() > STOP_DEADLINE {
                bail!("the server still runs after {STOP_DEADLINE:?}\n{}", self.output.text());
            }
            tokio::time::sleep(PACE).await;
        }
    }

    /// Starts it again on the same store, after stopping it if it runs. The ports are new ones.
    pub async fn restart(&mut self) -> Result<()> {
        if self.process.is_some() {
            self.terminate().await?;
        }
        self.launch().await
    }

    fn listeners(&self) -> &Listeners {
        self.listeners.as_ref().expect("a server is handed out only when all listeners are known")
    }

    /// The exit status, once it has ended.
    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let process = self.process.as_mut().context("the server does not run")?;
        let status = process.child.try_wait()?;
        if status.is_some()
            && let Some(process) = self.process.take()
        {
            process.guard.dismiss();
            self.output.drain();
        }
        Ok(status)
    }

    async fn launch(&mut self) -> Result<()> {
        let first_line = self.output.lines().len();
        self.listeners = None;
        self.output.discard(false);
        let started = Instant::now();
        let mut command = self.launch.command(&self.directory);
        let mut child = command.spawn().with_context(|| format!("start {}", self.launch.binary.display()))?;
        let pid = child.id().to_string();
        let traces = [pid.as_ref(), self.directory.path().as_os_str()];
        let guard = Guard::set("kill -9 \"$1\"; rm -rf \"$2\"", &traces, None)?;
        self.output.collect(child.stdout.take());
        self.output.collect(child.stderr.take());
        self.process = Some(Process { child, guard });

        loop {
            if let Some(status) = self.ended()? {
                bail!("the server gave up ({status})\n{}", self.output.text());
            }
            if self.listeners.is_none() {
                self.listeners = Listeners::from_log(&self.output.lines()[first_line..]);
            }
            if let Some(listeners) = &self.listeners
                && let Ok(answer) = listeners.health.get("/readyz").send().await
                && answer.status == 200
            {
                self.started_in = started.elapsed();
                self.output.discard(self.launch.discards_logs);
                return Ok(());
            }
            if started.elapsed() > START_DEADLINE {
                bail!("the server was not ready within {START_DEADLINE:?}\n{}", self.output.text());
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
    }
}
