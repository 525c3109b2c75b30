//! The write path. Commands wait in the queue of the [`Committer`]; it takes a [batch](batch::Batch) of them, a
//! [`Writer`] loads what they can touch, the rules decide one command after the other, and the writer
//! persists the [`Differences`] in the same transaction.

mod batch;
mod committer;
mod differences;
pub(crate) mod facets;
mod report_times;
#[cfg(test)]
mod tests;

use std::time::Instant;

use hyperfleet_core::Timestamp;
use hyperfleet_core::rules::{LoadPlan, WorkingSet};

use crate::failure::Failure;

pub(crate) use batch::CommandResult;
pub(crate) use committer::Committer;
pub(crate) use differences::{ConfirmedResource, Differences};
pub(crate) use report_times::{ReportTimes, updated_after, updated_after_of};

/// The writing side of a database.
pub(crate) trait Writer: Send + 'static {
    /// Loads the rows of `plan`, decides on them at the time of the database, and commits the differences, all in one
    /// transaction. After a failure nothing is committed, unless the connection broke during the commit: then the outcome is
    /// unknown.
    fn commit(
        &mut self,
        plan: &LoadPlan,
        decide: impl FnOnce(WorkingSet, Timestamp) -> DecidedBatch + Send,
    ) -> impl Future<Output = Result<DecidedBatch, Failure>> + Send;

    /// When other replicas are to be notified of what was committed, unless a commit does so before.
    fn notification_due(&self) -> Option<Instant> {
        None
    }

    /// Notifies other replicas of what was committed.
    fn notify(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A batch that was decided: the set to persist, and the answer to each command, in order.
#[derive(Debug)]
pub(crate) struct DecidedBatch {
    pub(crate) set: WorkingSet,
    pub(crate) answers: Vec<CommandResult>,
}
