//! The committer's side of SQLite: one immediate transaction per batch, on one connection.

use std::sync::Arc;

use hyperfleet_core::rules::{LoadPlan, WorkingSet};
use hyperfleet_core::{Catalog, Timestamp};
use rusqlite::{Connection, TransactionBehavior};

use super::{load, persist};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::write::{DecidedBatch, Writer};

pub(crate) struct SqliteWriter {
    connection: Connection,
    catalog: Arc<Catalog>,
    clock: Clock,
}

impl SqliteWriter {
    pub(super) fn new(connection: Connection, catalog: Arc<Catalog>, clock: Clock) -> Self {
        Self { connection, catalog, clock }
    }
}

impl Writer for SqliteWriter {
    async fn commit(
        &mut self,
        plan: &LoadPlan,
        decide: impl FnOnce(WorkingSet, Timestamp) -> DecidedBatch + Send,
    ) -> Result<DecidedBatch, Failure> {
        // Rolled back when it is dropped, also by a panic.
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let set = load::load(&transaction, &self.catalog, plan, &self.clock)?;
        let decided = decide(set, self.clock.now());
        if !decided.set.is_unchanged() {
            persist::persist(&transaction, &self.catalog, &decided.set)?;
            transaction.commit()?;
        }
        Ok(decided)
    }
}
