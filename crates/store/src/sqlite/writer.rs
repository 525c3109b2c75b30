//! The committer's side of SQLite: one immediate transaction per batch, on one connection.

use std::sync::Arc;

use hyperfleet_core::Catalog;
use hyperfleet_core::rules::{Needs, WorkingSet};
use rusqlite::{Connection, TransactionBehavior};

use super::{load, persist};
use crate::commit::Verdicts;
use crate::failure::Failure;

pub(crate) struct Writer {
    connection: Connection,
    catalog: Arc<Catalog>,
}

impl Writer {
    pub(super) fn new(connection: Connection, catalog: Arc<Catalog>) -> Self {
        Self { connection, catalog }
    }

    /// Ends whatever transaction a panic may have left open.
    pub(crate) fn reset(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            tracing::error!(error = %error, "cannot roll back");
        }
    }

    /// Loads, decides, persists. A failure means that nothing was committed.
    pub(crate) fn commit(
        &mut self,
        needs: &Needs,
        deliberate: impl FnOnce(WorkingSet) -> Verdicts,
    ) -> Result<Verdicts, Failure> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let set = load::load(&transaction, &self.catalog, needs)?;
        let verdicts = deliberate(set);
        if !verdicts.set.is_unchanged() {
            persist::persist(&transaction, &verdicts.set)?;
            transaction.commit()?;
        }
        Ok(verdicts)
    }
}
