//! What each request costs PostgreSQL, counted and not timed: statements, rows, write-ahead log and round trips of a
//! request that comes alone. The table in `docs/storage.md` says how much; here it is held to that, so that nobody adds
//! a statement to a request without saying so. `UPDATE_DOCS=1 cargo test -p hyperfleet --test it costs` writes the
//! table anew.

mod counters;
mod flights;

use std::path::Path;

use hyperfleet_testkit::{Database, Postgres, Store};
use serde_json::{Value, json};

use crate::support::*;
use counters::{Cost, Counters};
use flights::Flights;

/// Requests that are made before any is counted: connections are opened and statements prepared with the first ones.
const FIRST: usize = 3;
/// Requests that are counted, one by one. What is in all of them is the request's doing; what is in some is what the
/// server does by itself meanwhile.
const COUNTED: usize = 10;

const MARKERS: [&str; 2] = [
    "<!-- From here on made by `UPDATE_DOCS=1 cargo test -p hyperfleet --test it costs`. -->\n",
    "<!-- Up to here. -->\n",
];
const HEAD: &str =
    "\n| A request, alone | Round trips | Statements | Rows | WAL, bytes |\n|---|---|---|---|---|\n";

const KINDS: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validator, dns, network, provisioner]}
  - {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade, required_adapters: [scaler]}
";

/// One line of the table.
struct Row {
    request: &'static str,
    trips: usize,
    cost: Cost,
}

impl Row {
    fn line(&self) -> String {
        let Self { request, trips, cost: Cost { statements, rows, wal } } = self;
        format!("| {request} | {trips} | {} | {rows} | {} |", statements.len(), wal / 10 * 10)
    }
}

/// A server on a PostgreSQL that counts, and what was counted so far.
struct Ledger {
    app: App,
    counters: Counters,
    flights: Flights,
    rows: Vec<Row>,
    _database: Database,
}

impl Ledger {
    async fn open(postgres: &Postgres) -> Self {
        let database = postgres.database().await;
        let flights = Flights::relay(postgres.socket_directory());
        let store = Store::Postgres(flights.url(database.name()));
        let server = launch().config(KINDS).store(store);
        let app = App::launched(server, None).await;
        let counters = Counters::open(postgres, &database).await;
        Self { app, counters, flights, rows: Vec::new(), _database: database }
    }

    /// Counts a request that is made again and again, with the number of each time.
    async fn count(&mut self, request: &'static str, mut ask: impl AsyncFnMut(&App, usize)) {
        for turn in 0..FIRST {
            ask(&self.app, turn).await;
        }
        let (mut trips, mut turns) = (usize::MAX, Vec::new());
        for turn in FIRST..FIRST + COUNTED {
            self.counters.reset().await;
            let before = self.flights.count();
            ask(&self.app, turn).await;
            trips = trips.min(self.flights.count() - before);
            turns.push(self.counters.turn().await);
        }
        self.rows.push(Row { request, trips, cost: Cost::of(&turns) });
    }
}

fn report(adapter: &str, micros: usize, message: &str) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "reason": "Done", "message": message});
    json!({
        "adapter": adapter,
        "observed_generation": 1,
        "observed_time": format!("2026-01-01T10:00:00.{micros:06}Z"),
        "conditions": [condition("Available"), condition("Applied"), condition("Health")],
        "data": {"job": "job-1", "message": message},
    })
}

fn body(name: &str) -> Value {
    let labels = json!({"environment": "production", "team": "fleet"});
    json!({"kind": "Cluster", "name": name, "spec": {"region": "eu-west-1", "nodes": 3}, "labels": labels})
}

async fn clusters(app: &App, count: usize, prefix: &str) -> Vec<Value> {
    let mut clusters = Vec::new();
    for number in 0..count {
        clusters.push(app.create("/clusters", &body(&format!("{prefix}-{number}"))).await);
    }
    clusters
}

/// Asks for a path as it is.
async fn ask(ledger: &mut Ledger, request: &'static str, path: &str) {
    ledger.count(request, async |app, _| drop(app.get(path).await.expect_status(200))).await;
}

/// Asks for a list in words that differ each time, so that no page of before is shown again.
async fn ask_anew(ledger: &mut Ledger, request: &'static str, path: &str) {
    let anew = async |app: &App, turn: usize| {
        let first = format!("{path}&page={}1", "0".repeat(turn));
        drop(app.get(&first).await.expect_status(200));
    };
    ledger.count(request, anew).await;
}

