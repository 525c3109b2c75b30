//! How PostgreSQL answers the queries that run all day.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Client;
use hyperfleet_core::search::Filter;
use hyperfleet_core::{Catalog, Contract, Tenant, View};
use hyperfleet_testkit::{Database, Postgres};
use tokio_postgres::SimpleQueryMessage;

use super::read::{self, Begin, ListStatement};
use crate::facets::Facet;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::search::plans::{Daily, Index, SIZE, Spelling, daily, fill};
use crate::search::{Plan, Value};
use crate::{ListQuery, Options, SslMode, Target};

/// More rows than this are never looked at for a page of twenty, in a table that has [`SIZE`], but for what is overdue.
const MOST_ROWS: f64 = 10_000.0;
/// What is overdue passes up to seven scans, for the page and again for the total.
const ROWS_EACH_DUE: f64 = 15.0;

/// Tables of a row or two for each kind, label and condition.
const SMALL: [&str; 3] = ["feed", "kind_counts", "facet_counts"];

#[tokio::test]
async fn a_page_of_a_daily_query_is_found_by_its_index_whatever_the_planner_knows_of_the_values() {
    let database = Postgres::shared().database().await;
    let store = fleet(&database).await;
    let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
    let view = View { catalog: &catalog, contract: Contract::DOCUMENTED, tenancy: false };
    let lease = store.lease().await.unwrap();
    for daily in daily() {
        let page = read::list(lease.client(), None, view, &daily.query).await.unwrap();
        let ids: Vec<_> = page.items.iter().map(|item| item.id).collect();
        assert_eq!((ids, page.total), (daily.ids.clone(), daily.total), "{}", daily.name);
        check(lease.client(), view, &daily).await;
    }
    lease.give_back();
}

/// Behind the wall, whatever a list looks at is shown by policies. They must not keep it from its indexes.
#[tokio::test]
async fn a_page_of_a_daily_query_is_found_by_an_index_for_a_tenant_large_or_small() {
    let database = Postgres::shared().database().await;
    let store = fleet(&database).await;
    let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
    let view = View { catalog: &catalog, contract: Contract::DOCUMENTED, tenancy: true };
    let [large, small] =
        ["large", "small"].map(|org| Tenant::new(&[("org".to_owned(), org.to_owned())].into()));
    let lease = store.lease().await.unwrap();
    let client = lease.client();
    client.batch_execute(&settle(&large, &small)).await.unwrap();
    client.batch_execute("vacuum analyze").await.unwrap();
    for (daily, tenant) in daily().iter().flat_map(|daily| [(daily, &large), (daily, &small)]) {
        let filter = Filter::And(vec![daily.query.filter.clone(), Filter::OfTenant(tenant.clone())]);
        // To count what a tenant has of something is to look at it.
        let query = ListQuery { filter, count: false, ..daily.query.clone() };
        let page = read::list(client, store.within(Some(tenant)), view, &query).await.unwrap();
        let ids: Vec<_> = page.items.iter().map(|item| item.id).collect();
        assert!(*tenant == small || ids == daily.ids, "{} finds {ids:?}", daily.name);

        let mut plan = Plan::of(&query);
        let driver = match plan.needs_numbers() {
            false => plan.begin(),
            true => match read::begin(client, &mut plan).await.unwrap() {
                Begin::With(driver) => driver,
                Begin::NothingAt(_) => continue,
            },
        };
        let ListStatement { text, values, is_lasting } = read::list_statement(&plan, driver, view, &query);
        let role = &store.wall.as_deref().unwrap().role;
        client
            .execute(
                "select set_config('role', $1, false), set_config('hyperfleet.tenant', $2, false)",
                &[role, &tenant.as_str()],
            )
            .await
            .unwrap();
        for mode in modes(is_lasting) {
            Work::of(client, &text, &values, mode).await.little(daily);
        }
        client.batch_execute("reset role").await.unwrap();
    }
    lease.give_back();
}

