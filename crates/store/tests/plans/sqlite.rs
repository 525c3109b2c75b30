//! How SQLite answers the queries that run all day.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyperfleet_core::{
    Catalog, Contract, Phase, RawJson, Reservation, Resource, ResourceId, Snapshot, Stamp, Timestamp,
    Version, View, json_text,
};
use rusqlite::{Connection, ToSql};

use super::feed::{BOUNDS, PAGE, STATES};
use super::read::{self, ListStatements};
use super::{Location, history, migrate};
use crate::codec::compression::compress;
use crate::search::plans::{FixtureDialect, FrequentQuery, Index, SIZE, fill, frequent_queries};
use crate::{TimelineQuery, TimelineStart};

/// More steps of SQLite's machine than this are never taken for a page of twenty, but for what is overdue. To read a
/// kind takes half a million.
const MOST_STEPS: u64 = 100_000;
/// To find what is overdue, to look at it for the page and for the total, and to sort it.
const STEPS_EACH_DUE: u64 = 160;
const STEPS_BETWEEN_COUNTS: i32 = 100;

#[test]
fn a_page_of_a_frequent_query_is_found_by_its_index() {
    let mut connection = fleet();
    let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
    let view = View {
        catalog: &catalog,
        contract: Contract::Documented,
        tenancy: false,
        href_prefix: "/api/hyperfleet/v1",
    };
    let steps = count_steps(&mut connection);
    for frequent in frequent_queries() {
        steps.store(0, Ordering::Relaxed);
        let page = read::list(&connection, view, &frequent.query, &Reservation::default()).unwrap();
        let taken = steps.load(Ordering::Relaxed);
        let ids: Vec<_> = page.items.iter().map(|item| item.id).collect();
        assert_eq!((ids, page.total), (frequent.ids.clone(), frequent.total), "{}", frequent.name);
        let ListStatements { ids, total, values } =
            read::list_statements(&connection, view, &frequent.query).unwrap();
        let plan = [&ids, &total].map(|statement| explain(&connection, statement, &values)).concat();
        let most = MOST_STEPS + STEPS_EACH_DUE * frequent.due as u64;
        assert!(taken < most, "{} takes {taken} steps: {plan:#?}", frequent.name);
        found_by(&frequent, &plan);
    }
}

/// Fifty thousand changes of one resource among others, of which only the count looks at all.
#[test]
fn a_page_of_a_long_timeline_costs_the_same_wherever_it_begins() {
    let mut connection = Location::new(None).connect().unwrap();
    migrate::run(&mut connection, true).unwrap();
    connection.execute_batch(LONG_HISTORY).unwrap();
    let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
    let id = ResourceId::parse("019b7600-0000-7000-8000-000000000001").unwrap();
    let last = Resource {
        id,
        kind: "Cluster".into(),
        name: "gone".to_owned(),
        tenancy: None,
        ancestors: Vec::new(),
        generation: 2,
        spec: RawJson::from_stored("{}"),
        labels: RawJson::from_stored("{}"),
        references: RawJson::from_stored("{}"),
        created: Stamp { at: Timestamp::from_micros(0), by: "ann".to_owned() },
        updated: Stamp { at: Timestamp::from_micros(0), by: "ann".to_owned() },
        phase: Phase::Active,
        conditions: RawJson::from_stored("[]"),
        pending_since: None,
        version: Version(100_000),
    };
    let entries = Some(r#"[{"action":"created","changes":[]}]"#);
    let last = json_text(&Snapshot::of(&last));
    for (body, versions) in
        [(compress([entries, None, None]), "< 100000"), (compress([entries, None, Some(&last)]), "= 100000")]
    {
        let update = format!("update changes set body = ?1 where version {versions}");
        connection.execute(&update, [body.unwrap()]).unwrap();
    }
    let steps = count_steps(&mut connection);
    for start in [
        TimelineStart::Offset(0),
        TimelineStart::Before(Version(90_000), 1),
        TimelineStart::Before(Version(500), 1),
    ] {
        steps.store(0, Ordering::Relaxed);
        let query = TimelineQuery { start, limit: 20, count: false };
        let (_, page) =
            history::timeline(&connection, &catalog, id, &query, &Reservation::default()).unwrap().unwrap();
        let taken = steps.load(Ordering::Relaxed);
        assert_eq!((page.items.len(), page.more), (20, true), "{start:?}");
        assert!(taken < MOST_STEPS / 20, "{start:?} takes {taken} steps");
    }
}

/// The reads of a watch at 100,000 changes of one resource among others. Behind an old position each later change of the
/// resource may be looked at once, for the parts that none touched.
#[test]
fn what_a_watch_reads_does_not_grow_with_the_history_of_a_resource() {
    let mut connection = Location::new(None).connect().unwrap();
    migrate::run(&mut connection, true).unwrap();
    connection.execute_batch(&LONG_HISTORY.replace("n < 100000", "n < 200000")).unwrap();
    let steps = count_steps(&mut connection);
    let id = "019b7600-0000-7000-8000-000000000001";
    let reads: [(&str, &str, &[&dyn ToSql], u64); 5] = [
        ("new changes", &PAGE, &[&199_980, &256], MOST_STEPS / 20),
        ("an old page", &PAGE, &[&100_000, &256], 10 * MOST_STEPS),
        ("a state", &STATES, &[&id, &199_980], MOST_STEPS / 100),
        ("an old state", &STATES, &[&id, &100_000], 10 * MOST_STEPS),
        ("the newest version", BOUNDS, &[], MOST_STEPS / 100),
    ];
    for statistics in ["", "analyze"] {
        connection.execute_batch(statistics).unwrap();
        for (name, statement, values, most) in &reads {
            steps.store(0, Ordering::Relaxed);
            let mut statement = connection.prepare(statement).unwrap();
            let mut rows = statement.query(*values).unwrap();
            while rows.next().unwrap().is_some() {}
            let taken = steps.load(Ordering::Relaxed);
            assert!(taken < *most, "{name} takes {taken} steps, statistics: {statistics:?}");
        }
    }
}

const LONG_HISTORY: &str = "
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 100000)
    insert into changes
        (version, resource_id, kind, changed_time, actor, request_id, body, entry_count, touched_parts)
    select n, printf('019b7600-0000-7000-8000-%012x', case when n % 2 = 0 then 1 else n end),
           'Cluster', n, 'ann', 'r', '', 1, 1
    from numbers";

