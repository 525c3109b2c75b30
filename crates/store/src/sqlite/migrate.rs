//! Migrations on SQLite, in one write transaction: a second process that starts waits for it.

use rusqlite::{Connection, TransactionBehavior};

use super::functions;
use crate::migrations::{self, Migration, MigrationReport, OpenError};

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

/// Brings the schema up to date, or checks it when migrations are manual.
pub(super) fn run(connection: &mut Connection, apply: bool) -> Result<MigrationReport, OpenError> {
    let fail = |error: rusqlite::Error| OpenError::new(format!("the database refused a migration: {error}"));
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    transaction
        .execute_batch(
            "create table if not exists schema_migrations (
                 number integer primary key,
                 name text not null,
                 applied_time text not null default current_timestamp
             )",
        )
        .map_err(fail)?;
    let current: i32 = transaction
        .query_row("select coalesce(max(number), 0) from schema_migrations", (), |row| row.get(0))
        .map_err(fail)?;
    functions::register_facet(&transaction).map_err(fail)?;
    let pending = migrations::pending(MIGRATIONS, current)?;
    if !apply && !pending.is_empty() {
        return Err(migrations::behind(pending, current));
    }
    for step in pending {
        transaction.execute_batch(step.sql).map_err(fail)?;
        transaction
            .execute("insert into schema_migrations (number, name) values (?1, ?2)", (step.number, step.name))
            .map_err(fail)?;
        tracing::info!(migration = step.name, "migrated the database");
    }
    transaction.commit().map_err(fail)?;
    Ok(MigrationReport {
        applied: pending.iter().map(|m| m.name).collect(),
        at: pending.last().map_or(current, |m| m.number),
    })
}
