//! Row-level security without the access scope: reads for a tenant whose filter does not name the tenant, as after a
//! defect in the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::join;
use hyperfleet_core::rules::{ReportLimits, Rulebook};
use hyperfleet_core::search::{self, Direction, Scope, SortField, TimeColumn};
use hyperfleet_core::{
    AccessScope, Caller, Catalog, Claim, Command, Contract, Create, Delete, EntityDescriptor, Finding,
    Intent, MANDATORY, RawJson, ReferenceDescriptor, ReportedStatus, Reservation, ResourceId, SpecSchemas,
    Submission, SubmitReport, Tenant, Timestamp, Version,
};
use hyperfleet_testkit::{Database, Postgres};
use tokio_postgres::types::ToSql;

use super::{CONFINE, POLICIES, TenantScope};
use crate::failure::Failure;
use crate::feed::FeedRow;
use crate::read::Reader;
use crate::read::lists::{ListQuery, Page, Slice, SliceStart, Start};
use crate::{Backend, Metrics, Options, SslMode, Store};

const WHOLE: Slice = Slice { start: SliceStart::Offset(0), limit: 100, count: true };

/// Two tenants with the same things: a release, a cluster that refers to it and was reported on, and a release that is
/// gone.
struct Neighbours {
    store: Store,
    database: Database,
    here: Side,
    there: Side,
}

struct Side {
    tenant: Tenant,
    cluster: ResourceId,
    release: ResourceId,
}

impl Neighbours {
    async fn settle() -> Self {
        let database = Postgres::shared().database().await;
        let store = open(&database).await;
        let (here, there) = (Side::settle(&store, "here").await, Side::settle(&store, "there").await);
        Self { store, database, here, there }
    }

    fn postgres(&self) -> &super::super::Postgres {
        postgres(&self.store)
    }

    /// What a list that does not name the tenant shows to a tenant, or to a system caller.
    async fn list(&self, side: Option<&Side>, search: &str, count: bool) -> Result<Page, Failure> {
        let tenant = side.map(|side| &side.tenant);
        self.postgres()
            .list(tenant, &unconfined(search, count), &self.store.rulebook, &Reservation::default())
            .await
    }

