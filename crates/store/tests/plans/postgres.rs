//! Query plans of frequent queries on PostgreSQL.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Client;
use hyperfleet_core::search::{Direction, Scope, SortField, TimeColumn};
use hyperfleet_core::{Catalog, Contract, Reservation, ResourceId, Tenant, View};
use hyperfleet_testkit::{Database, Postgres};
use tokio_postgres::SimpleQueryMessage;

use super::feed::{BOUNDS, PAGE, STATES, snapshot_statement};
use super::history::timeline_statement;
use super::read::{self, Begin, ListStatement};
use super::related_resources;
use super::row_security::TenantScope;
use crate::database_health::DatabaseHealth;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::search::plans::{
    FixtureDialect, FrequentQuery, Index, LARGE_TENANT, SIZE, fill, frequent_queries,
};
use crate::search::{Dialect, Driver, Plan, Value};
use crate::{Backend, ListQuery, Options, SslMode, Start};

/// The most rows that are read for a page of twenty from a table of [`SIZE`] rows, without stale resources.
const MOST_ROWS: f64 = 10_000.0;
/// Stale resources pass up to seven scans, for the page and again for the total.
const ROWS_EACH_DUE: f64 = 15.0;
/// With row-level security, the resource of each row is looked up too.
const ROWS_EACH_FOR_TENANTS: f64 = 2.0;

/// Tables with few rows.
const SMALL_TABLES: [&str; 4] = ["feed", "history", "kind_counts", "facet_counts"];

#[tokio::test]
async fn a_page_of_a_frequent_query_is_found_by_its_index_in_custom_and_generic_plans() {
    let database = Postgres::shared().database().await;
    let store = fleet(&database).await;
    let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
    let view = View {
        catalog: &catalog,
        contract: Contract::Documented,
        tenancy: false,
        href_prefix: "/api/hyperfleet/v1",
    };
    let connection = store.lists.take().await.unwrap();
    for frequent in frequent_queries() {
        // Policies must not keep a tenant's queries from their indexes.
        for tenant_scope in
            [Some(None), frequent.tenant.as_ref().map(|tenant| store.tenant_scope(Some(tenant)))]
                .into_iter()
                .flatten()
        {
            let page =
                read::list(connection.client(), tenant_scope, view, &frequent.query, &Reservation::default())
                    .await
                    .unwrap();
            let ids: Vec<_> = page.items.iter().map(|item| item.id).collect();
            assert_eq!((ids, page.total), (frequent.ids.clone(), frequent.total), "{}", frequent.name);
            check(connection.client(), tenant_scope, view, &frequent).await;
        }
    }
    connection.give_back();
}

#[tokio::test]
async fn descendants_of_a_resource_are_found_by_the_index_of_owners() {
    let database = Postgres::shared().database().await;
    let store = fleet(&database).await;
    let connection = store.lists.take().await.unwrap();
    // The owner of the most.
    let owner = ResourceId::parse("019b7600-0000-7000-8000-000000000001").unwrap();
    for tenant_scope in [None, store.tenant_scope(Some(&Tenant::from_stored(LARGE_TENANT)))] {
        if let Some(tenant_scope) = tenant_scope {
            confine(connection.client(), tenant_scope).await;
        }
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let work =
                Work::of(connection.client(), &related_resources::BELOW, &[Value::Id(owner)], mode).await;
            assert!(work.indexes.contains("resources_by_owner") && work.whole.is_empty(), "{work:?}");
            assert!(work.rows < MOST_ROWS, "{work:?}");
        }
    }
    connection.client().batch_execute("reset role").await.unwrap();
    connection.give_back();
}

/// Fifty thousand changes of one resource among others. Only the count may read all of its changes.
#[tokio::test]
async fn a_page_of_a_long_timeline_costs_the_same_wherever_it_begins() {
    let database = Postgres::shared().database().await;
    let store = empty(&database).await;
    let connection = store.lists.take().await.unwrap();
    let client = connection.client();
    client.batch_execute(LONG_HISTORY).await.unwrap();
    client.batch_execute("vacuum analyze").await.unwrap();
    let id = ResourceId::parse(LONG_LIVED).unwrap();
    for start in [i64::MAX, 90_000, 500] {
        let numbers = [start, 1, 22, 0, 20].map(Value::Integer);
        let values = [&[Value::Id(id)], &numbers[..]].concat();
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let work = Work::of(client, &timeline_statement(false, 1 << 24), &values, mode).await;
            assert!(work.indexes.contains("changes_by_resource"), "{}", work.plan);
            assert!(
                !work.whole.contains("changes") && work.rows < 200.0,
                "{} rows: {}",
                work.rows,
                work.plan
            );
        }
    }
    connection.give_back();
}

