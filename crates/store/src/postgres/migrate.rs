//! Migrations on PostgreSQL, under an advisory lock: ten replicas that start at once do it once.

use tokio_postgres::Client;

use super::connect::Address;
use super::wall::Wall;
use crate::Options;
use crate::failure::{Failure, FailureKind};
use crate::migrations::{self, Migration, MigrationReport, OpenError};

/// Any number, as long as nobody else on the server uses it.
const LOCK: i64 = 0x4879_7065_7246_6c74;

const OLDEST_SERVER: i32 = 130_000;

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "0001_resources", sql: include_str!("migrations/0001_resources.sql") },
    Migration { number: 2, name: "0002_reports", sql: include_str!("migrations/0002_reports.sql") },
    Migration { number: 3, name: "0003_search", sql: include_str!("migrations/0003_search.sql") },
    Migration { number: 4, name: "0004_tenants", sql: include_str!("migrations/0004_tenants.sql") },
    Migration { number: 5, name: "0005_row_security", sql: include_str!("migrations/0005_row_security.sql") },
    Migration { number: 6, name: "0006_history", sql: include_str!("migrations/0006_history.sql") },
    Migration { number: 7, name: "0007_leases", sql: include_str!("migrations/0007_leases.sql") },
    Migration { number: 8, name: "0008_packed", sql: include_str!("migrations/0008_packed.sql") },
    Migration {
        number: 9,
        name: "0009_status_tenancy",
        sql: include_str!("migrations/0009_status_tenancy.sql"),
    },
    Migration {
        number: 10,
        name: "0010_moved_reports",
        sql: include_str!("migrations/0010_moved_reports.sql"),
    },
    Migration {
        number: 11,
        name: "0011_dictionaries",
        sql: include_str!("migrations/0011_dictionaries.sql"),
    },
    Migration { number: 12, name: "0012_noted_times", sql: include_str!("migrations/0012_noted_times.sql") },
];

/// Reaches the server and brings its schema up to date, or checks it when migrations are manual; and the same for the
/// wall between tenants, where there are any.
pub(super) async fn run(
    address: &Address,
    options: &Options,
) -> Result<(MigrationReport, Option<Wall>), OpenError> {
    let client = reach(address, options).await?;
    let fail =
        |failure: Failure| OpenError::new(format!("the database refused a migration: {}", failure.cause));
    check_server(&client).await?;
    if !options.migrate {
        let current = current(&client).await.map_err(fail)?;
        return match migrations::pending(MIGRATIONS, current)? {
            [] => {
                let wall = wall(&client, options).await.map_err(fail)?;
                Ok((MigrationReport { applied: Vec::new(), at: current }, wall))
            }
            pending => Err(migrations::behind(pending, current)),
        };
    }
    // Another replica's migration may take longer than any request.
    client
        .batch_execute(&format!("set statement_timeout = 0; select pg_advisory_lock({LOCK})"))
        .await
        .map_err(|error| fail(error.into()))?;
    let current = current(&client).await.map_err(fail)?;
    let pending = migrations::pending(MIGRATIONS, current)?;
    for step in pending {
        apply(&client, step).await.map_err(fail)?;
        tracing::info!(migration = step.name, "migrated the database");
    }
    let wall = wall(&client, options).await.map_err(fail)?;
    client
        .batch_execute(&format!("select pg_advisory_unlock({LOCK})"))
        .await
        .map_err(|error| fail(error.into()))?;
    let report = MigrationReport {
        applied: pending.iter().map(|m| m.name).collect(),
        at: pending.last().map_or(current, |m| m.number),
    };
    Ok((report, wall))
}

async fn wall(client: &Client, options: &Options) -> Result<Option<Wall>, Failure> {
    if options.tenants { Wall::find(client, options.migrate).await } else { Ok(None) }
}

async fn reach(address: &Address, options: &Options) -> Result<Client, OpenError> {
    let mut attempt = 1;
    loop {
        match address.connect().await {
            Ok(client) => return Ok(client),
            Err(failure) if attempt <= options.connect_attempts && may_pass(&failure) => {
                tracing::warn!(
                    attempt,
                    of = options.connect_attempts,
                    error = failure.cause,
                    "the database is not reachable yet"
                );
                attempt += 1;
                tokio::time::sleep(options.connect_interval).await;
            }
            Err(failure) => {
                return Err(OpenError::new(format!(
                    "cannot connect to the database after {attempt} {}: {}. Check that the server runs, and \
                     what database.url or database.host say: host, name, user, password, TLS",
                    if attempt == 1 { "attempt" } else { "attempts" },
                    failure.cause
                )));
            }
        }
    }
}

/// Whether waiting can help. What the driver finds wrong by itself, such as a password that is not
/// there, stays wrong.
fn may_pass(failure: &Failure) -> bool {
    failure.kind == FailureKind::Unavailable && !failure.cause.contains("invalid configuration")
}

async fn check_server(client: &Client) -> Result<(), OpenError> {
    let fail = |error: tokio_postgres::Error| OpenError::new(format!("the database did not answer: {error}"));
    let row =
        client.query_one("select current_setting('server_version_num')::int", &[]).await.map_err(fail)?;
    let version: i32 = row.try_get(0).map_err(fail)?;
    if version < OLDEST_SERVER {
        return Err(OpenError::new(format!(
            "PostgreSQL {} is too old: 13 or newer is needed",
            version / 10_000
        )));
    }
    Ok(())
}

async fn current(client: &Client) -> Result<i32, Failure> {
    let there: bool =
        client.query_one("select to_regclass('schema_migrations') is not null", &[]).await?.try_get(0)?;
    if !there {
        return Ok(0);
    }
    let row = client.query_one("select coalesce(max(number), 0) from schema_migrations", &[]).await?;
    Ok(row.try_get(0)?)
}

async fn apply(client: &Client, step: &Migration) -> Result<(), Failure> {
    client
        .batch_execute(&format!(
            "begin;
             create table if not exists schema_migrations (
                 number integer primary key,
                 name text not null,
                 applied_time timestamptz not null default now()
             );
             {}
             insert into schema_migrations (number, name) values ({}, '{}');
             commit",
            step.sql, step.number, step.name
        ))
        .await?;
    Ok(())
}