async fn reads(ledger: &mut Ledger, cluster: &Value) {
    let path = href(cluster);
    ask(ledger, "get", path).await;
    ask_anew(ledger, "page of 20", "/clusters?pageSize=20").await;
    ask(ledger, "page of 20, asked for again while nothing is written", "/clusters?pageSize=20").await;
    ask_anew(ledger, "page of 20 by a label", "/clusters?pageSize=20&search=labels.team%3D'fleet'").await;
    let both = "labels.team%3D'fleet'%20and%20status.conditions.Reconciled%3D'False'";
    ask_anew(ledger, "page of 20 by a label and a status", &format!("/clusters?pageSize=20&search={both}"))
        .await;
    let due = "status.conditions.Reconciled%3D'True'%20and%20\
               status.conditions.Reconciled.last_updated_time%3C'2020-01-01T00:00:00Z'";
    ask_anew(ledger, "page of what is due, nothing is", &format!("/clusters?search={due}")).await;
    ask(ledger, "reports on a cluster", &format!("{path}/statuses")).await;
    ask(ledger, "explain", &format!("{path}/explain")).await;
    ask(ledger, "page of the timeline", &format!("{path}/timeline")).await;
    ask(ledger, "generation 1 of 1", &format!("{path}?generation=1")).await;
    ask_anew(ledger, "node pools of a cluster", &format!("{path}/nodepools?pageSize=20")).await;
}

async fn writes(ledger: &mut Ledger, cluster: &Value, doomed: &[Value]) {
    let path = href(cluster);
    let create = async |app: &App, turn| drop(app.create("/clusters", &body(&format!("new-{turn}"))).await);
    ledger.count("create", create).await;
    let patch =
        async |app: &App, turn| drop(app.merge(cluster, &json!({"spec": {"nodes": turn + 10}})).await);
    ledger.count("patch", patch).await;
    let refused = async |app: &App, _| {
        let call = app.patch(path).header("if-match", "\"999999\"").json(&json!({"spec": {"nodes": 1}}));
        drop(call.await.expect_status(409));
    };
    ledger.count("patch, refused", refused).await;
    let dry = async |app: &App, turn| {
        let call = app.patch(&format!("{path}?dryRun=true")).json(&json!({"spec": {"nodes": turn + 500}}));
        drop(call.await.expect_status(200));
    };
    ledger.count("patch, dry run", dry).await;
    ledger.count("delete", async |app, turn| drop(app.remove(&doomed[turn]).await)).await;
    let force = async |app: &App, turn: usize| app.force_delete(&doomed[turn]).await;
    ledger.count("force-delete", force).await;
}

async fn reports(ledger: &mut Ledger, cluster: &Value) {
    for (micros, adapter) in ["validator", "dns", "network", "provisioner"].into_iter().enumerate() {
        ledger.app.report(cluster, &report(adapter, micros, "all is well")).await.expect_status(201);
    }
    let send = async |app: &App, micros: usize, message: &str, status: u16| {
        drop(app.report(cluster, &report("dns", micros, message)).await.expect_status(status));
    };
    let changing = async |app: &App, turn| send(app, 100 + turn, &format!("run {turn}"), 201).await;
    ledger.count("report that changes something", changing).await;
    let moving = async |app: &App, turn| send(app, 200 + turn, "all is well", 201).await;
    ledger.count("report that only moves times", moving).await;
    let same = async |app: &App, _| send(app, 299, "all is well", 201).await;
    ledger.count("report that repeats the last", same).await;
    let old = async |app: &App, _| send(app, 1, "all is well", 204).await;
    ledger.count("report that is discarded", old).await;
}

async fn watches(ledger: &mut Ledger, cluster: &Value) {
    let mut stream = ledger.app.watch("/clusters").await;
    stream.until_bookmark().await;
    let patch = async |app: &App, turn| {
        app.merge(cluster, &json!({"spec": {"nodes": turn + 1000}})).await;
        stream.change().await;
    };
    ledger.count("patch, and one who watches is told", patch).await;
}

/// Statements and rows are the server's doing. How many bytes they take in the log, and which of them leave together,
/// also depends on the moment, so these are told and not held.
fn held(line: &str) -> Option<[&str; 3]> {
    let mut cells = line.split('|').map(str::trim).skip(1);
    let (request, _, statements, rows) = (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
    Some([request, statements, rows])
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_costs_more_statements_than_the_documentation_says() {
    let postgres = Postgres::counting().await.unwrap();
    let mut ledger = Ledger::open(&postgres).await;
    let all = clusters(&ledger.app, 30, "cluster").await;
    let doomed = clusters(&ledger.app, FIRST + COUNTED, "doomed").await;
    reads(&mut ledger, &all[0]).await;
    reports(&mut ledger, &all[1]).await;
    writes(&mut ledger, &all[2], &doomed).await;
    watches(&mut ledger, &all[3]).await;

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/storage.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(MARKERS[0]).expect("the page has its marker");
    let (written, tail) = rest.split_once(MARKERS[1]).expect("the table has an end");
    if std::env::vars_os().any(|(name, _)| name == "UPDATE_DOCS") {
        let lines: String = ledger.rows.iter().map(|row| row.line() + "\n").collect();
        std::fs::write(&file, format!("{head}{}{HEAD}{lines}\n{}{tail}", MARKERS[0], MARKERS[1])).unwrap();
        return;
    }
    for row in &ledger.rows {
        let line = row.line();
        let known = written.lines().filter_map(held).any(|known| Some(known) == held(&line));
        assert!(known, "{line}\nis not what docs/storage.md says. It takes\n{}", row.cost.text());
    }
}