/// Gives the fleet to one tenant, and some resources like those in it to another.
fn settle(large: &Tenant, small: &Tenant) -> String {
    let like = "cast(overlay(cast(id as text) placing '9' from 20) as uuid)";
    let mut statements = format!(
        "update resources set tenancy = '{large}';
         create temporary table few as select id, {like} as new from resources
         where deleted_time is null and right(cast(id as text), 2) = '01' limit 300;
         insert into resources
             (id, kind, name, ancestors, generation, spec, labels, refs, created_time, created_by, updated_time,
              updated_by, tenancy)
         select new, kind, name, '', generation, spec, labels, refs, created_time, created_by, updated_time, updated_by,
                '{small}'
         from few join resources using (id);
         insert into resource_status (resource_id, version, conditions, pending_since, confirmed_after)
         select new, version, conditions, pending_since, confirmed_after
         from few join resource_status on resource_id = id;
         insert into resource_facets (facet, created_time, resource_id)
         select facet, created_time, new from few join resource_facets on resource_id = id;"
    );
    for (kind, tenant) in ["Cluster", "NodePool"].into_iter().flat_map(|kind| [(kind, large), (kind, small)])
    {
        let facet = Facet::tenant(kind, tenant).uuid();
        statements.push_str(&format!(
            "insert into resource_facets (facet, created_time, resource_id)
             select '{facet}', created_time, id from resources where kind = '{kind}' and tenancy = '{tenant}';
             insert into facet_counts (facet, active, finalizing)
             select '{facet}', count(*), 0 from resources where kind = '{kind}' and tenancy = '{tenant}';"
        ));
    }
    statements
}

/// Looks at every statement that a list sends.
async fn check(client: &Client, view: View<'_>, daily: &Daily) {
    let mut plan = Plan::of(&daily.query);
    let driver = match plan.needs_numbers() {
        false => plan.begin(),
        true => {
            let (text, values) = read::numbers_statement(&plan);
            let first = Work::of(client, &text, &values, "force_custom_plan").await.little(daily);
            let later = Work::of(client, &text, &values, "force_generic_plan").await.little(daily);
            match read::begin(client, &mut plan).await.unwrap() {
                Begin::With(driver) => driver,
                Begin::NothingAt(_) => return [first, later].iter().for_each(|by| found_by(daily, by)),
            }
        }
    };
    let ListStatement { text, values, is_lasting } = read::list_statement(&plan, driver, view, &daily.query);
    for mode in modes(is_lasting) {
        found_by(daily, &Work::of(client, &text, &values, mode).await.little(daily));
    }
}

/// A statement that lasts is planned for its values first, and for any values later.
fn modes(is_lasting: bool) -> impl Iterator<Item = &'static str> {
    ["force_custom_plan", "force_generic_plan"].into_iter().take(1 + usize::from(is_lasting))
}

fn found_by(daily: &Daily, indexes: &BTreeSet<String>) {
    let wanted: &[&str] = match daily.by {
        Index::Id => &["resources_pkey"],
        Index::Name => &["resources_by_name"],
        Index::Owner => &["resources_by_owner"],
        // For a kind that most are of, the index of all kinds is as good.
        Index::Kind => &["resources_by_kind", "resources_by_creation"],
        Index::Creation => &["resources_by_creation"],
        Index::Finalizing => &["resources_finalizing"],
        Index::Facet => &["resource_facets_pkey"],
        Index::Confirmed => &["resource_status_confirmed"],
        Index::Reference => &["resource_references_by_target"],
    };
    assert!(wanted.iter().any(|index| indexes.contains(*index)), "{} by {indexes:?}", daily.name);
}

/// What was done to answer.
#[derive(Debug, Default)]
struct Work {
    indexes: BTreeSet<String>,
    /// Tables that were read from one end to the other.
    whole: BTreeSet<String>,
    /// How many rows were looked at, shown or not.
    rows: f64,
    /// Processes that were started to help, which takes longer than a page.
    workers: f64,
    plan: String,
}

