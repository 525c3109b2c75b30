//! Searches in both stores against the evaluator in memory: random fleets, random queries, orders and scopes. What a
//! store finds, in which order, how it counts and how its pages continue must be what the evaluator and a plain sort
//! of the API's own JSON say.
//!
//! A run repeats but for ids and times; `PROPTEST_CASES=2560` looks ten times as long (256 is the measure),
//! `PROPTEST_RNG_SEED=7` elsewhere.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "what is not expected fails a test, and how much it saw is told"
)]

mod fleet;
mod steps;
mod vocabulary;

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use hyperfleet_core::search::{
    self, Candidate, Direction, Filter, MAX_BYTES, MAX_LIST, MAX_NESTING, Order, Position, Scope, SortField,
};
use hyperfleet_core::{AccessScope, Labels, Reservation, Resource, statuses};
use hyperfleet_store::{Backend, ListQuery, SslMode, Start};
use hyperfleet_testkit::Postgres;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use serde_json::Value;
use tokio::runtime::Runtime;

use fleet::{Fleet, KINDS, OpenStore, REF_TYPES};
use steps::steps;
use vocabulary::{Vocabulary, member, quoted, shown};

/// How often a fleet is changed and then searched.
const ROUNDS: u64 = 6;
const STEPS: usize = 30;
/// By `PROPTEST_CASES`.
const QUERIES: u32 = 300;

fn config(count: u32, round: u64) -> Config {
    let given = Config::default();
    let seed = match given.rng_seed {
        RngSeed::Random => 20_261_117,
        RngSeed::Fixed(seed) => seed,
    };
    Config {
        cases: (count * given.cases).div_ceil(256),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed + round),
        ..given
    }
}

/// One list that is asked for.
#[derive(Debug, Clone)]
struct Case {
    query: String,
    scope: Scope,
    order: Vec<(&'static str, Direction)>,
    /// Into so many pages the list is cut.
    pages: u64,
    /// Where another page begins, and how long it is.
    jump: Option<(Index, u64)>,
    store: usize,
}

fn case(fleet: &Fleet, vocabulary: &Arc<Vocabulary>) -> impl Strategy<Value = Case> + use<> {
    let sometimes = |ids: Vec<_>| {
        prop::option::weighted(0.1, any::<Index>())
            .prop_map(move |index| index.filter(|_| !ids.is_empty()).map(|index| *index.get(&ids)))
    };
    let owners = fleet.resources.iter().filter_map(Resource::owner).collect::<BTreeSet<_>>();
    let racks = fleet.resources.iter().filter(|r| &*r.kind == "Rack").map(|r| r.id);
    let referred = (sometimes(racks.collect()), select(&REF_TYPES[..]));
    let scope = (
        prop_oneof![Just(KINDS.to_vec()), subsequence(&KINDS[..], 1..=KINDS.len())],
        sometimes(owners.into_iter().collect()),
        any::<bool>(),
        referred,
    )
        .prop_map(|(kinds, owner, finalizing, (target, ref_type))| Scope {
            // A list of some owner's children, or of referrers, is of their kinds.
            kinds: if owner.or(target).is_some() { &KINDS[..] } else { &kinds }
                .iter()
                .map(|&kind| kind.into())
                .collect(),
            owner,
            finalizing,
            referring_to: target.map(|target| (ref_type.to_owned(), target)),
        });
    let way = select(vec![Direction::Ascending, Direction::Descending]);
    let names = SortField::all().map(|(name, _)| name).collect::<Vec<_>>();
    let by_creation = way.clone().prop_map(|way| vec![("created_time", way)]);
    // The default order is the one that indexes serve.
    let order = prop_oneof![1 => by_creation, 2 => prop::collection::vec((select(names), way), 1..4)];
    // Most lists are read at once, which is the quickest way to see many.
    let pages = prop_oneof![3 => Just(1_u64), 1 => 2..6_u64];
    let slices = (pages, prop::option::weighted(0.3, (any::<Index>(), 0..5_u64)));
    (vocabulary.query(), scope, order, slices, 0..fleet.stores.len()).prop_map(
        |(query, scope, order, (pages, jump), store)| Case { query, scope, order, pages, jump, store },
    )
}

/// Which of the fleet are meant, by the evaluator.
fn meant<'f>(fleet: &'f Fleet, opened: &OpenStore, filter: &Filter) -> Vec<&'f Resource> {
    let view = opened.rulebook.view();
    fleet
        .resources
        .iter()
        .filter(|resource| filter.matches(&Candidate::new(view, resource)).unwrap())
        .collect()
}