/// The reads of a watch at 100,000 changes of one resource among others, by plans of each of the times at which the
/// server may have made them: of empty tables, of nearly empty ones and their statistics, and of the tables at last.
/// Behind an old position each later change of a resource may be looked at once, for the parts that none touched.
#[tokio::test]
async fn what_a_watch_reads_does_not_grow_with_the_history_of_a_resource() {
    let (hot, version) = (Value::Id(ResourceId::parse(LONG_LIVED).unwrap()), Value::Integer);
    let reads: [(&str, &str, &[Value], f64); 6] = [
        ("new changes", &PAGE, &[version(199_990), version(256)], 250.0),
        ("no new changes", &PAGE, &[version(200_000), version(256)], 10.0),
        ("an old page", &PAGE, &[version(100_000), version(256)], 70_000.0),
        ("a state", &STATES, &[hot.clone(), version(199_990)], 50.0),
        ("an old state", &STATES, &[hot, version(100_000)], 60_000.0),
        ("the newest version", BOUNDS, &[], 3.0),
    ];
    let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
    let view = View {
        catalog: &catalog,
        contract: Contract::Documented,
        tenancy: false,
        href_prefix: "/api/hyperfleet/v1",
    };
    let scope = Scope { kinds: vec!["Cluster".into()], owner: None, finalizing: true, referring_to: None };
    let clusters = ListQuery {
        filter: scope.confine(None),
        order: vec![(SortField::Time(TimeColumn::CreatedTime), Direction::Ascending)],
        start: Start::Offset(0),
        limit: i64::MAX as u64 - 1,
        count: false,
    };
    for (planned, few, with_statistics) in [("early", 0, false), ("early", 20, true), ("late", 20, true)] {
        let database = Postgres::shared().database().await;
        let store = empty(&database).await;
        let connection = store.catch_up.take().await.unwrap();
        let client = connection.client();
        let tenant = Tenant::from_stored(LARGE_TENANT);
        let tenant_scope = store.tenant_scope(Some(&tenant)).unwrap();
        client.batch_execute(&changes(1, few)).await.unwrap();
        if with_statistics {
            client.batch_execute("analyze").await.unwrap();
        }
        if planned == "late" {
            client.batch_execute(&changes(few + 1, 200_000)).await.unwrap();
            client.batch_execute("vacuum analyze").await.unwrap();
        }
        // The first call makes the plan, which is kept.
        for (number, (_, statement, values, _)) in reads.iter().enumerate() {
            client.batch_execute(&format!("prepare read_{number} as {statement}")).await.unwrap();
            Work::of_prepared(client, &format!("read_{number}"), values).await;
        }
        if planned == "early" {
            client.batch_execute(&changes(few + 1, 200_000)).await.unwrap();
        }
        for (number, (name, statement, values, most)) in reads.iter().enumerate() {
            let work = Work::of_prepared(client, &format!("read_{number}"), values).await;
            work.walks(*most, &format!("{name}, planned {planned} with {few} changes"));
            if *statement == *STATES {
                confine(client, tenant_scope).await;
                let work = Work::of(client, statement, values, "force_generic_plan").await;
                client.batch_execute("reset role").await.unwrap();
                work.walks(*most, &format!("{name} of a tenant, with {few} changes of statistics"));
            }
        }
        connection.give_back();

        let connection = store.lists.take().await.unwrap();
        let select = Plan::of(&clusters).select(&clusters, view, Dialect::Postgres, Driver::Resources);
        let snapshot = snapshot_statement(&select.ids);
        let work = Work::of(connection.client(), &snapshot, &select.values, "auto").await;
        assert!(work.rows < 5_000.0 && work.buffers < 5_000.0, "a snapshot: {work:?}");
        connection.give_back();
    }
}

/// Changes of versions from `first` to `last`: each second one of one resource, the others of a thousand others.
fn changes(first: i64, last: i64) -> String {
    format!(
        "insert into changes (version, resource_id, kind, changed_time, actor, request_id, body, entry_count,
                              touched_parts, tenancy)
         select n, cast('019b7600-0000-7000-8000-' || lpad(owner::text, 12, '0') as uuid),
                'Cluster', now(), 'ann', 'r', '', 1, 36, '{LARGE_TENANT}'
         from (
             select n, case when n % 2 = 0 then 1 else n % 2000 + 2 end as owner
             from generate_series({first}, {last}) n
         ) numbered;
         insert into resources (id, kind, name, ancestors, tenancy, generation, spec, labels, refs, created_time,
                                created_by, updated_time, updated_by)
         select distinct on (resource_id) resource_id, kind, 'n' || version, '', tenancy, 1, '{{}}', '{{}}', '{{}}',
                changed_time, actor, changed_time, actor
         from changes on conflict do nothing;
         insert into resource_status (resource_id, version, tenancy, conditions)
         select resource_id, max(version), min(tenancy), '[]' from changes group by resource_id
         on conflict (resource_id) do update set version = excluded.version;
         update feed set version = greatest(version, {last})"
    )
}

