//! Lists in fleets of several sizes over one connection, and the size of these fleets on disk and in memory. A query goes
//! to all fleets in turn, so that whatever disturbs the machine disturbs them alike.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use hyperfleet_testkit::{Launch, Postgres};

use crate::connection::Connection;
use crate::fleet::{self, Fleet, Plan, Reported};
use crate::options::Options;
use crate::queries::{DEEP_PAGE, PAGE, Prepared, Query};
use crate::reports::ADAPTERS;
use crate::results::{Results, mebibytes};
use crate::workload::{CLUSTERS, Workload};

const MILLION: usize = 1_000_000;
/// Clusters on a page of a scan: the most that the API allows.
const SCAN_PAGE: usize = 500;

/// Queries of one fleet.
struct Lists<'a> {
    store: &'static str,
    clusters: usize,
    fleet: Fleet<'a>,
    /// Each query with its requests, where the fleet is large enough for it.
    queries: Vec<(Query, Arc<[Prepared]>)>,
    is_scanned: bool,
}

/// The queries that are wanted on a store; the read by id belongs to every other one.
fn wanted(options: &Options, store: &str) -> Vec<Query> {
    let is_wanted =
        |query: &Query| *query != Query::Get && options.wants(&format!("{store} {}", query.name()));
    let lists: Vec<Query> = Query::ALL.into_iter().filter(is_wanted).collect();
    let get = (!lists.is_empty()).then_some(Query::Get);
    get.into_iter().chain(lists).collect()
}

/// Measures all lists that are wanted.
pub(crate) async fn measure(
    options: &Options,
    launch: &Launch,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    let mut all = Vec::new();
    let sizes =
        [options.clusters, 10 * options.clusters].into_iter().chain(options.million.then_some(MILLION));
    for clusters in sizes {
        for (store, postgres) in fleet::stores(postgres) {
            let is_scanned = options.wants(&format!("{store} list scan"));
            let queries = wanted(options, store);
            if is_scanned || !queries.is_empty() {
                eprintln!("{store}: making {clusters} clusters for lists");
                let plan = Plan {
                    adapters: ADAPTERS.len(),
                    reported: Reported::Most,
                    ..Plan::new(postgres, clusters)
                };
                let fleet = Fleet::start(launch, &plan).await?;
                all.push(Lists::new(store, fleet, &queries, is_scanned).await?);
            }
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    for round in 1..=options.rounds {
        eprintln!("lists: round {round} of {}", options.rounds);
        for query in Query::ALL {
            for lists in &all {
                lists.round(query, options, results)?;
            }
        }
        for lists in &all {
            if lists.is_scanned {
                let row = format!("{} list scan of {}", lists.store, lists.clusters);
                results.add(&row, "clusters/s", lists.scan().await?);
            }
            lists.check().await?;
        }
    }
    for Lists { store, clusters, fleet, .. } in &all {
        let row = format!("{store} fleet of {clusters}");
        results.add(&row, "bytes a cluster", fleet.size_after_vacuum as f64 / *clusters as f64);
        results.add(&row, "bytes before VACUUM", fleet.size_before_vacuum as f64 / *clusters as f64);
        results.add(&row, "MiB", mebibytes(fleet.resident()?));
    }
    Ok(())
}

impl<'a> Lists<'a> {
    async fn new(store: &'static str, fleet: Fleet<'a>, queries: &[Query], is_scanned: bool) -> Result<Self> {
        let clusters = fleet.ids.len();
        let token = if queries.contains(&Query::DeepPage) { deep_page(&fleet).await? } else { None };
        let prepare = |query: &Query| (*query, query.prepare(&fleet.ids, token.as_deref()).into());
        let queries = queries.iter().map(prepare).filter(|(_, all): &(_, Arc<[Prepared]>)| !all.is_empty());
        let queries = queries.collect();
        let lists = Self { store, clusters, fleet, queries, is_scanned };
        lists.check().await?;
        Ok(lists)
    }

    fn round(&self, query: Query, options: &Options, results: &mut Results) -> Result<()> {
        let Some((_, prepared)) = self.queries.iter().find(|(known, _)| *known == query) else {
            return Ok(());
        };
        let outcome =
            options.short_load().run(&self.fleet.target(Workload::Prepared(Arc::clone(prepared)))?)?;
        results.add_load(&format!("{} {} of {}", self.store, query.name(), self.clusters), &outcome);
        Ok(())
    }

    /// Sends every query once and reads the whole answer.
    async fn check(&self) -> Result<()> {
        let mut connection = self.fleet.connect().await?;
        for (query, prepared) in &self.queries {
            let prepared = prepared.first().context("a query without requests")?;
            let status = connection.exchange(&prepared.request).await?;
            let is_right = status == 200 && prepared.is_right_body(connection.body());
            ensure!(is_right, "{}: {}", query.name(), connection.text());
            query.check(connection.body()).with_context(|| query.name())?;
        }
        Ok(())
    }

    /// Reads all clusters page by page and returns how many a second.
    async fn scan(&self) -> Result<f64> {
        let mut connection = self.fleet.connect().await?;
        let started = Instant::now();
        let (mut found, mut token) = (0, None);
        loop {
            token = page(&mut connection, SCAN_PAGE, token.as_deref()).await?;
            found += number(connection.body(), b"\"size\":").context("a page without size")?;
            if token.is_none() {
                break;
            }
        }
        let took = started.elapsed();
        ensure!(found == self.clusters, "a scan found {found} of {}", self.clusters);
        Ok(found as f64 / took.as_secs_f64())
    }
}

/// The token of page [`DEEP_PAGE`], where the fleet has one.
async fn deep_page(fleet: &Fleet<'_>) -> Result<Option<String>> {
    if fleet.ids.len() < DEEP_PAGE * PAGE {
        return Ok(None);
    }
    let mut connection = fleet.connect().await?;
    let mut token = None;
    for _ in 1..DEEP_PAGE {
        token = page(&mut connection, PAGE, token.as_deref()).await?;
        ensure!(token.is_some(), "the list ends too early");
    }
    Ok(token)
}

/// Reads a page and returns the token of the next one.
async fn page(connection: &mut Connection, size: usize, token: Option<&str>) -> Result<Option<String>> {
    let more = token.map(|token| format!("&pageToken={token}")).unwrap_or_default();
    let request =
        format!("GET {CLUSTERS}?pageSize={size}&total=none{more} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    if connection.exchange(request.as_bytes()).await? != 200 {
        bail!("a page: {}", connection.text());
    }
    Ok(next_token(connection.body()))
}

/// The token stands behind the items, near the end of the page.
fn next_token(body: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\"next_page_token\":\"";
    let tail = &body[body.len().saturating_sub(4096)..];
    let start = tail.windows(NAME.len()).rposition(|window| window == NAME)? + NAME.len();
    let token = tail[start..].split(|byte| *byte == b'"').next()?;
    String::from_utf8(token.to_vec()).ok()
}

/// The first number behind `name`.
fn number(body: &[u8], name: &[u8]) -> Option<usize> {
    let start = body.windows(name.len()).position(|window| window == name)? + name.len();
    let digits = body[start..].split(|byte| !byte.is_ascii_digit()).next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}
