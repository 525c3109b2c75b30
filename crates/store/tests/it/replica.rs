//! A replica on a database, and SQL beside it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyperfleet_core::rules::{Outcome, ReportLimits, Reported, Rulebook};
use hyperfleet_core::{
    AccessScope, Caller, Catalog, Command, Condition, ConditionDescriptor, Contract, Create,
    EntityDescriptor, Error, Finding, Intent, MANDATORY, Patch, PatchBody, RawJson, Report, ReportedStatus,
    Reservation, Resource, ResourceId, SpecSchemas, Submission, SubmitReport, Timestamp,
};
use hyperfleet_store::{Backend, Metrics, Options, Slice, SliceStart, SslMode, Store};
use hyperfleet_testkit::{Database, eventually};

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
pub(crate) const ADAPTERS: [&str; 2] = ["dns", "validator"];

/// One of the processes on a database.
pub(crate) struct Replica {
    store: Store,
}

impl Replica {
    /// On a database of PostgreSQL.
    pub(crate) async fn open(url: String) -> Self {
        Self::at(Backend::Postgres { url, ssl_mode: SslMode::Disable, root_cert_file: None }).await
    }

    pub(crate) async fn at(backend: Backend) -> Self {
        Self::requiring(&ADAPTERS, backend).await
    }

    /// One whose clusters need these adapters.
    pub(crate) async fn requiring(adapters: &[&str], backend: Backend) -> Self {
        Self::with_rules(adapters, &[], backend).await
    }

    /// One whose clusters also have conditions by these rules.
    pub(crate) async fn with_rules(
        adapters: &[&str],
        rules: &[ConditionDescriptor],
        backend: Backend,
    ) -> Self {
        let options = Options {
            backend,
            max_connections: 2,
            request_timeout: Duration::from_secs(20),
            connect_attempts: 1,
            connect_interval: Duration::from_millis(1),
            queue_limit: 4096,
            migrate: true,
            tenants: false,
        };
        let cluster = EntityDescriptor {
            kind: "Cluster".into(),
            plural: "clusters".into(),
            required_adapters: adapters.iter().copied().map(Into::into).collect(),
            conditions: rules.to_vec(),
            ..EntityDescriptor::default()
        };
        let rulebook = Arc::new(Rulebook {
            catalog: Arc::new(Catalog::new(vec![cluster]).unwrap()),
            schemas: SpecSchemas::default(),
            max_member_bytes: 1 << 20,
            report_limits: ReportLimits::default(),
            contract: Contract::Documented,
            legacy_conditions: false,
            tenancy: false,
            href_prefix: "/api/hyperfleet/v1",
        });
        Self { store: Store::open(&options, rulebook, Metrics::default()).await.unwrap() }
    }

    /// Clusters on which every adapter has reported.
    pub(crate) async fn clusters(&self, count: usize) -> Vec<ResourceId> {
        let create = async || {
            let id = ResourceId::generate();
            self.create(id, &id.to_string()).await.unwrap();
            id
        };
        let ids = join_all((0..count).map(|_| create())).await;
        for adapter in ADAPTERS {
            let reports = ids.iter().map(|id| self.report(*id, adapter, 1, "first"));
            assert!(join_all(reports).await.iter().all(Result::is_ok));
        }
        ids
    }

    pub(crate) async fn create(&self, id: ResourceId, name: &str) -> Result<Outcome, Error> {
        self.submit(creation(id, name)).await
    }

    /// A dry run of a create.
    pub(crate) async fn try_to_create(&self, name: &str) -> Result<Outcome, Error> {
        self.carry_out(creation(ResourceId::generate(), name), true).await
    }

    /// Merges a document into a cluster.
    pub(crate) async fn patch(&self, id: ResourceId, document: serde_json::Value) -> Result<Outcome, Error> {
        let body = PatchBody::Merge(document.as_object().unwrap().clone());
        self.submit(Intent::Patch(Patch {
            target: target(id),
            expected: None,
            body: body.into(),
            checked: None,
        }))
        .await
    }

    /// A report that all is well with the first generation, made `second` seconds after the epoch.
    pub(crate) async fn report(
        &self,
        id: ResourceId,
        adapter: &str,
        second: i64,
        message: &str,
    ) -> Result<Reported, Error> {
        self.report_on(1, id, adapter, second, message).await
    }