/// Confines the session, as [`TenantScope::query`] does a transaction.
async fn confine(client: &Client, tenant_scope: TenantScope<'_>) {
    let confine = "select set_config('role', $1, false), set_config('hyperfleet.tenant', $2, false)";
    client.execute(confine, &[&tenant_scope.row_security.role, &tenant_scope.tenant.as_str()]).await.unwrap();
}

const LONG_LIVED: &str = "019b7600-0000-7000-8000-000000000001";
/// The last third belongs to others.
const LONG_HISTORY: &str = "
    insert into changes (version, resource_id, kind, changed_time, actor, request_id, body, entry_count, touched_parts)
    select n, cast('019b7600-0000-7000-8000-' || lpad(owner::text, 12, '0') as uuid),
           'Cluster', now(), 'ann', 'r', '', 1, 1
    from (
        select n, case when n % 2 = 0 and n <= 100000 then 1 else n end as owner from generate_series(1, 150000) n
    ) numbered";

/// Checks the plans of every statement of a list.
async fn check(
    client: &Client,
    tenant_scope: Option<TenantScope<'_>>,
    view: View<'_>,
    frequent: &FrequentQuery,
) {
    let mut plan = Plan::of(&frequent.query);
    let driver = match plan.needs_numbers() {
        false => plan.begin(),
        true => {
            let (text, values) = read::numbers_statement(&plan);
            let first = Work::of(client, &text, &values, "force_custom_plan").await.little(frequent, 1.0);
            let later = Work::of(client, &text, &values, "force_generic_plan").await.little(frequent, 1.0);
            match read::begin(client, &mut plan).await.unwrap() {
                Begin::With(driver) => driver,
                Begin::NothingAt(_) => return [first, later].iter().for_each(|by| found_by(frequent, by)),
            }
        }
    };
    let ListStatement { text, values, is_lasting } =
        read::list_statement(&plan, driver, view, &frequent.query, 1 << 24);
    let mut rows_each = 1.0;
    if let Some(tenant_scope) = tenant_scope {
        confine(client, tenant_scope).await;
        rows_each = ROWS_EACH_FOR_TENANTS;
    }
    // A statement that lasts is planned for its values first, and for any values later.
    for mode in ["force_custom_plan", "force_generic_plan"].into_iter().take(1 + usize::from(is_lasting)) {
        found_by(frequent, &Work::of(client, &text, &values, mode).await.little(frequent, rows_each));
    }
    client.batch_execute("reset role").await.unwrap();
}

fn found_by(frequent: &FrequentQuery, indexes: &BTreeSet<String>) {
    let wanted: &[&str] = match frequent.by {
        Index::Id => &["resources_pkey"],
        Index::Name => &["resources_by_name"],
        Index::Owner => &["resources_by_owner"],
        // For a kind that most are of, the index of all kinds is as good.
        Index::Kind => &["resources_by_kind", "resources_by_creation"],
        Index::Creation => &["resources_by_creation"],
        Index::Finalizing => &["resources_finalizing"],
        Index::Facet => &["resource_facets_pkey"],
        Index::Confirmed => &["resource_status_stale"],
        Index::Reference => &["resource_references_by_target"],
    };
    assert!(wanted.iter().any(|index| indexes.contains(*index)), "{} by {indexes:?}", frequent.name);
}

/// The work of a statement.
#[derive(Debug, Default)]
struct Work {
    indexes: BTreeSet<String>,
    /// Tables that were read whole.
    whole: BTreeSet<String>,
    /// The rows that were read, returned or not.
    rows: f64,
    /// The pages that were read, of tables and of indexes.
    buffers: f64,
    /// Parallel workers, which take longer to start than a page to read.
    workers: f64,
    plan: String,
}

impl Work {
    async fn of(client: &Client, statement: &str, values: &[Value], mode: &str) -> Self {
        let prepare = format!("set plan_cache_mode = {mode}; prepare explained as {statement}");
        client.batch_execute(&prepare).await.unwrap();
        let mut work = Self::of_prepared(client, "explained", values).await;
        client.batch_execute("deallocate explained; reset plan_cache_mode").await.unwrap();
        work.plan.insert_str(0, &prepare);
        work
    }