impl Work {
    async fn of(client: &Client, statement: &str, values: &[Value], mode: &str) -> Self {
        let values: Vec<String> = values.iter().map(literal).collect();
        let call = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let prepare = format!("set plan_cache_mode = {mode}; prepare explained as {statement}");
        let explain = format!("explain (analyze, timing off, format json) execute explained {call}");
        client.batch_execute(&prepare).await.unwrap();
        let lines = client.simple_query(&explain).await.unwrap();
        client.batch_execute("deallocate explained; reset plan_cache_mode").await.unwrap();
        let line = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        let plan: serde_json::Value =
            serde_json::from_str(&lines.iter().filter_map(line).collect::<String>()).unwrap();
        let mut work = Self { plan: format!("{mode}: {statement}\n{plan:#}"), ..Self::default() };
        work.add(&plan[0]["Plan"]);
        work
    }

    fn add(&mut self, node: &serde_json::Value) {
        let number = |name: &str| node[name].as_f64().unwrap_or_default();
        let text = |name: &str| node[name].as_str().unwrap_or_default();
        if !text("Index Name").is_empty() {
            self.indexes.insert(text("Index Name").to_owned());
        }
        if text("Node Type") == "Seq Scan" && !SMALL.contains(&text("Relation Name")) {
            self.whole.insert(text("Relation Name").to_owned());
        }
        self.workers += number("Workers Launched");
        if text("Node Type").contains("Scan") {
            let removed = number("Rows Removed by Filter") + number("Rows Removed by Index Recheck");
            self.rows += (number("Actual Rows") + removed) * number("Actual Loops");
        }
        node["Plans"].as_array().into_iter().flatten().for_each(|child| self.add(child));
    }

    /// That it was little, and by which indexes.
    fn little(self, daily: &Daily) -> BTreeSet<String> {
        let Self { indexes, whole, rows, workers, plan } = self;
        assert!(whole.is_empty(), "{} reads the whole of {whole:?}, {plan}", daily.name);
        let most = MOST_ROWS + ROWS_EACH_DUE * daily.due as f64;
        assert!(rows < most, "{} looks at {rows} rows, {plan}", daily.name);
        assert!(workers < 1.0, "{} starts {workers} workers, {plan}", daily.name);
        indexes
    }
}

/// A value as it is written in a statement.
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

/// A store with the fleet in it, and statistics as autovacuum keeps them.
async fn fleet(database: &Database) -> super::Postgres {
    let options = Options {
        target: Target::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None },
        max_connections: 1,
        request_timeout: Duration::from_secs(60),
        connect_attempts: 1,
        connect_interval: Duration::from_millis(1),
        queue_limit: 1,
        migrate: true,
        tenants: true,
    };
    let catalog = Arc::new(Catalog::new(Catalog::default_descriptors()).unwrap());
    let (store, _) = super::open(&options, catalog, &Feed::default(), &Metrics::default()).await.unwrap();
    let lease = store.lease().await.unwrap();
    for statement in fill(&spelling()) {
        lease.client().batch_execute(&statement).await.unwrap();
    }
    lease.client().batch_execute("vacuum analyze").await.unwrap();
    lease.give_back();
    store
}

fn spelling() -> Spelling {
    Spelling {
        numbers: format!("generate_series(1, {SIZE}) n"),
        id: |number| format!("cast('019b7600-0000-7000-8000-' || lpad(to_hex({number}), 12, '0') as uuid)"),
        time: |seconds| format!("to_timestamp({seconds})"),
        printed_time: |seconds| {
            format!("to_char(to_timestamp({seconds}), 'YYYY-MM-DD\"T\"HH24:MI:SS\".000000Z\"')")
        },
        facet: |facet| format!("cast('{}' as uuid)", facet.uuid()),
    }
}