/// The order that the contract tells, on what the API shows: resources without a field last, ties by id in the
/// direction of the last field.
fn compare(a: &Value, b: &Value, order: &[(&str, Direction)]) -> Ordering {
    let ties = order.last().map(|(_, way)| ("id", *way));
    let terms = order.iter().copied().chain(ties);
    let by = |(field, way)| {
        let plain = match (member(a, field), member(b, field)) {
            (Value::String(a), Value::String(b)) => a.chars().cmp(b.chars()),
            (Value::Number(a), Value::Number(b)) => a.as_i64().cmp(&b.as_i64()),
            (a, b) => return a.is_null().cmp(&b.is_null()),
        };
        if way == Direction::Descending { plain.reverse() } else { plain }
    };
    terms.map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Walks the list page by page and jumps into it once. Tells whether the query chose among those in scope.
async fn check(fleet: &Fleet, case: &Case) -> Result<bool, TestCaseError> {
    let opened = &fleet.stores[case.store];
    let view = opened.rulebook.view();
    let filter = case.scope.confine(Some(parse(&case.query)));
    let mut expected = meant(fleet, opened, &filter);
    expected.sort_by(|a, b| compare(&shown(view, a), &shown(view, b), &case.order));
    let order: Order = case.order.iter().map(|(name, way)| (SortField::parse(name).unwrap(), *way)).collect();
    let page_size = expected.len() as u64 / case.pages + 1;
    let list = async |start, limit, count| {
        let query = ListQuery { filter: filter.clone(), order: order.clone(), start, limit, count };
        opened
            .store
            .list(&AccessScope::everything(), query, &Reservation::default())
            .await
            .map_err(|error| TestCaseError::fail(error.chain()))
    };

    let mut found: Vec<Resource> = Vec::new();
    loop {
        let start = match found.last() {
            None => Start::Offset(0),
            Some(last) => {
                // As a page token carries it.
                let position = serde_json::to_string(&Position::of(&Candidate::new(view, last), &order));
                Start::After(serde_json::from_str(&position.unwrap()).unwrap())
            }
        };
        let page = list(start, page_size, true).await?;
        prop_assert_eq!(page.total, Some(expected.len() as u64), "the total behind {}", found.len());
        prop_assert!(page.items.len() as u64 == page_size || !page.more, "a short page that is not the last");
        found.extend(page.items);
        if !page.more {
            break;
        }
        prop_assert!(found.len() <= expected.len(), "the list does not end");
    }
    same(&found, &expected)?;

    if let Some((offset, limit)) = case.jump {
        let offset = offset.index(expected.len() + 2);
        let page = list(Start::Offset(offset as u64), limit, false).await?;
        let rest = expected.get(offset..).unwrap_or_default();
        same(&page.items, &rest[..rest.len().min(limit as usize)])?;
        prop_assert_eq!((page.more, page.total), (rest.len() as u64 > limit, None));
    }

    Ok(!expected.is_empty() && expected.len() < meant(fleet, opened, &case.scope.confine(None)).len())
}

fn parse(query: &str) -> Filter {
    search::parse(query, search::Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn same(found: &[Resource], expected: &[&Resource]) -> TestCaseResult {
    let ids = |resource: &Resource| format!("{} {}", resource.id, resource.name);
    let found_ids: Vec<String> = found.iter().map(ids).collect();
    let expected_ids: Vec<String> = expected.iter().map(|resource| ids(resource)).collect();
    prop_assert_eq!(found_ids, expected_ids, "what the store found, and what is meant");
    prop_assert!(found.iter().eq(expected.iter().copied()), "a resource differs from how it was read before");
    Ok(())
}

/// Every label and every status that any resource has, or had before, by itself: such lists have kept numbers.
async fn check_kept_numbers(fleet: &Fleet, facets: &mut BTreeSet<String>) {
    for resource in &fleet.resources {
        let labels = resource.labels.parse::<Labels>().unwrap();
        let fields = labels.iter().map(|(key, value)| format!("labels[{}] = {}", quoted(key), quoted(value)));
        let statuses = statuses(&resource.conditions)
            .map(|(kind, status)| format!("status.conditions[{}] = '{}'", quoted(&kind), status.name()));
        facets.extend(fields.chain(statuses));
    }
    let all: Vec<Arc<str>> = KINDS.map(Into::into).to_vec();
    for (kind, finalizing) in all.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        check_total(fleet, &fleet.stores[0], std::slice::from_ref(kind), finalizing, None).await;
    }
    for (i, facet) in facets.iter().enumerate() {
        let opened = &fleet.stores[i % fleet.stores.len()];
        for kinds in [all.clone(), vec![all[i % all.len()].clone()]] {
            check_total(fleet, opened, &kinds, false, Some(facet)).await;
            check_total(fleet, opened, &kinds, true, Some(facet)).await;
            let finalizing = format!("{facet} and deleted_time is not null");
            check_total(fleet, opened, &kinds, true, Some(&finalizing)).await;
        }
    }
}

async fn check_total(
    fleet: &Fleet,
    opened: &OpenStore,
    kinds: &[Arc<str>],
    finalizing: bool,
    search: Option<&str>,
) {
    let scope = Scope { kinds: kinds.to_vec(), finalizing, ..Scope::default() };
    let filter = scope.confine(search.map(parse));
    let expected = meant(fleet, opened, &filter).len() as u64;
    let order = Order::from([(SortField::Generation, Direction::Ascending)]);
    let query = ListQuery { filter, order, start: Start::Offset(0), limit: 1, count: true };
    let total =
        opened.store.list(&AccessScope::everything(), query, &Reservation::default()).await.unwrap().total;
    assert_eq!(total, Some(expected), "{search:?} of {kinds:?}, finalizing: {finalizing}");
}

/// Queries as long, as wide and as deep as they may be.
fn longest() -> impl Iterator<Item = String> {
    let tests = [
        "labels.a=''",
        "labels.a in ['','a']",
        "status.conditions.Ready='True'",
        "status.conditions.Ready.last_updated_time<'2026-01-02'",
        "status.conditions.Nothing.observed_generation not in [1.5]",
        "generation<3",
        "spec.a='a'",
        "id<'1'",
        "owner_id is null",
    ];
    let long = |test: &str, word: &str| {
        [test].repeat((MAX_BYTES + word.len()) / (test.len() + word.len())).join(word)
    };
    let chains = tests.into_iter().flat_map(move |test| [" and ", " or "].map(|word| long(test, word)));
    let deep = |open: &str, test: &str| {
        format!("{}{test}{}", open.repeat(MAX_NESTING / 2), ")".repeat(MAX_NESTING / 2))
    };
    let nested =
        tests.into_iter().flat_map(move |test| ["not(", "(name='a' or "].map(|open| deep(open, test)));
    let list = format!("spec.a in [{}]", ["1"; MAX_LIST].join(","));
    chains.chain(nested).chain([list.replace("spec.a", "generation"), list])
}

fn agree(runtime: &Runtime, backend: Backend) {
    let mut fleet = runtime.block_on(Fleet::open(backend));
    let mut facets = BTreeSet::new();
    let (asked, chose) = (Cell::new(0), Cell::new(0));
    for round in 0..ROUNDS {
        let mut runner = TestRunner::new(config(QUERIES, round));
        for _ in 0..2 {
            let steps = steps(STEPS).new_tree(&mut runner).unwrap().current();
            runtime.block_on(async {
                fleet.take(&steps).await;
                check_kept_numbers(&fleet, &mut facets).await;
            });
        }
        let views = fleet.stores.iter().map(|opened| opened.rulebook.view());
        let shown: Vec<Value> =
            views.flat_map(|view| fleet.resources.iter().map(move |r| shown(view, r))).collect();
        let cases = case(&fleet, &Arc::new(Vocabulary::of(&shown)));
        let result = runner.run(&cases, |case| {
            let chosen = runtime.block_on(check(&fleet, &case))?;
            asked.set(asked.get() + 1);
            chose.set(chose.get() + u32::from(chosen));
            Ok(())
        });
        result.unwrap_or_else(|failure| panic!("round {round}: {failure}"));
    }
    for query in longest() {
        let scope = Scope { kinds: KINDS.map(Into::into).to_vec(), ..Scope::default() };
        let order = vec![("created_time", Direction::Descending)];
        let case = Case { query, scope, order, pages: 2, jump: None, store: 0 };
        runtime.block_on(check(&fleet, &case)).unwrap_or_else(|error| panic!("{error}\n{}", case.query));
    }
    let (asked, chose) = (asked.get(), chose.get());
    let resources = &fleet.resources;
    println!("{asked} queries, of which {chose} chose; {} resources at the end", resources.len());
    assert!(chose * 10 >= asked, "{chose} of {asked} queries chose some and not all");
    assert!(resources.iter().any(|r| !r.is_active()) && resources.iter().any(|r| r.ancestors.len() == 2));
    assert!(resources.iter().any(|r| r.references.as_str() != "{}"));
}

#[test]
fn a_search_in_sqlite_finds_counts_and_sorts_as_the_evaluator_does() {
    let runtime = Runtime::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    agree(&runtime, Backend::Sqlite { path: Some(super::file(&directory)) });
}

#[test]
fn a_search_in_postgresql_finds_counts_and_sorts_as_the_evaluator_does() {
    let runtime = Runtime::new().unwrap();
    let database = runtime.block_on(Postgres::shared().database());
    let backend = Backend::Postgres { url: database.url(), ssl_mode: SslMode::Disable, root_cert_file: None };
    agree(&runtime, backend);
}
