//! The committer's side of PostgreSQL: two flights per batch. The first locks the feed and loads,
//! the second writes and commits; everything within a flight is pipelined.
//!
//! The feed lock is taken before the first read, not last: then every decision is made on
//! committed state that nobody can change, without row locks, and versions are commit order. As
//! it would be held through the commit anyway, taking it early costs only the load.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use hyperfleet_core::Catalog;
use hyperfleet_core::rules::{Needs, WorkingSet};
use tokio_postgres::Client;

use super::connect::Address;
use super::{load, persist};
use crate::commit::Verdicts;
use crate::failure::{Failure, FailureKind};

pub(crate) struct Writer {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    session: Option<Session>,
}

/// A connection with its prepared statements.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) load: load::Statements,
    pub(super) persist: persist::Statements,
}

impl Session {
    async fn open(address: &Address) -> Result<Self, Failure> {
        let client = address.connect_by_key().await?;
        let load = load::Statements::prepare(&client).await?;
        let persist = persist::Statements::prepare(&client).await?;
        Ok(Self { client, load, persist })
    }
}

impl Writer {
    pub(super) fn new(address: Address, catalog: Arc<Catalog>, timeout: Duration) -> Self {
        Self { address, catalog, timeout, session: None }
    }

    /// Drops the connection, and with it whatever transaction was open.
    pub(crate) fn reset(&mut self) {
        self.session = None;
    }

    /// Loads, decides, persists. A failure means that nothing was committed, or, when the
    /// connection broke during the commit, that nobody knows.
    pub(crate) async fn commit(
        &mut self,
        needs: &Needs,
        deliberate: impl FnOnce(WorkingSet) -> Verdicts,
    ) -> Result<Verdicts, Failure> {
        let timeout = self.timeout;
        let result = tokio::time::timeout(timeout, self.transact(needs, deliberate)).await;
        let result =
            result.unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "the commit took too long")));
        if result.is_err() {
            // Whatever state the session is in, a new one is in none.
            self.reset();
        }
        result
    }

    async fn transact(
        &mut self,
        needs: &Needs,
        deliberate: impl FnOnce(WorkingSet) -> Verdicts,
    ) -> Result<Verdicts, Failure> {
        let set = match self.begin(needs).await {
            // Nothing was written yet, so a connection that broke since the last batch is no one's loss.
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                self.reset();
                self.begin(needs).await?
            }
            other => other?,
        };
        let verdicts = deliberate(set);
        let session = self.session.as_ref().ok_or_else(|| Failure::new(FailureKind::Defect, "no session"))?;
        if verdicts.set.is_unchanged() {
            session.client.batch_execute("rollback").await?;
        } else {
            persist::persist(session, &verdicts.set).await?;
        }
        Ok(verdicts)
    }

    async fn begin(&mut self, needs: &Needs) -> Result<WorkingSet, Failure> {
        let session = match &mut self.session {
            Some(session) if !session.client.is_closed() => session,
            slot => slot.insert(Session::open(&self.address).await?),
        };
        load::load(session, &self.catalog, needs).await
    }
}

/// Prepares statements side by side.
pub(super) async fn prepare<const N: usize>(
    client: &Client,
    texts: [String; N],
) -> Result<[tokio_postgres::Statement; N], Failure> {
    let statements = try_join_all(texts.iter().map(|text| client.prepare(text))).await?;
    statements.try_into().map_err(|_| Failure::new(FailureKind::Defect, "as many statements as texts"))
}