    /// The same of any generation.
    pub(crate) async fn report_on(
        &self,
        generation: i64,
        id: ResourceId,
        adapter: &str,
        second: i64,
        message: &str,
    ) -> Result<Reported, Error> {
        let finding = |kind: &str| Finding {
            kind: kind.into(),
            status: ReportedStatus::True,
            reason: None,
            message: Some(message.into()),
        };
        let submission = Submission {
            adapter: adapter.into(),
            observed_generation: generation,
            observed_time: Some(at(second)),
            conditions: MANDATORY.map(finding).to_vec(),
            data: RawJson::from_stored("{}"),
            metadata: None,
        };
        match self.submit(Intent::Report(SubmitReport { target: target(id), submission })).await? {
            Outcome::Report(_, reported) => Ok(reported),
            other => unreachable!("{other:?}"),
        }
    }

    pub(crate) async fn submit(&self, intent: Intent) -> Result<Outcome, Error> {
        self.carry_out(intent, false).await
    }

    async fn carry_out(&self, intent: Intent, dry_run: bool) -> Result<Outcome, Error> {
        let caller =
            Caller { actor: "me".to_owned(), request_id: "r".to_owned(), scope: AccessScope::everything() };
        self.store.execute(Command { caller, dry_run, intent, idempotency: None }).await
    }

    pub(crate) async fn resource(&self, id: ResourceId) -> Arc<Resource> {
        self.store.get(&AccessScope::everything(), id).await.unwrap().unwrap()
    }

    pub(crate) async fn stored(&self, id: ResourceId, adapter: &str) -> Report {
        let reports = self
            .store
            .reports(
                &AccessScope::everything(),
                id,
                &Slice { start: SliceStart::Offset(0), limit: 100, count: true },
                &Reservation::default(),
            )
            .await
            .unwrap()
            .unwrap()
            .1
            .items;
        reports.into_iter().find(|report| *report.adapter == *adapter).unwrap()
    }

    /// The report of an adapter as an explanation reads it.
    pub(crate) async fn explained(&self, id: ResourceId, adapter: &str) -> Report {
        let related = self.store.related_resources(&AccessScope::everything(), id).await.unwrap().unwrap();
        related.reports.into_iter().find(|report| *report.adapter == *adapter).unwrap()
    }

    /// Both the report and what the resource says of it are those of this second.
    pub(crate) async fn assert_last(&self, id: ResourceId, adapter: &str, second: i64) {
        assert_eq!(self.stored(id, adapter).await.last_report_time, at(second), "{adapter} on {id}");
        assert_eq!(heard_at(&*self.resource(id).await, adapter), at(second), "{adapter} of {id}");
    }
}

/// When an adapter was last heard of, as a resource says.
pub(crate) fn heard_at(resource: &Resource, adapter: &str) -> Timestamp {
    let conditions = Condition::parse_all(resource.conditions.as_str()).unwrap();
    let kind = format!("{}{}Successful", adapter[..1].to_uppercase(), &adapter[1..]);
    conditions.into_iter().find(|condition| condition.kind == kind).unwrap().last_updated_time
}

fn creation(id: ResourceId, name: &str) -> Intent {
    Intent::Create(Create {
        id,
        kind: "Cluster".into(),
        ancestors: Vec::new(),
        name: name.to_owned(),
        spec: serde_json::json!({}),
        labels: Default::default(),
        references: Default::default(),
    })
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

pub(crate) fn target(id: ResourceId) -> hyperfleet_core::ResourcePath {
    hyperfleet_core::ResourcePath { kind: None, id: id.to_string(), ancestors: Vec::new() }
}

/// Executes SQL on a connection of its own, and returns the first number of the first row.
pub(crate) async fn sql(database: &Database, statement: &str) -> Option<i64> {
    let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let messages = client.simple_query(statement).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

/// The feed is at the newest change, and every version before it is there once.
pub(crate) async fn assert_gapless(database: &Database) {
    let newest = sql(database, "select version from feed").await;
    assert_eq!(sql(database, "select max(version) from changes").await, newest);
    assert_eq!(sql(database, "select count(distinct version) from changes").await, newest);
}

/// Commits a transaction that holds the feed lock once a batch waits for the lock.
pub(crate) async fn end_when_awaited(database: &Database, transaction: tokio_postgres::Transaction<'_>) {
    eventually("a batch waits for the feed lock", DEADLINE, async || {
        let waiting = "select count(*) from pg_stat_activity
                       where datname = current_database() and wait_event_type = 'Lock'";
        (sql(database, waiting).await == Some(1)).then_some(())
    })
    .await;
    transaction.commit().await.unwrap();
}
