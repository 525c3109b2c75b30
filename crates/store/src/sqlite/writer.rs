//! The committer's side of SQLite: one immediate transaction per batch, on one connection.

use std::sync::Arc;

use hyperfleet_core::Catalog;
use hyperfleet_core::rules::{Needs, WorkingSet};
use rusqlite::{Connection, TransactionBehavior};

use super::{load, persist};
use crate::commit::{Committed, Verdicts};
use crate::failure::{Failure, FailureKind};
use crate::memory::{Mark, Recalled};
use crate::packed::Dictionaries;

pub(crate) struct Writer {
    connection: Connection,
    catalog: Arc<Catalog>,
    dictionaries: Arc<Dictionaries>,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        catalog: Arc<Catalog>,
        dictionaries: Arc<Dictionaries>,
    ) -> Self {
        Self { connection, catalog, dictionaries }
    }

    /// Ends whatever transaction a panic may have left open.
    pub(crate) fn reset(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            tracing::error!(error = %error, "cannot roll back");
        }
    }

    /// Loads what is not recalled, decides, persists. A failure means that nothing was committed.
    pub(crate) fn commit(
        &mut self,
        needs: &Needs,
        recalled: Option<Recalled>,
        deliberate: impl FnOnce(WorkingSet) -> Verdicts,
    ) -> Result<Committed, Failure> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found = load::mark(&transaction)?;
        let mut set = WorkingSet::new(found.version);
        if let Some(recalled) = recalled {
            if recalled.mark != found {
                return Err(Failure::new(FailureKind::Outdated, "another process has written"));
            }
            recalled.dossiers.into_iter().for_each(|dossier| set.load_dossier(dossier));
        }
        load::load(&transaction, &self.catalog, &self.dictionaries, needs, &mut set)?;
        let verdicts = deliberate(set);
        let mut left = found;
        if !verdicts.set.is_unchanged() {
            left = Mark { version: verdicts.set.version(), commits: found.commits + 1 };
            persist::persist(&transaction, &self.catalog, &self.dictionaries, &verdicts.set, left)?;
            transaction.commit()?;
        }
        Ok(Committed { verdicts, found, left })
    }
}
