//! The committer's side of PostgreSQL: two round trips for a batch. The first locks the feed and loads, the second
//! writes and commits; the statements of a round trip are pipelined.
//!
//! The feed is locked before the first read. So every decision is made on committed state that no other replica can
//! change, without row locks, and versions are in commit order. PostgreSQL ends the session of a replica that is idle
//! while it holds the lock: one that is frozen or cut off stops the writes of the others for a moment only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyperfleet_core::rules::{LoadPlan, WorkingSet};
use hyperfleet_core::{Catalog, Timestamp, Version};

use super::connect::Address;
use super::listen::CHANNEL;
use super::session::{IDLE_TIMEOUT, MAX_IDLE_TIMEOUT, Session};
use super::{load, persist};
use crate::clock::{Clock, ticks};
use crate::database_health::DatabaseHealth;
use crate::failure::{Failure, FailureKind};
use crate::feed::BATCH_WINDOW;
use crate::write::{DecidedBatch, Writer};

/// The longest time that a notification by itself may delay the next batch.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct PostgresWriter {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    clock: Clock,
    health: DatabaseHealth,
    session: Option<Session>,
    /// How long the next transaction may be idle, if the last one was for too long.
    idle_timeout: Option<Duration>,
    pacer: NotifyPacer,
}

impl PostgresWriter {
    pub(super) fn new(
        address: Address,
        catalog: Arc<Catalog>,
        timeout: Duration,
        (clock, health): (Clock, DatabaseHealth),
    ) -> Self {
        let pacer = NotifyPacer::new(Instant::now());
        Self { address, catalog, timeout, clock, health, session: None, idle_timeout: None, pacer }
    }

    /// Locks the feed and loads. The session is taken out, so that it is dropped with its transaction on any failure.
    async fn begin(&mut self, plan: &LoadPlan) -> Result<(Session, WorkingSet, Timestamp), Failure> {
        let session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => Session::open(&self.address).await?,
        };
        let asked = ticks();
        let (set, now) = load::load(&session, &self.catalog, plan, self.idle_timeout).await?;
        self.clock.read(now, asked);
        Ok((session, set, now))
    }

    /// Whether the session of a transaction broke and nothing is committed of it, so that it can be repeated. The server ends
    /// the session of a replica that was idle in its transaction for too long.
    async fn is_rolled_back(&self, session: &Session, set: &WorkingSet) -> bool {
        if session.client.batch_execute("rollback").await.is_ok() {
            // The session lives: the server refused a statement, such as without disk space, and would again.
            return false;
        }
        let version = async {
            let client = self.address.connect().await?;
            // Waits for the end of the transaction, which holds the lock.
            let row = client.query_one("select version from feed for update", &[]).await?;
            Ok::<_, Failure>(Version(row.try_get(0)?))
        };
        // Without changes it moved times only, which may be repeated.
        set.changes().is_empty() || version.await.is_ok_and(|version| version < set.version())
    }

    async fn transact(
        &mut self,
        plan: &LoadPlan,
        decide: impl FnOnce(WorkingSet, Timestamp) -> DecidedBatch,
    ) -> Result<DecidedBatch, Failure> {
        let (session, set, now) = match self.begin(plan).await {
            // Nothing is written yet, so a connection that broke since the last batch is replaced.
            Err(failure) if failure.kind == FailureKind::Unavailable => self.begin(plan).await?,
            begun => begun?,
        };
        let loaded = Instant::now();
        let decided = decide(set, now);
        if decided.set.is_unchanged() {
            // The answers hold as of the time of the lock, whatever becomes of the session.
            if session.client.batch_execute("rollback").await.is_ok() {
                self.session = Some(session);
            }
            // Many batches without a commit may follow, which must not delay a notification.
            Writer::notify(self).await;
            return Ok(decided);
        }
        if !decided.set.changes().is_empty() {
            self.pacer.add();
        }
        let now = Instant::now();
        let notifies = self.pacer.is_due(now);
        let mut written = persist::persist(&session, &self.catalog, &decided.set, notifies).await;
        if matches!(&written, Err(failure) if failure.kind == FailureKind::Unavailable)
            && self.is_rolled_back(&session, &decided.set).await
        {
            written = Err(Failure::new(FailureKind::Conflict, "the session ended before the commit"));
        }
        self.idle_timeout = match &written {
            Err(failure) if failure.kind == FailureKind::Conflict => {
                Some((loaded.elapsed() * 3).clamp(IDLE_TIMEOUT, MAX_IDLE_TIMEOUT))
            }
            _ => None,
        };
        written?;
        if notifies {
            self.pacer.sent(now);
        }
        self.session = Some(session);
        Ok(decided)
    }
}

