//! Migrations on SQLite, in one write transaction: a second process that starts waits for it.

use rusqlite::{Connection, TransactionBehavior};

use crate::maintenance::migrations::{self, Applied, Migration, MigrationReport, OpenError};

const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "0001_baseline",
    compatible_from: 1,
    sql: include_str!("migrations/0001_baseline.sql"),
}];

const APPLIED: &str = "select number, name, compatible_from from schema_migrations order by number";

/// Brings the schema up to date, or checks it when migrations are manual.
pub(super) fn run(connection: &mut Connection, apply: bool) -> Result<MigrationReport, OpenError> {
    let fail = |error: rusqlite::Error| OpenError::new(format!("the database refused a migration: {error}"));
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    transaction
        .execute_batch(
            "create table if not exists schema_migrations (
                 number integer primary key,
                 name text not null,
                 compatible_from integer not null,
                 applied_time text not null default current_timestamp
             )",
        )
        .map_err(fail)?;
    let applied: Vec<Applied> = transaction
        .prepare(APPLIED)
        .and_then(|mut statement| {
            let step = |row: &rusqlite::Row<'_>| {
                Ok(Applied {
                    number: row.get("number")?,
                    name: row.get("name")?,
                    compatible_from: row.get("compatible_from")?,
                })
            };
            statement.query_map((), step)?.collect()
        })
        .map_err(fail)?;
    let pending = migrations::pending(MIGRATIONS, &applied)?;
    if !apply && !pending.is_empty() {
        return Err(migrations::behind(pending, &applied));
    }
    for step in pending {
        transaction.execute_batch(step.sql).map_err(fail)?;
        transaction
            .execute(
                "insert into schema_migrations (number, name, compatible_from) values (?1, ?2, ?3)",
                (step.number, step.name, step.compatible_from),
            )
            .map_err(fail)?;
        tracing::info!(migration = step.name, "migrated the database");
    }
    transaction.commit().map_err(fail)?;
    Ok(MigrationReport::of(pending, &applied))
}

/// Whether this release works with a schema.
pub(super) fn check(applied: &[Applied]) -> Result<(), OpenError> {
    migrations::check(MIGRATIONS, applied)
}
