//! The committer's side of PostgreSQL: two round trips for a batch. The first locks the feed and loads, the second
//! writes and commits; the statements of a round trip are pipelined.
//!
//! The feed is locked before the first read. So every decision is made on committed state that no other replica can
//! change, without row locks, and versions are in commit order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use hyperfleet_core::Catalog;
use hyperfleet_core::rules::{LoadPlan, WorkingSet};
use tokio_postgres::{Client, Statement};

use super::connect::Address;
use super::listen::CHANNEL;
use super::notify::NotifyPacer;
use super::{load, persist, writes};
use crate::failure::{Failure, FailureKind};
use crate::write::{self, Decided};

/// The longest time that a notification by itself may delay the next batch.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Writer {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    session: Option<Session>,
    pacer: NotifyPacer,
}

/// A connection with its prepared statements.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) load: load::Statements,
    pub(super) writes: writes::Statements,
}

impl Session {
    async fn open(address: &Address) -> Result<Self, Failure> {
        let client = address.connect_by_key().await?;
        let load = load::Statements::prepare(&client).await?;
        let writes = writes::Statements::prepare(&client).await?;
        Ok(Self { client, load, writes })
    }
}

impl Writer {
    pub(super) fn new(address: Address, catalog: Arc<Catalog>, timeout: Duration) -> Self {
        let pacer = NotifyPacer::new(Instant::now());
        Self { address, catalog, timeout, session: None, pacer }
    }

    /// Locks the feed and loads. The session is taken out, so that it is dropped with its transaction on any failure.
    async fn begin(&mut self, plan: &LoadPlan) -> Result<(Session, WorkingSet), Failure> {
        let session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => Session::open(&self.address).await?,
        };
        let set = load::load(&session, &self.catalog, plan).await?;
        Ok((session, set))
    }

    async fn transact(
        &mut self,
        plan: &LoadPlan,
        decide: impl FnOnce(WorkingSet) -> Decided,
    ) -> Result<Decided, Failure> {
        let (session, set) = match self.begin(plan).await {
            // Nothing is written yet, so a connection that broke since the last batch is replaced.
            Err(failure) if failure.kind == FailureKind::Unavailable => self.begin(plan).await?,
            begun => begun?,
        };
        let decided = decide(set);
        if decided.set.is_unchanged() {
            session.client.batch_execute("rollback").await?;
            self.session = Some(session);
            // Many batches without a commit may follow, which must not delay a notification.
            write::Writer::notify(self).await;
            return Ok(decided);
        }
        if !decided.set.changes().is_empty() {
            self.pacer.add();
        }
        let now = Instant::now();
        let notifies = self.pacer.is_due(now);
        persist::persist(&session, &self.catalog, &decided.set, notifies).await?;
        if notifies {
            self.pacer.sent(now);
        }
        self.session = Some(session);
        Ok(decided)
    }
}

impl write::Writer for Writer {
    async fn commit(
        &mut self,
        plan: &LoadPlan,
        decide: impl FnOnce(WorkingSet) -> Decided + Send,
    ) -> Result<Decided, Failure> {
        let result = tokio::time::timeout(self.timeout, self.transact(plan, decide)).await;
        result.unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "the commit took too long")))
    }

    /// Without a connection, the first commit on a new one notifies.
    fn notification_due(&self) -> Option<Instant> {
        self.pacer.due().filter(|_| self.session.is_some())
    }

    async fn notify(&mut self) {
        let now = Instant::now();
        if !self.pacer.is_due(now) {
            return;
        }
        let Some(session) = self.session.take() else { return };
        let notify = format!("select pg_notify('{CHANNEL}', version::text) from feed");
        match tokio::time::timeout(NOTIFY_TIMEOUT, session.client.batch_execute(&notify)).await {
            Ok(Ok(())) => {
                self.pacer.sent(now);
                self.session = Some(session);
            }
            failed => tracing::warn!(error = ?failed, "cannot notify other replicas"),
        }
    }
}

/// Prepares statements side by side.
pub(super) async fn prepare<const N: usize>(
    client: &Client,
    texts: [String; N],
) -> Result<[Statement; N], Failure> {
    let statements = try_join_all(texts.iter().map(|text| client.prepare(text))).await?;
    statements.try_into().map_err(|_| Failure::new(FailureKind::Defect, "as many statements as texts"))
}

/// Statements by name, prepared side by side on one connection.
macro_rules! statements {
    ($($name:ident: $text:expr,)*) => {
        pub(in crate::postgres) struct Statements {
            $(pub(in crate::postgres) $name: tokio_postgres::Statement,)*
        }

        impl Statements {
            pub(in crate::postgres) async fn prepare(
                client: &tokio_postgres::Client,
            ) -> Result<Self, $crate::failure::Failure> {
                let [$($name),*] = $crate::postgres::writer::prepare(client, [$($text),*]).await?;
                Ok(Self { $($name),* })
            }
        }
    };
}
pub(super) use statements;