    /// Runs a statement for a tenant, on the only connection.
    async fn ask(&self, side: &Side, text: &str) -> Result<Vec<String>, String> {
        let postgres = self.postgres();
        let connection = postgres.lists.take().await.unwrap();
        let confine = connection.client().prepare_cached(CONFINE).await.unwrap();
        let statement = connection.client().prepare(text).await.unwrap();
        let tenant_scope =
            TenantScope { row_security: postgres.row_security.as_deref().unwrap(), tenant: &side.tenant };
        let rows = tenant_scope
            .query(connection.client(), &confine, connection.client().query(&statement, &[]))
            .await;
        connection.give_back();
        let rows = rows.map_err(|failure| failure.chain())?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Runs a statement as the owner of the tables.
    async fn as_owner(&self, text: &str) -> Vec<String> {
        let values: [&(dyn ToSql + Sync); 0] = [];
        let connection = self.postgres().lists.take().await.unwrap();
        let rows = connection.client().query(text, &values).await.unwrap();
        connection.give_back();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

fn postgres(store: &Store) -> &super::super::Postgres {
    match &store.reader {
        Reader::Postgres(postgres) => postgres,
        Reader::Sqlite(_) => unreachable!("these tests are about PostgreSQL"),
    }
}

impl Side {
    async fn settle(store: &Store, org: &str) -> Self {
        let tenant = Tenant::new(&BTreeMap::from([("org".to_owned(), org.to_owned())]));
        let release = create(store, &tenant, "Release", "4-17", &[]).await;
        let cluster = create(store, &tenant, "Cluster", "same-name", &[release]).await;
        submit(store, &tenant, report(cluster)).await;
        let claim = Claim {
            group: "sentinel".into(),
            name: "range-0".into(),
            holder: org.into(),
            ttl: Duration::from_secs(3600),
            expected: None,
        };
        store.claim(&AccessScope::new(Some(tenant.clone()), None), &claim).await.unwrap();
        // What is gone is in the history still.
        let gone = create(store, &tenant, "Release", "4-16", &[]).await;
        submit(store, &tenant, Intent::Delete(Delete { target: target(gone), expected: None })).await;
        Self { tenant, cluster, release }
    }

    fn own(&self) -> Vec<ResourceId> {
        vec![self.cluster, self.release]
    }
}

async fn open(database: &Database) -> Store {
    let options = Options {
        backend: Backend::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None },
        // One connection, so that whatever a read left behind is met by the next.
        max_connections: 1,
        request_timeout: Duration::from_secs(30),
        connect_attempts: 1,
        connect_interval: Duration::from_millis(1),
        queue_limit: 64,
        migrate: true,
        tenants: true,
    };
    let release =
        EntityDescriptor { kind: "Release".into(), plural: "releases".into(), ..EntityDescriptor::default() };
    let cluster = EntityDescriptor {
        kind: "Cluster".into(),
        plural: "clusters".into(),
        required_adapters: vec!["validator".into()],
        references: vec![ReferenceDescriptor {
            ref_type: "release".into(),
            target_kind: "Release".into(),
            ..ReferenceDescriptor::default()
        }],
        ..EntityDescriptor::default()
    };
    let rulebook = Arc::new(Rulebook {
        catalog: Arc::new(Catalog::new(vec![release, cluster]).unwrap()),
        schemas: SpecSchemas::default(),
        max_member_bytes: 1 << 20,
        report_limits: ReportLimits::default(),
        contract: Contract::Documented,
        legacy_conditions: false,
        tenancy: true,
        href_prefix: "/api/hyperfleet/v1",
    });
    Store::open(&options, rulebook, Metrics::default()).await.unwrap()
}

async fn create(
    store: &Store,
    tenant: &Tenant,
    kind: &str,
    name: &str,
    releases: &[ResourceId],
) -> ResourceId {
    let id = ResourceId::generate();
    let references = releases.iter().map(|id| ("release".to_owned(), vec![*id])).collect();
    let create = Create {
        id,
        kind: kind.into(),
        ancestors: Vec::new(),
        name: name.to_owned(),
        spec: serde_json::json!({"size": 3}),
        labels: [("environment".to_owned(), "dev".to_owned())].into_iter().collect(),
        references,
    };
    submit(store, tenant, Intent::Create(create)).await;
    id
}

async fn submit(store: &Store, tenant: &Tenant, intent: Intent) {
    let scope = AccessScope::new(Some(tenant.clone()), None);
    let caller = Caller { actor: "me".to_owned(), request_id: "r".to_owned(), scope };
    store.execute(Command { caller, dry_run: false, idempotency: None, intent }).await.unwrap();
}

fn target(id: ResourceId) -> hyperfleet_core::ResourcePath {
    hyperfleet_core::ResourcePath { kind: None, id: id.to_string(), ancestors: Vec::new() }
}

fn report(on: ResourceId) -> Intent {
    let finding =
        |kind: &str| Finding { kind: kind.into(), status: ReportedStatus::True, reason: None, message: None };
    let submission = Submission {
        adapter: "validator".into(),
        observed_generation: 1,
        observed_time: Some(Timestamp::from_micros(1_000_000)),
        conditions: MANDATORY.map(finding).to_vec(),
        data: RawJson::from_stored("{}"),
        metadata: None,
    };
    Intent::Report(SubmitReport { target: target(on), submission })
}

/// A list of both kinds, the newest first, that says nothing of tenants.
fn unconfined(search: &str, count: bool) -> ListQuery {
    let scope = Scope {
        kinds: vec!["Cluster".into(), "Release".into()],
        owner: None,
        finalizing: false,
        referring_to: None,
    };
    let search =
        (!search.is_empty()).then(|| search::parse(search, search::Options { tenancy: true }).unwrap());
    ListQuery {
        filter: scope.confine(search),
        order: vec![(SortField::Time(TimeColumn::CreatedTime), Direction::Descending)],
        start: Start::Offset(0),
        limit: 100,
        count,
    }
}

#[tokio::test]
async fn a_tenant_gets_no_resource_of_another_by_id() {
    let all = Neighbours::settle().await;
    let (here, there) = (&all.here, &all.there);
    // At once, so that reads of both tenants and of a system caller share a batch.
    let ids = [here.cluster, there.cluster, here.release, there.release];
    let asked = [Some(&here.tenant), Some(&there.tenant), None]
        .into_iter()
        .cycle()
        .take(120)
        .zip(ids.into_iter().cycle());
    let found = join_all(asked.map(async |(tenant, id)| {
        let found = all.postgres().get(tenant, id).await.unwrap();
        assert!(found.as_ref().is_none_or(|resource| resource.id == id));
        (tenant, id, found.is_some())
    }));
    for (tenant, id, found) in found.await {
        let owner = if here.own().contains(&id) { here } else { there };
        assert_eq!(found, tenant.is_none_or(|tenant| *tenant == owner.tenant), "{id} for {tenant:?}");
    }
}

#[tokio::test]
async fn a_failed_read_by_id_of_a_tenant_fails_no_other_read_and_leaves_no_setting() {
    let all = Neighbours::settle().await;
    let role = &all.postgres().row_security.as_deref().unwrap().role;
    let get = async |tenant| all.postgres().get(tenant, all.here.cluster).await;
    let (here, there) = (Some(&all.here.tenant), Some(&all.there.tenant));
    assert!(get(here).await.unwrap().is_some());
    all.as_owner(&format!("revoke select on resources from {role}")).await;
    let (tenants, systems) = join!(get(here), get(None));
    assert!(tenants.unwrap_err().chain().contains("permission denied") && systems.unwrap().is_some());
    all.as_owner(&format!("grant select on resources to {role}")).await;
    assert!(get(there).await.unwrap().is_none() && get(here).await.unwrap().is_some());
}

#[tokio::test]
async fn a_list_without_the_tenants_filter_shows_and_counts_the_tenants_resources_only() {
    let all = Neighbours::settle().await;
    let searches = [
        "",
        "name like '%'",
        "id != 'x'",
        "labels.environment = 'dev'",
        "labels.environment in ['dev', 'production'] and name != 'x'",
        "status.conditions.Reconciled = 'True' or kind = 'Release'",
        "spec.size = 3",
        "status.conditions.Reconciled.last_updated_time < '2099-01-01T00:00:00Z' or kind = 'Release'",
        "labels.environment = 'dev' and not status.conditions.Reconciled = 'Unknown'",
    ];
    for (search, side) in searches.iter().flat_map(|search| [(search, &all.here), (search, &all.there)]) {
        let page = all.list(Some(side), search, false).await.unwrap();
        assert_eq!(page.items.iter().map(|item| item.id).collect::<Vec<_>>(), side.own(), "{search}");
        // The next read on this connection is not confined any more.
        assert_eq!(all.list(None, search, false).await.unwrap().items.len(), 4, "{search}");
    }
    for search in ["name like '%'", "spec.size = 3", "labels.environment = 'dev' and name != 'x'"] {
        assert_eq!(all.list(Some(&all.here), search, true).await.unwrap().total, Some(2), "{search}");
        assert_eq!(all.list(None, search, true).await.unwrap().total, Some(4), "{search}");
    }
    // Kept totals are of all tenants. What has a label is not told, and what a kind has may not even be asked.
    assert_eq!(all.list(Some(&all.here), "labels.environment = 'dev'", true).await.unwrap().total, Some(0));
    let refused = all.list(Some(&all.here), "", true).await.unwrap_err().chain();
    assert!(refused.contains("permission denied for table kind_counts"), "{refused}");
    assert_eq!(all.list(None, "", true).await.unwrap().total, Some(4));
}

#[tokio::test]
async fn reports_on_resources_of_another_tenant_are_neither_shown_nor_counted() {
    let all = Neighbours::settle().await;
    for (side, other) in [(&all.here, &all.there), (&all.there, &all.here)] {
        for (id, count) in [(side.cluster, 1), (other.cluster, 0)] {
            let page = all
                .postgres()
                .reports(Some(&side.tenant), id, &WHOLE, &Reservation::default())
                .await
                .unwrap();
            assert_eq!((page.total, page.items.len()), (Some(count), count as usize));
        }
    }
    assert_eq!(
        all.postgres().reports(None, all.here.cluster, &WHOLE, &Reservation::default()).await.unwrap().total,
        Some(1)
    );
}

#[tokio::test]
async fn the_related_resources_of_a_resource_of_another_tenant_are_not_found() {
    let all = Neighbours::settle().await;
    for (tenant, found) in [(Some(&all.here.tenant), true), (Some(&all.there.tenant), false), (None, true)] {
        let related = all.postgres().related_resources(tenant, all.here.cluster).await.unwrap();
        assert_eq!(related.map(|related| related.reports.len()), found.then_some(1));
    }
}

#[tokio::test]
async fn a_watch_begins_with_the_tenants_resources_only() {
    let all = Neighbours::settle().await;
    for (side, other) in [(&all.here, &all.there), (&all.there, &all.here)] {
        let search = unconfined("labels.environment = 'dev' and name != 'x'", false);
        let (_, found) =
            all.postgres().snapshot(Some(&side.tenant), &search, &all.store.rulebook).await.unwrap();
        assert_eq!(found.into_iter().map(|(_, id)| id).collect::<Vec<_>>(), side.own());
        let ids = [side.cluster, other.cluster];
        let states = all.postgres().states(Some(&side.tenant), &ids, Version::default()).await.unwrap();
        let known = |rows: &Vec<FeedRow>| rows.iter().filter(|row| row.change.is_some()).count();
        assert_eq!(states.iter().map(known).collect::<Vec<_>>(), [1, 0]);
        let is_there = |rows: &Vec<FeedRow>| rows.iter().any(|row| row.current.is_some());
        assert_eq!(states.iter().map(is_there).collect::<Vec<_>>(), [true, false]);
    }
}

#[tokio::test]
async fn every_row_about_a_resource_is_visible_to_one_tenant_only() {
    let all = Neighbours::settle().await;
    for (table, _) in POLICIES {
        let rows = format!("select t::text from {table} t order by t::text");
        let here = all.ask(&all.here, &rows).await.unwrap();
        let there = all.ask(&all.there, &rows).await.unwrap();
        assert!(!here.is_empty() && here.len() == there.len(), "{table}: {here:?}, {there:?}");
        assert!(here.iter().all(|row| !there.contains(row)), "{table}: {here:?}, {there:?}");
        let owner = all.as_owner(&rows).await;
        match table {
            // One for each kind; those of labels and conditions are of both.
            "facet_counts" => assert_eq!((here.len(), owner.len() > 4), (2, true)),
            _ => assert_eq!(owner.len(), here.len() + there.len(), "{table}"),
        }
    }
}

#[tokio::test]
async fn a_tenants_transaction_reads_only_granted_tables_and_writes_nothing() {
    let all = Neighbours::settle().await;
    for (statement, refusal) in [
        ("select name from secrets", "permission denied for table secrets"),
        ("select kind from aggregations", "permission denied for table aggregations"),
        ("select response from idempotency_records", "permission denied for table idempotency_records"),
        ("select active::text from kind_counts", "permission denied for table kind_counts"),
        ("delete from changes returning kind", "cannot execute DELETE in a read-only transaction"),
        ("select (1 / (version - version))::text from feed", "division by zero"),
    ] {
        let refused = all.ask(&all.here, statement).await.unwrap_err();
        assert!(refused.contains(refusal), "{statement}: {refused}");
        // Whatever fails, the transaction is over.
        let row = all
            .as_owner("select current_user || coalesce(current_setting('hyperfleet.tenant', true), '')")
            .await;
        assert_eq!(row, ["postgres"]);
    }
    let rights = "select t.relname || ' ' || a.privilege_type from pg_class t, aclexplode(t.relacl) a
                  join pg_roles r on r.oid = a.grantee
                  where r.rolname like 'hyperfleet_tenant_%' and a.privilege_type <> 'SELECT'";
    assert_eq!(all.as_owner(rights).await, [""; 0]);
}

#[tokio::test]
async fn missing_policies_are_found_and_installed_at_the_next_start_or_row_level_security_is_off() {
    let all = Neighbours::settle().await;
    let leaks = async || {
        all.list(Some(&all.here), "name like '%'", false).await.is_ok_and(|page| page.items.len() > 2)
    };
    for hole in ["drop policy one_tenant on TABLE", "alter table TABLE disable row level security"] {
        assert!(!leaks().await);
        // A resource is shown with its status, and both have a policy.
        for (table, leaking) in [("resources", false), ("resource_status", true)] {
            all.as_owner(&hole.replace("TABLE", table)).await;
            assert_eq!(leaks().await, leaking, "{hole}: {table}");
        }
        open(&all.database).await;
        assert!(!leaks().await, "{hole}");
    }
    // What a role may do is for its maker to say.
    let row_security = all.postgres().row_security.as_deref().unwrap();
    all.as_owner(&format!("alter role {} bypassrls", row_security.role)).await;
    assert!(postgres(&open(&all.database).await).row_security.is_none());
}
