//! Migrations on PostgreSQL, under an advisory lock, so that replicas that start at once apply them once.

use tokio_postgres::Client;

use super::connect::Address;
use super::row_security::RowSecurity;
use crate::Options;
use crate::failure::{Failure, FailureKind};
use crate::maintenance::migrations::{self, Applied, Migration, MigrationReport, OpenError};

/// The key of the advisory lock.
const LOCK: i64 = 0x4879_7065_7246_6c74;

const OLDEST_SERVER: i32 = 130_000;

const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "0001_baseline",
    compatible_from: 1,
    sql: include_str!("migrations/0001_baseline.sql"),
}];

const APPLIED: &str = "select number, name, compatible_from from schema_migrations order by number";

/// Connects to the server and applies the pending migrations, or checks that there are none; then the same for row-level
/// security if there are tenants.
pub(super) async fn run(
    address: &Address,
    options: &Options,
) -> Result<(MigrationReport, Option<RowSecurity>), OpenError> {
    let client = reach(address, options).await?;
    let fail =
        |failure: Failure| OpenError::new(format!("the database refused a migration: {}", failure.chain()));
    check_server(&client).await?;
    if !options.migrate {
        let applied = applied(&client).await.map_err(fail)?;
        return match migrations::pending(MIGRATIONS, &applied)? {
            [] => {
                let row_security = row_security(&client, options).await.map_err(fail)?;
                Ok((MigrationReport::of(&[], &applied), row_security))
            }
            pending => Err(migrations::behind(pending, &applied)),
        };
    }
    client
        .batch_execute(&format!("set statement_timeout = 0; select pg_advisory_lock({LOCK})"))
        .await
        .map_err(|error| fail(error.into()))?;
    let applied = applied(&client).await.map_err(fail)?;
    let pending = migrations::pending(MIGRATIONS, &applied)?;
    for step in pending {
        apply(&client, step).await.map_err(fail)?;
        tracing::info!(migration = step.name, "migrated the database");
    }
    let row_security = row_security(&client, options).await.map_err(fail)?;
    client
        .batch_execute(&format!("select pg_advisory_unlock({LOCK})"))
        .await
        .map_err(|error| fail(error.into()))?;
    Ok((MigrationReport::of(pending, &applied), row_security))
}

/// Whether this release works with a schema.
pub(super) fn check(applied: &[Applied]) -> Result<(), OpenError> {
    migrations::check(MIGRATIONS, applied)
}

async fn row_security(client: &Client, options: &Options) -> Result<Option<RowSecurity>, Failure> {
    if options.tenants { RowSecurity::find(client, options.migrate).await } else { Ok(None) }
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
                    error = failure.chain(),
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
                    failure.chain()
                )));
            }
        }
    }
}

/// Whether another attempt can help. Errors of the configuration stay.
fn may_pass(failure: &Failure) -> bool {
    failure.kind == FailureKind::Unavailable
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

async fn applied(client: &Client) -> Result<Vec<Applied>, Failure> {
    let there: bool =
        client.query_one("select to_regclass('schema_migrations') is not null", &[]).await?.try_get(0)?;
    if !there {
        return Ok(Vec::new());
    }
    let rows = client.query(APPLIED, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Applied {
                number: row.try_get("number")?,
                name: row.try_get("name")?,
                compatible_from: row.try_get("compatible_from")?,
            })
        })
        .collect()
}

async fn apply(client: &Client, step: &Migration) -> Result<(), Failure> {
    client
        .batch_execute(&format!(
            "begin;
             create table if not exists schema_migrations (
                 number integer primary key,
                 name text not null,
                 compatible_from integer not null,
                 applied_time timestamptz not null default now()
             );
             {}
             insert into schema_migrations (number, name, compatible_from) values ({}, '{}', {});
             commit",
            step.sql, step.number, step.name, step.compatible_from
        ))
        .await?;
    Ok(())
}