fn found_by(frequent: &FrequentQuery, plan: &[String]) {
    let wanted = match frequent.by {
        Index::Id => "r USING INDEX sqlite_autoindex_resources_1 (id=?",
        Index::Name => "r USING INDEX resources_by_name (kind=? AND name=?",
        Index::Owner => "r USING INDEX resources_by_owner (owner_id=? AND kind=?",
        Index::Kind => "r USING INDEX resources_by_kind (kind=?",
        Index::Creation => "r USING INDEX resources_by_creation",
        Index::Finalizing => "r USING INDEX resources_finalizing (kind=?",
        Index::Facet => "f0 USING PRIMARY KEY (facet=?",
        Index::Confirmed => "s USING INDEX resource_status_stale (updated_after<?",
        Index::Reference => {
            "resource_references USING INDEX resource_references_by_target (target_id=? AND ref_type=?"
        }
    };
    assert!(plan.iter().any(|line| line.contains(wanted)), "{}: {plan:#?}", frequent.name);
}

/// Counts what the connection does, in a number that can be set back.
fn count_steps(connection: &mut Connection) -> Arc<AtomicU64> {
    let steps = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&steps);
    let count = move || {
        counter.fetch_add(STEPS_BETWEEN_COUNTS as u64, Ordering::Relaxed);
        false
    };
    connection.progress_handler(STEPS_BETWEEN_COUNTS, Some(count)).unwrap();
    steps
}

fn explain(connection: &Connection, statement: &str, values: &[crate::search::Value]) -> Vec<String> {
    let mut statement = connection.prepare(&format!("explain query plan {statement}")).unwrap();
    read::bind(&mut statement, values).unwrap();
    let mut lines = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get(3).unwrap());
    }
    lines
}

/// A database with the fleet in it.
fn fleet() -> Connection {
    let mut connection = Location::new(None).connect().unwrap();
    migrate::run(&mut connection, true).unwrap();
    for statement in fill(&dialect()) {
        connection.execute_batch(&statement).unwrap();
    }
    connection
}

fn dialect() -> FixtureDialect {
    FixtureDialect {
        numbers: format!(
            "(with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {SIZE})
              select n from numbers)"
        ),
        id: |number| format!("printf('019b7600-0000-7000-8000-%012x', {number})"),
        time: |seconds| format!("({seconds}) * 1000000"),
        printed_time: |seconds| format!("strftime('%Y-%m-%dT%H:%M:%S.000000Z', {seconds}, 'unixepoch')"),
        facet: |facet| format!("x'{}'", facet.uuid().simple()),
        tenancy_of_status: None,
    }
}
