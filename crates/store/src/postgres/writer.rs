//! The committer's side of PostgreSQL: two flights per batch. The first locks the feed and loads,
//! the second writes and commits; everything within a flight is pipelined. A batch for which everything is
//! remembered needs the second flight only, and may be sent while the one before it is still on its way: the
//! server carries them out in order.
//!
//! The feed lock is taken before the first read, not last: then every decision is made on
//! committed state that nobody can change, without row locks, and versions are commit order. As
//! it would be held through the commit anyway, taking it early costs only the load.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::try_join;
use hyperfleet_core::rules::{Needs, WorkingSet};
use hyperfleet_core::{Catalog, Version};
use tokio_postgres::Client;

use super::bell::Bell;
use super::connect::Address;
use super::persist::Feed;
use super::statements::{Statements, ring};
use super::{dictionaries, load, persist};
use crate::commit::{Committed, Verdicts};
use crate::failure::{Failure, FailureKind};
use crate::memory::{Mark, Recalled};
use crate::packed::Dictionaries;

/// How long a ring by itself may keep those waiting who come meanwhile.
const RING_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Writer {
    address: Address,
    catalog: Arc<Catalog>,
    dictionaries: Arc<Dictionaries>,
    timeout: Duration,
    session: Option<Arc<Session>>,
    /// The newest version that this session has seen.
    newest: Version,
    bell: Bell,
}

/// A connection with its prepared statements.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) load: load::Statements,
    pub(super) persist: Statements,
    pub(super) dictionaries: Arc<Dictionaries>,
}

impl Session {
    async fn open(address: &Address, dictionaries: &Arc<Dictionaries>) -> Result<Self, Failure> {
        let client = address.connect_by_key().await?;
        let load = load::Statements::prepare(&client).await?;
        let persist = Statements::prepare(&client).await?;
        dictionaries.replace(dictionaries::read(&client).await?)?;
        Ok(Self { client, load, persist, dictionaries: dictionaries.clone() })
    }

    /// Rings for whatever was committed so far.
    async fn ring(&self) -> Result<(), Failure> {
        let ring = format!("select {} from feed", ring("version::text"));
        Ok(self.client.batch_execute(&ring).await?)
    }
}

impl Writer {
    pub(super) fn new(
        address: Address,
        catalog: Arc<Catalog>,
        dictionaries: Arc<Dictionaries>,
        timeout: Duration,
    ) -> Self {
        let bell = Bell::new(Instant::now());
        Self { address, catalog, dictionaries, timeout, session: None, newest: Version(0), bell }
    }

    /// Drops the connection, and with it whatever transaction was open.
    pub(crate) fn reset(&mut self) {
        self.session = None;
        self.newest = Version(0);
        self.may_not_have_rung();
    }

    /// Loads what is not recalled, decides, persists. A failure means that nothing was committed, or, when the
    /// connection broke during the commit, that nobody knows.
    pub(crate) async fn commit(
        &mut self,
        needs: &Needs,
        recalled: Option<Recalled>,
        deliberate: impl FnOnce(WorkingSet) -> Verdicts,
    ) -> Result<Committed, Failure> {
        // Behind a new connection may be another server, that does not know all of what this one once did.
        let relies_on_the_old = recalled.as_ref().is_some_and(|recalled| !recalled.dossiers.is_empty());
        if relies_on_the_old && !self.is_connected() {
            return Err(Failure::new(FailureKind::Outdated, "the connection is new"));
        }
        let result = within(self.timeout, self.load_and_commit(needs, recalled, deliberate)).await;
        // What is outdated is found so in good order, before anything is rung for. Whatever else happened, a new session knows nothing of it.
        if result.as_ref().is_err_and(|failure| failure.kind != FailureKind::Outdated) {
            self.reset();
        }
        result
    }