    async fn of_prepared(client: &Client, name: &str, values: &[Value]) -> Self {
        let values: Vec<String> = values.iter().map(literal).collect();
        let call = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let explain = format!("explain (analyze, buffers, timing off, format json) execute {name} {call}");
        let lines = client.simple_query(&explain).await.unwrap();
        let line = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        let plan: serde_json::Value =
            serde_json::from_str(&lines.iter().filter_map(line).collect::<String>()).unwrap();
        let mut work = Self { plan: format!("{plan:#}"), ..Self::default() };
        let root = &plan[0]["Plan"];
        let buffers = |name: &str| root[name].as_f64().unwrap_or_default();
        work.buffers = buffers("Shared Hit Blocks") + buffers("Shared Read Blocks");
        work.add(root);
        work
    }

    fn add(&mut self, node: &serde_json::Value) {
        let number = |name: &str| node[name].as_f64().unwrap_or_default();
        let text = |name: &str| node[name].as_str().unwrap_or_default();
        if !text("Index Name").is_empty() {
            self.indexes.insert(text("Index Name").to_owned());
        }
        if text("Node Type") == "Seq Scan" && !SMALL_TABLES.contains(&text("Relation Name")) {
            self.whole.insert(text("Relation Name").to_owned());
        }
        self.workers += number("Workers Launched");
        if text("Node Type").contains("Scan") {
            let removed = number("Rows Removed by Filter") + number("Rows Removed by Index Recheck");
            self.rows += (number("Actual Rows") + removed) * number("Actual Loops");
        }
        node["Plans"].as_array().into_iter().flatten().for_each(|child| self.add(child));
    }

    /// Asserts that history is read by walking its indexes, and little of it.
    fn walks(&self, most: f64, name: &str) {
        let Self { whole, rows, buffers, plan, .. } = self;
        assert!(whole.is_empty(), "{name} reads the whole of {whole:?}: {plan}");
        assert!(*rows < most && *buffers < most, "{name} takes {rows} rows, {buffers} buffers: {plan}");
    }

    /// Asserts that the work is small, and returns the indexes.
    fn little(self, frequent: &FrequentQuery, rows_each: f64) -> BTreeSet<String> {
        let Self { indexes, whole, rows, workers, plan, buffers: _ } = self;
        assert!(whole.is_empty(), "{} reads the whole of {whole:?}, {plan}", frequent.name);
        let most = rows_each * (MOST_ROWS + ROWS_EACH_DUE * frequent.due as f64);
        assert!(rows < most, "{} looks at {rows} rows, {plan}", frequent.name);
        assert!(workers < 1.0, "{} starts {workers} workers, {plan}", frequent.name);
        indexes
    }
}

/// A value as a literal.
fn literal(value: &Value) -> String {
    let list = |items: Vec<String>| format!("array[{}]", items.join(", "));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match value {
        Value::Text(text) => quoted(text),
        Value::Texts(texts) => list(texts.iter().map(|text| quoted(text)).collect()),
        Value::Integer(number) => number.to_string(),
        Value::Integers(numbers) => list(numbers.iter().map(ToString::to_string).collect()),
        Value::Time(time) => format!("timestamptz '{time}'"),
        Value::Id(id) => format!("uuid '{id}'"),
        Value::Ids(ids) => list(ids.iter().map(|id| format!("uuid '{id}'")).collect()),
        Value::Facet(facet) => format!("uuid '{}'", facet.uuid()),
    }
}

/// An empty store.
async fn empty(database: &Database) -> super::Postgres {
    let options = Options {
        backend: Backend::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None },
        max_connections: 1,
        request_timeout: Duration::from_secs(60),
        connect_attempts: 1,
        connect_interval: Duration::from_millis(1),
        queue_limit: 1,
        migrate: true,
        tenants: true,
    };
    let catalog = Arc::new(Catalog::new(Catalog::default_descriptors()).unwrap());
    super::open(&options, catalog, &Feed::default(), &Metrics::default(), &DatabaseHealth::default())
        .await
        .unwrap()
        .0
}

/// A store with the fleet, and with statistics.
async fn fleet(database: &Database) -> super::Postgres {
    let store = empty(database).await;
    let connection = store.lists.take().await.unwrap();
    for statement in fill(&dialect()) {
        connection.client().batch_execute(&statement).await.unwrap();
    }
    connection.client().batch_execute("vacuum analyze").await.unwrap();
    connection.give_back();
    store
}

fn dialect() -> FixtureDialect {
    FixtureDialect {
        numbers: format!("generate_series(1, {SIZE}) n"),
        id: |number| format!("cast('019b7600-0000-7000-8000-' || lpad(to_hex({number}), 12, '0') as uuid)"),
        time: |seconds| format!("to_timestamp({seconds})"),
        printed_time: |seconds| {
            format!("to_char(to_timestamp({seconds}), 'YYYY-MM-DD\"T\"HH24:MI:SS\".000000Z\"')")
        },
        facet: |facet| format!("cast('{}' as uuid)", facet.uuid()),
        tenancy_of_status: Some("tenancy"),
    }
}
