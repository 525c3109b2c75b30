//! One replica with a stable address, which can be killed, frozen, cut off, and given another clock.

use std::path::Path;

use anyhow::{Context as _, Result};
use hyperfleet_testkit::{Guard, Launch, Postgres, Server, Store};
use rustix::process::{Pid, Signal, kill_process};

use super::proxy::{Proxy, Upstream};

/// The file name of PostgreSQL's socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// A replica and its proxies.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) server: Server,
    address: String,
    /// Between clients and the replica.
    pub(crate) api: Proxy,
    /// Between the replica and PostgreSQL.
    pub(crate) database: Proxy,
    _sockets: Guard,
}

impl Replica {
    pub(super) async fn start(binary: &Path, kinds: &str, postgres: &Postgres, name: &str) -> Result<Self> {
        // The path of a socket is limited to 107 bytes, so a long TMPDIR is no place for it.
        let sockets = tempfile::Builder::new().prefix("hf-chaos-").tempdir_in("/tmp")?.keep();
        let guard = Guard::set("rm -rf \"$1\"", &[sockets.as_os_str()], None)?;
        let upstream = Upstream::Unix(postgres.socket_directory().join(SOCKET));
        let database = Proxy::unix(&sockets.join(SOCKET), upstream)?;
        let host = sockets.to_string_lossy().replace('/', "%2F");
        let server = Launch::new(binary)
            .store(Store::Postgres(format!("postgres://postgres@/{name}?host={host}")))
            .config(kinds)
            .env("HYPERFLEET_DATABASE_POOL_MAX_CONNECTIONS", "20")
            .discard_logs()
            .start()
            .await?;
        let (api, address) = Proxy::tcp().await?;
        let replica = Self { server, address, api, database, _sockets: guard };
        replica.lead();
        Ok(replica)
    }

    /// Where clients find it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.server.kill9();
        self.api.lead_to(Upstream::Nowhere);
    }

    /// Starts it again and waits until it is ready.
    pub(crate) async fn start_again(&mut self) -> Result<()> {
        self.server.restart().await?;
        self.lead();
        Ok(())
    }

    /// Stops the process where it is, or lets it go on.
    pub(crate) fn freeze(&self, yes: bool) -> Result<()> {
        let pid = self.server.pid().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let signal = if yes { Signal::STOP } else { Signal::CONT };
        Ok(kill_process(pid.context("the replica does not run")?, signal)?)
    }

    /// The clock of the next start: seconds ahead of the real one, with `library` in between.
    pub(crate) fn set_clock(&mut self, offset: Option<(i64, &Path)>) {
        let offset = offset.map(|(seconds, library)| (format!("{seconds:+}"), library.to_string_lossy()));
        self.server.set_env("FAKETIME", offset.as_ref().map(|(seconds, _)| seconds.as_str()));
        self.server.set_env("LD_PRELOAD", offset.as_ref().map(|(_, library)| library.as_ref()));
        self.server.set_env("FAKETIME_DONT_FAKE_MONOTONIC", offset.as_ref().map(|_| "1"));
    }

    pub(crate) async fn is_ready(&self) -> bool {
        matches!(self.server.health().get("/readyz").send().await, Ok(answer) if answer.status == 200)
    }

    fn lead(&self) {
        self.api.lead_to(Upstream::Tcp(self.server.api().authority().to_owned()));
    }
}