    async fn load_and_commit(
        &mut self,
        needs: &Needs,
        recalled: Option<Recalled>,
        deliberate: impl FnOnce(WorkingSet) -> Verdicts,
    ) -> Result<Committed, Failure> {
        let everything = recalled.is_none();
        let (found, set) = match self.begin(needs, recalled).await {
            // Nothing was written yet, so a connection that broke since the last batch is no one's loss.
            Err(failure) if failure.kind == FailureKind::Unavailable && everything => {
                self.reset();
                self.begin(needs, None).await?
            }
            Err(failure) if failure.kind == FailureKind::Unavailable => {
                self.reset();
                return Err(Failure::new(FailureKind::Outdated, failure.cause));
            }
            // An older state was put back under us, without the last dictionaries: a new session knows which are left.
            Ok((found, _)) if found.version < self.newest => {
                self.reset();
                self.begin(needs, None).await?
            }
            other => other?,
        };
        self.newest = found.version;
        let session = self.session.as_ref().ok_or_else(|| Failure::new(FailureKind::Defect, "no session"))?;
        let verdicts = deliberate(set);
        if verdicts.set.is_unchanged() {
            session.client.batch_execute("rollback").await?;
            if self.bell.rings(Instant::now(), false) {
                session.ring().await?;
            }
            return Ok(Committed { verdicts, found, left: found });
        }
        let left = found.after(&verdicts.set);
        let rings = self.bell.rings(Instant::now(), !verdicts.set.changes().is_empty());
        persist::persist(session, &self.catalog, &verdicts.set, Feed::Locked { left }, rings).await?;
        self.newest = left.version;
        Ok(Committed { verdicts, found, left })
    }

    /// Whether a batch can be sent without asking anything first. Behind a new connection may be another server.
    pub(crate) fn is_connected(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.client.is_closed())
    }

    /// A batch that was sent has brought the feed here.
    pub(crate) fn reached(&mut self, version: Version) {
        self.newest = version;
    }

    /// Sends a batch that was decided on what is remembered, from its first poll on. It fails unless the feed is
    /// still at `found`. If that is only where batches on their way will leave it (`predicted`), it fails with
    /// them.
    pub(crate) fn send(
        &mut self,
        set: WorkingSet,
        found: Mark,
        predicted: bool,
    ) -> impl Future<Output = (WorkingSet, Result<(), Failure>)> + Send + 'static {
        let (session, catalog, timeout) = (self.session.clone(), self.catalog.clone(), self.timeout);
        let rings = self.bell.rings(Instant::now(), !set.changes().is_empty());
        async move {
            // It holds every column of a batch: moved into all that is around it, it would be copied a dozen times.
            let work = Box::pin(async {
                let session = session.ok_or_else(|| Failure::new(FailureKind::Defect, "no session"))?;
                if set.is_unchanged() {
                    let ring = async { if rings { session.ring().await } else { Ok(()) } };
                    return try_join!(load::check(&session, found, predicted), ring).map(drop);
                }
                let feed = Feed::Expected { found, predicted, left: found.after(&set) };
                persist::persist(&session, &catalog, &set, feed, rings).await
            });
            let result = within(timeout, work).await;
            (set, result)
        }
    }

    /// A batch has failed, and with it the ring that it may have been sent with.
    pub(crate) fn may_not_have_rung(&mut self) {
        self.bell.may_have_failed();
    }

    /// When a ring is due that no commit has paid for. Without a connection it is left to the first commit on a new one.
    pub(crate) fn ring_due(&self) -> Option<Instant> {
        self.bell.due().filter(|_| self.is_connected())
    }

    /// Rings for what no commit has rung for.
    pub(crate) async fn ring(&mut self) {
        let Some(session) = &self.session else { return };
        if self.bell.rings(Instant::now(), false)
            && let Err(failure) = within(RING_TIMEOUT, session.ring()).await
        {
            tracing::warn!(error = failure.cause, "could not ring for other replicas");
            self.reset();
        }
    }

    /// Locks the feed, makes sure that what is recalled is still true, and loads the rest.
    async fn begin(
        &mut self,
        needs: &Needs,
        recalled: Option<Recalled>,
    ) -> Result<(Mark, WorkingSet), Failure> {
        let session = match &mut self.session {
            Some(session) if !session.client.is_closed() => session,
            slot => slot.insert(Arc::new(Session::open(&self.address, &self.dictionaries).await?)),
        };
        load::load(session, &self.catalog, needs, recalled).await
    }
}

async fn within<T>(timeout: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let result = tokio::time::timeout(timeout, work).await;
    result.unwrap_or_else(|_| Err(Failure::new(FailureKind::Timeout, "the commit took too long")))
}

/// Prepares statements side by side.
pub(super) async fn prepare<const N: usize>(
    client: &Client,
    texts: [String; N],
) -> Result<[tokio_postgres::Statement; N], Failure> {
    let statements = try_join_all(texts.iter().map(|text| client.prepare(text))).await?;
    statements.try_into().map_err(|_| Failure::new(FailureKind::Defect, "as many statements as texts"))
}
