//! The limit of writes: PostgreSQL's own `pgbench`, one row by key per transaction, on the server that HyperFleet
//! writes to and with as many clients.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hyperfleet_testkit::{Database, Postgres};
use tempfile::TempDir;

use crate::options::Options;
use crate::processor::Mark;
use crate::samples::Ran;

const UPDATE: &str = "\\set id random(1, :rows)\nUPDATE limits SET nodes = nodes + 1 WHERE id = :id;\n";
const SELECT: &str = "\\set id random(1, :rows)\nSELECT filler FROM limits WHERE id = :id;\n";

/// Numbers of clients among which the best for updates is looked for.
pub(crate) const CLIENTS: [usize; 5] = [1, 8, 32, 64, 256];

/// Clients that connect within a second even on a busy machine.
const CONNECTED_PER_SECOND: u64 = 64;

/// PostgreSQL with durable settings, those that the run was told to try, and room for this many clients.
pub(crate) async fn postgres(options: &Options, clients: usize) -> Result<Postgres> {
    let postgres = Postgres::durable().await?;
    let database = postgres.database().await;
    execute(&postgres, &database, &format!("ALTER SYSTEM SET max_connections = {clients}"))?;
    for setting in &options.postgres {
        let (name, value) =
            setting.split_once('=').with_context(|| format!("--postgres {setting}: not NAME=VALUE"))?;
        execute(&postgres, &database, &format!("ALTER SYSTEM SET {name} = '{value}'"))?;
    }
    postgres.stop_fast().await?;
    postgres.start().await?;
    Ok(postgres)
}

/// A database with one table of plain rows, as many as there are clusters.
pub(crate) struct Pgbench<'a> {
    postgres: &'a Postgres,
    database: Database,
    rows: usize,
    scripts: TempDir,
}

impl<'a> Pgbench<'a> {
    /// Makes the table; each row is about as wide as a cluster.
    pub(crate) async fn prepare(postgres: &'a Postgres, rows: usize) -> Result<Self> {
        let database = postgres.database().await;
        let scripts = tempfile::tempdir()?;
        fs::write(scripts.path().join("update.sql"), UPDATE)?;
        fs::write(scripts.path().join("select.sql"), SELECT)?;
        execute(
            postgres,
            &database,
            &format!(
                "CREATE TABLE limits (id int PRIMARY KEY, nodes int NOT NULL, filler text NOT NULL);
                 INSERT INTO limits SELECT id, 0, repeat('x', 500) FROM generate_series(1, {rows}) AS id;
                 VACUUM ANALYZE limits"
            ),
        )?;
        Ok(Self { postgres, database, rows, scripts })
    }

    /// Single-row updates.
    pub(crate) fn update(&self, clients: usize, seconds: u64) -> Result<Ran> {
        self.run("update.sql", clients, seconds)
    }

    /// Single-row selects.
    pub(crate) fn select(&self, clients: usize, seconds: u64) -> Result<Ran> {
        self.run("select.sql", clients, seconds)
    }

    fn run(&self, script: &str, clients: usize, seconds: u64) -> Result<Ran> {
        // Its time includes that for connecting, though its rate does not. Where the machine was so busy that it was over
        // before all were connected, it gets more.
        let connecting = (clients as u64).div_ceil(CONNECTED_PER_SECOND);
        let run = |times| self.try_for(times * connecting, times * seconds, script, clients);
        run(1).or_else(|_| run(4))
    }

    fn try_for(&self, connecting: u64, seconds: u64, script: &str, clients: usize) -> Result<Ran> {
        let threads =
            std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).clamp(1, clients);
        let pgbench = Command::new(self.postgres.program("pgbench"))
            .args(["-M", "prepared", "-n", "--random-seed=1", "-U", "postgres", "-h"])
            .arg(self.postgres.socket_directory())
            .args(["-f".as_ref(), self.scripts.path().join(script).as_os_str()])
            .args(["-D", &format!("rows={}", self.rows), "-T", &(connecting + seconds).to_string()])
            .args(["-c", &clients.to_string(), "-j", &threads.to_string(), self.database.name()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("pgbench is missing: run `make setup`")?;
        // From when its clients should be connected nearly to its end.
        let busy = busy_after(Duration::from_secs(connecting), Duration::from_secs(seconds).mul_f64(0.9));
        let output = pgbench.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        match tps(&text) {
            Some(rate) if output.status.success() => Ok(Ran { rate, busy: Some(busy?) }),
            _ => bail!("pgbench: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)),
        }
    }
}

/// How many cores do something after a pause, for so long; blocks its thread.
fn busy_after(pause: Duration, time: Duration) -> Result<f64> {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        runtime.block_on(async {
            tokio::time::sleep(pause).await;
            let mark = Mark::now()?;
            tokio::time::sleep(time).await;
            mark.busy()
        })
    })
    .join()
    .unwrap_or_else(|_| bail!("the thread that watches the processor panicked"))
}

/// Runs SQL text in a database of the server; gives what it prints.
pub(crate) fn execute(postgres: &Postgres, database: &Database, sql: &str) -> Result<String> {
    let output = Command::new(postgres.program("psql"))
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
        .arg(postgres.socket_directory())
        .args(sql.split(';').flat_map(|statement| ["-c", statement]))
        .arg(database.name())
        .output()
        .context("psql is missing: run `make setup`")?;
    if !output.status.success() {
        bail!("psql: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What a database takes on disk, in bytes.
pub(crate) fn size(postgres: &Postgres, database: &Database) -> Result<u64> {
    let text = execute(postgres, database, "SELECT pg_database_size(current_database())")?;
    text.trim().parse().with_context(|| format!("no size: {text}"))
}

fn tps(output: &str) -> Option<f64> {
    output.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_found_in_what_pgbench_prints() {
        let output = "initial connection time = 2.1 ms\ntps = 24012.345 (without initial connection time)\n";
        assert_eq!(super::tps(output), Some(24012.345));
    }
}
