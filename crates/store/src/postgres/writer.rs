//! The committer's side of PostgreSQL: two round trips for a batch. The first locks the feed and loads, the second
//! writes and commits; the statements of a round trip are pipelined.
//!
//! The feed is locked before the first read. So every decision is made on committed state that no other replica can
//! change, without row locks, and versions are in commit order. PostgreSQL ends the session of a replica that is silent
//! while it holds the lock: one that is frozen or cut off stops the writes of the others for a moment only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use hyperfleet_core::rules::{LoadPlan, WorkingSet};
use hyperfleet_core::{Catalog, Timestamp, Version};
use tokio_postgres::{Client, Statement};

use super::connect::Address;
use super::listen::CHANNEL;
use super::notify::NotifyPacer;
use super::{load, milliseconds, persist, writes};
use crate::clock::{Clock, ticks};
use crate::failure::{Failure, FailureKind};
use crate::outage::Outage;
use crate::write::{self, Decided};

/// The longest time that a notification by itself may delay the next batch.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a replica may be silent in a transaction.
const SILENCE: Duration = Duration::from_millis(1750);

/// The same in a transaction that is repeated because its decisions took longer.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// How long a replica may take no data that PostgreSQL sends, where TCP can tell.
const UNACKNOWLEDGED: Duration = Duration::from_millis(1_500);

pub(crate) struct Writer {
    address: Address,
    catalog: Arc<Catalog>,
    timeout: Duration,
    clock: Clock,
    outage: Outage,
    session: Option<Session>,
    /// How long the next transaction may be silent, if the last one was for too long.
    silence: Option<Duration>,
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
        let (silence, unacknowledged) = (milliseconds(SILENCE), milliseconds(UNACKNOWLEDGED));
        client
            .batch_execute(&format!(
                "set idle_in_transaction_session_timeout = '{silence}'; set tcp_user_timeout = '{unacknowledged}'"
            ))
            .await?;
        let load = load::Statements::prepare(&client).await?;
        let writes = writes::Statements::prepare(&client).await?;
        Ok(Self { client, load, writes })
    }
}

impl Writer {
    pub(super) fn new(
        address: Address,
        catalog: Arc<Catalog>,
        timeout: Duration,
        (clock, outage): (Clock, Outage),
    ) -> Self {
        let pacer = NotifyPacer::new(Instant::now());
        Self { address, catalog, timeout, clock, outage, session: None, silence: None, pacer }
    }

    /// Locks the feed and loads. The session is taken out, so that it is dropped with its transaction on any failure.
    async fn begin(&mut self, plan: &LoadPlan) -> Result<(Session, WorkingSet, Timestamp), Failure> {
        let session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => Session::open(&self.address).await?,
        };
        let asked = ticks();
        let (set, now) = load::load(&session, &self.catalog, plan, self.silence).await?;
        self.clock.read(now, asked);
        Ok((session, set, now))
    }

    /// Whether nothing is committed of a transaction whose session broke, so that it can be repeated. The server ends the
    /// session of a replica that was silent for too long.
    async fn is_rolled_back(&self, set: &WorkingSet) -> bool {
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
        decide: impl FnOnce(WorkingSet, Timestamp) -> Decided,
    ) -> Result<Decided, Failure> {
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
            write::Writer::notify(self).await;
            return Ok(decided);
        }
        if !decided.set.changes().is_empty() {
            self.pacer.add();
        }
        let now = Instant::now();
        let notifies = self.pacer.is_due(now);
        let mut written = persist::persist(&session, &self.catalog, &decided.set, notifies).await;
        if matches!(&written, Err(failure) if failure.kind == FailureKind::Unavailable)
            && self.is_rolled_back(&decided.set).await
        {
            written = Err(Failure::new(FailureKind::Conflict, "the session ended before the commit"));
        }
        self.silence = match &written {
            Err(failure) if failure.kind == FailureKind::Conflict => {
                Some((loaded.elapsed() * 3).clamp(SILENCE, LONGEST_SILENCE))
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

impl write::Writer for Writer {
    async fn commit(
        &mut self,
        plan: &LoadPlan,
        decide: impl FnOnce(WorkingSet, Timestamp) -> Decided + Send,
    ) -> Result<Decided, Failure> {
        let outage = self.outage.clone();
        let result = tokio::time::timeout(self.timeout, outage.or_fail(self.transact(plan, decide))).await;
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

/// The statement that bounds the silence of this replica in its transaction.
pub(super) fn bounded_silence(silence: Duration) -> String {
    format!("set local idle_in_transaction_session_timeout = '{}'", milliseconds(silence))
}

/// How long a replica may be silent while it encodes and sends `size` bytes.
pub(super) fn silence_while_sending(size: usize) -> Duration {
    SILENCE + Duration::from_secs((size >> 20) as u64)
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
    async fn a_silent_replica_loses_the_lock_and_may_try_again() {
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
            base: "",
        };
        let (feed, metrics, outage) = (Feed::default(), Metrics::default(), Outage::default());
        let opened =
            crate::postgres::open(&options, rulebook.catalog.clone(), &feed, &metrics, &outage).await;
        let mut writer = opened.unwrap().1;
        let command = creation();
        let plan = LoadPlan::of(&rulebook, [&command]);
        let decided = |mut set: WorkingSet, now| {
            let decision = decide(&rulebook, &set, &command, now).unwrap();
            set.apply(decision, &command.caller, now);
            Decided { set, answers: Vec::new() }
        };
        let ended = async || (!is_holding_the_lock(&database).await).then_some(());
        let silent = |set: WorkingSet, now| {
            block_in_place(|| {
                Handle::current().block_on(async {
                    assert!(is_holding_the_lock(&database).await);
                    eventually("the end of the session", DEADLINE, ended).await;
                });
            });
            decided(set, now)
        };
        let failure = write::Writer::commit(&mut writer, &plan, silent).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Conflict, "{failure:?}");
        assert!(writer.silence.is_some_and(|silence| silence > SILENCE));
        write::Writer::commit(&mut writer, &plan, decided).await.unwrap();
        assert_eq!(writer.silence, None);
    }
}