impl Writer for PostgresWriter {
    async fn commit(
        &mut self,
        plan: &LoadPlan,
        decide: impl FnOnce(WorkingSet, Timestamp) -> DecidedBatch + Send,
    ) -> Result<DecidedBatch, Failure> {
        let health = self.health.clone();
        let result = tokio::time::timeout(self.timeout, health.or_fail(self.transact(plan, decide))).await;
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

/// When commits notify other replicas. A notification wakes a session of the database and a reader of the feed on each
/// replica, and readers pause between two reads anyway. So under load not every commit notifies: what it leaves pending
/// goes with a later commit, or by itself if none follows. It stays pending until it was sent, whatever fails before.
#[derive(Debug)]
struct NotifyPacer {
    is_pending: bool,
    not_before: Instant,
}

impl NotifyPacer {
    fn new(now: Instant) -> Self {
        Self { is_pending: false, not_before: now }
    }

    /// Other replicas have to be notified of a commit, or of one that may fail.
    fn add(&mut self) {
        self.is_pending = true;
    }

    /// Whether to notify now.
    fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// A notification was sent with what was committed by now.
    fn sent(&mut self, now: Instant) {
        *self = Self { is_pending: false, not_before: now + BATCH_WINDOW };
    }

    /// When a pending notification may be sent.
    fn due(&self) -> Option<Instant> {
        self.is_pending.then_some(self.not_before)
    }
}

#[cfg(test)]
mod tests {
    use hyperfleet_core::rules::{ReportLimits, Rulebook, decide};
    use hyperfleet_core::{AccessScope, Caller, Command, Contract, Create, Intent, ResourceId, SpecSchemas};
    use hyperfleet_testkit::{Database, Postgres, eventually};
    use tokio::runtime::Handle;
    use tokio::task::block_in_place;

    use super::*;
    use crate::feed::Feed;
    use crate::metrics::Metrics;
    use crate::{Backend, Options, SslMode};

    const DEADLINE: Duration = Duration::from_secs(60);

    async fn is_holding_the_lock(database: &Database) -> bool {
        let (client, connection) =
            tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
        let _connection = tokio::spawn(connection);
        let idle = "select count(*) > 0 from pg_stat_activity
                    where datname = current_database() and state = 'idle in transaction'";
        client.query_one(idle, &[]).await.unwrap().get(0)
    }

    /// A name that is free.
    fn creation() -> Command {
        let create = Create {
            id: ResourceId::generate(),
            kind: "Cluster".into(),
            ancestors: Vec::new(),
            name: "cluster".to_owned(),
            spec: serde_json::json!({}),
            labels: Default::default(),
            references: Default::default(),
        };
        let caller =
            Caller { actor: "me".to_owned(), request_id: "r".to_owned(), scope: AccessScope::everything() };
        Command { caller, dry_run: false, intent: Intent::Create(create), idempotency: None }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_idle_replica_loses_the_lock_and_may_try_again() {
        let database = Postgres::shared().database().await;
        let options = Options {
            backend: Backend::Postgres {
                url: database.url(),
                ssl_mode: SslMode::Disable,
                root_cert_file: None,
            },
            max_connections: 1,
            request_timeout: DEADLINE,
            connect_attempts: 1,
            connect_interval: Duration::from_millis(1),
            queue_limit: 1,
            migrate: true,
            tenants: false,
        };
        let rulebook = Rulebook {
            catalog: Arc::new(Catalog::new(Catalog::default_descriptors()).unwrap()),
            schemas: SpecSchemas::default(),
            max_member_bytes: 1 << 20,
            report_limits: ReportLimits::default(),
            contract: Contract::Documented,
            legacy_conditions: false,
            tenancy: false,
            href_prefix: "",
        };
        let (feed, metrics, health) = (Feed::default(), Metrics::default(), DatabaseHealth::default());
        let opened =
            crate::postgres::open(&options, rulebook.catalog.clone(), &feed, &metrics, &health).await;
        let mut writer = opened.unwrap().1;
        let command = creation();
        let plan = LoadPlan::of(&rulebook, [&command]);
        let decided = |mut set: WorkingSet, now| {
            let decision = decide(&rulebook, &set, &command, now).unwrap();
            set.apply(decision, &command.caller, now);
            DecidedBatch { set, answers: Vec::new() }
        };
        let ended = async || (!is_holding_the_lock(&database).await).then_some(());
        let idle = |set: WorkingSet, now| {
            block_in_place(|| {
                Handle::current().block_on(async {
                    assert!(is_holding_the_lock(&database).await);
                    eventually("the end of the session", DEADLINE, ended).await;
                });
            });
            decided(set, now)
        };
        let failure = Writer::commit(&mut writer, &plan, idle).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Conflict, "{failure:?}");
        assert!(writer.idle_timeout.is_some_and(|timeout| timeout > IDLE_TIMEOUT));
        Writer::commit(&mut writer, &plan, decided).await.unwrap();
        assert_eq!(writer.idle_timeout, None);
    }

    #[test]
    fn a_lone_commit_notifies_at_once_and_of_many_commits_one_at_a_time_does() {
        let start = Instant::now();
        let mut pacer = NotifyPacer::new(start);
        assert!(!pacer.is_due(start), "nothing is pending");
        pacer.add();
        assert!(pacer.is_due(start));
        pacer.sent(start);
        pacer.add();
        assert!(!pacer.is_due(start + BATCH_WINDOW / 2));
        assert_eq!(pacer.due(), Some(start + BATCH_WINDOW));
        assert!(pacer.is_due(start + BATCH_WINDOW));
        pacer.sent(start + BATCH_WINDOW);
        assert_eq!(pacer.due(), None);
        pacer.add();
        assert!(pacer.is_due(start + BATCH_WINDOW * 2));
    }

    #[test]
    fn a_notification_that_was_not_sent_stays_due() {
        let start = Instant::now();
        let mut pacer = NotifyPacer::new(start);
        pacer.add();
        assert!(pacer.is_due(start));
        assert!(pacer.is_due(start), "the commit failed");
        pacer.sent(start);
        assert!(!pacer.is_due(start + BATCH_WINDOW));
    }
}
