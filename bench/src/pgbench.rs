//! The limit of writes: PostgreSQL's own `pgbench`, which updates one row by its key in each durable transaction, on the
//! PostgreSQL server of the run.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use hyperfleet_testkit::{Database, Postgres};
use tempfile::TempDir;

use crate::options::Options;

const UPDATE: &str = "\\set id random(1, :rows)\nUPDATE limits SET nodes = nodes + 1 WHERE id = :id;\n";

/// Numbers of clients among which the best is looked for.
pub(crate) const CLIENTS: [usize; 4] = [8, 32, 64, 256];

/// Clients that connect within a second even on a busy machine.
const CONNECTED_PER_SECOND: u64 = 64;

/// Starts PostgreSQL with durable settings, those of `--postgres`, and room for this many clients.
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

    /// Updates of single rows per second.
    pub(crate) fn update(&self, clients: usize, seconds: u64) -> Result<f64> {
        // The time includes that for connecting, though the rate does not. On a busy machine it may be over before all
        // clients are connected; then pgbench gets more.
        let connecting = (clients as u64).div_ceil(CONNECTED_PER_SECOND);
        self.run(connecting + seconds, clients).or_else(|_| self.run(4 * (connecting + seconds), clients))
    }

    fn run(&self, seconds: u64, clients: usize) -> Result<f64> {
        let threads =
            std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).clamp(1, clients);
        let output = Command::new(self.postgres.program("pgbench"))
            .args(["-M", "prepared", "-n", "--random-seed=1", "-U", "postgres", "-h"])
            .arg(self.postgres.socket_directory())
            .args(["-f".as_ref(), self.scripts.path().join("update.sql").as_os_str()])
            .args(["-D", &format!("rows={}", self.rows), "-T", &seconds.to_string()])
            .args(["-c", &clients.to_string(), "-j", &threads.to_string(), self.database.name()])
            .output()
            .context("pgbench is missing: run `make setup`")?;
        let text = String::from_utf8_lossy(&output.stdout);
        match tps(&text) {
            Some(rate) if output.status.success() => Ok(rate),
            _ => bail!("pgbench: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)),
        }
    }
}

/// Runs SQL statements in a database of the server and returns their output.
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

/// The size of a database on disk, in bytes.
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
    fn the_rate_is_found_in_the_output_of_pgbench() {
        let output = "initial connection time = 2.1 ms\ntps = 24012.345 (without initial connection time)\n";
        assert_eq!(super::tps(output), Some(24012.345));
    }
}
