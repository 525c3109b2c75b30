//! A started server with its client. Each answer that passes through [`App`] is checked against the server's own
//! OpenAPI document, so a test notices a wrong member that it does not mention. Nothing here knows the internals of the
//! product.

#![allow(clippy::panic, reason = "a wrong answer fails the test")]

mod described;
mod redact;
mod reports;
mod terminal;

use std::future::IntoFuture;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hyperfleet_testkit::{Answer, Call, Client, Database, Event, Launch, Postgres, Server, Store, Stream};
use serde_json::{Value, json};

use described::Described;
pub(crate) use redact::{redacted, redacted_text, transcript};
pub(crate) use reports::{at, finalized, report, report_now, validated, with_condition, with_reason};
pub(crate) use terminal::Terminal;

/// How long a test waits for a state; it passes only when something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Where the API lives; paths given to [`App`] may leave it out.
pub(crate) const BASE: &str = "/api/hyperfleet/v1";

/// What lists can be ordered by.
pub(crate) const SORTABLE_FIELDS: [&str; 13] = [
    "id",
    "name",
    "kind",
    "href",
    "created_by",
    "updated_by",
    "deleted_by",
    "owner_id",
    "owner_kind",
    "generation",
    "created_time",
    "updated_time",
    "deleted_time",
];

/// Cluster and NodePool, as without any configuration.
pub(crate) const DEFAULT: &str = "{}";

/// Kinds beside the default ones. Zone, Rack and Host are three levels of which only Host has an adapter; a Permit
/// holds its Zone; a Network is a kind with nothing but defaults; a Rack may have twins; a Service refers to one or two Networks, to
/// other Services and to at most one Zone.
pub(crate) const CATALOG: &str = r"
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validator, dns], name_min_len: 3, name_max_len: 53}
  - kind: NodePool
    plural: nodepools
    parent_kind: Cluster
    on_parent_delete: cascade
    required_adapters: [validator]
    name_min_len: 3
    name_max_len: 15
  - {kind: Zone, plural: zones}
  - kind: Rack
    plural: racks
    parent_kind: Zone
    on_parent_delete: cascade
    references:
      - {ref_type: twins, target_kind: Rack, min: 0, max: 0}
  - kind: Host
    plural: hosts
    parent_kind: Rack
    on_parent_delete: cascade
    required_adapters: [imager]
  - {kind: Permit, plural: permits, parent_kind: Zone, on_parent_delete: restrict}
  - {kind: Network, plural: networks}
  - kind: Service
    plural: services
    references:
      - {ref_type: networks, target_kind: Network, min: 1, max: 2}
      - {ref_type: peers, target_kind: Service, min: 0, max: 0}
      - {ref_type: zone, target_kind: Zone, min: 0, max: 1}
";

/// Makes `name::sqlite` and `name::postgres` of each `async fn name(app: &mut App)`. A configuration may come first:
/// `both_stores!(config = CATALOG; name, other)`, or what starts the subject of the tests on a [`Backend`]:
/// `both_stores!(start = Installation::migrated; name, other)`.
macro_rules! both_stores {
    ($($tests:tt)+) => {
        $crate::support::store_tests!([sqlite Sqlite, postgres Postgres] $($tests)+);
    };
}
pub(crate) use both_stores;

/// Like [`both_stores!`] for what does not depend on the store: these tests run on SQLite alone, which starts faster.
macro_rules! any_store {
    ($($tests:tt)+) => {
        $crate::support::store_tests!([sqlite Sqlite] $($tests)+);
    };
}
pub(crate) use any_store;

macro_rules! store_tests {
    ($backends:tt start = $start:expr; $($name:ident),+ $(,)?) => {$(
        mod $name {
            #[allow(unused_imports, reason = "what starts the subject may be an item of the module")]
            use super::*;

            $crate::support::store_tests!(@ $backends $name ($start));
        }
    )+};
    (@ [$($test:ident $backend:ident),+] $name:ident $start:tt) => {$(
        #[test]
        fn $test() {
            $crate::support::run(async {
                super::$name(&mut $start($crate::support::Backend::$backend).await).await;
            });
        }
    )+};
    ($backends:tt config = $config:expr; $($name:ident),+ $(,)?) => {
        $crate::support::store_tests!(
            $backends start = async |backend| $crate::support::App::on(backend, $config).await; $($name),+
        );
    };
    ($backends:tt $($name:ident),+ $(,)?) => {
        $crate::support::store_tests!($backends config = $crate::support::DEFAULT; $($name),+);
    };
}
pub(crate) use store_tests;

/// The database system below a server.
#[derive(Clone, Copy)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

/// Runs a test to its end on this thread. Its inline snapshots may be met again, by the same test on the other store.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    insta::allow_duplicates!(runtime.block_on(test));
}

/// A [`Launch`] of the binary under test.
pub(crate) fn launch() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_hyperfleet"))
}

/// A new PostgreSQL database with the schema of the binary under test and no data.
pub(crate) async fn database() -> Database {
    Postgres::shared().migrated(Path::new(env!("CARGO_BIN_EXE_hyperfleet"))).await
}

/// A name that no other call has given, with `prefix` at its front.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A running server, its store and its description of itself.
pub(crate) struct App {
    /// The process, for its logs, its other listeners and its restarts.
    pub(crate) server: Server,
    /// The database, on PostgreSQL.
    pub(crate) database: Option<Arc<Database>>,
    described: Arc<Described>,
}

impl App {
    /// A server on a new database.
    pub(crate) async fn on(backend: Backend, config: &str) -> Self {
        match backend {
            Backend::Sqlite => Self::sqlite(config).await,
            Backend::Postgres => Self::postgres(config).await,
        }
    }

    /// A server on a SQLite file.
    pub(crate) async fn sqlite(config: &str) -> Self {
        Self::launched(launch().config(config), None).await
    }

    /// A server on a new PostgreSQL database.
    pub(crate) async fn postgres(config: &str) -> Self {
        Self::on_database(launch().config(config), Arc::new(database().await)).await
    }

    /// One more server on a PostgreSQL database.
    pub(crate) async fn on_database(launch: Launch, database: Arc<Database>) -> Self {
        Self::launched(launch.store(Store::Postgres(database.url())), Some(database)).await
    }

    /// A server started in a way of the test's own.
    pub(crate) async fn launched(launch: Launch, database: Option<Arc<Database>>) -> Self {
        let settings = launch.settings();
        let server = launch.start().await.expect("the server must start");
        let described = Described::by(settings, &server.api()).await;
        Self { server, database, described }
    }

    /// Starts the server again on the same database.
    pub(crate) async fn restart(&mut self) {
        self.server.restart().await.expect("the server must start again");
    }

    /// Starts the server again on the same database, by another configuration.
    pub(crate) async fn restart_with(&mut self, config: &str) {
        std::fs::write(self.server.directory().join("config.yaml"), config).unwrap();
        self.restart().await;
        self.described = Described::of(&self.server.api()).await;
    }

    /// Fails the test when the answer to a GET of `path` is not what the server's description says.
    #[track_caller]
    pub(crate) fn expect_described(&self, path: &str, answer: &Answer) {
        self.described.check("GET", &format!("{BASE}{path}"), answer);
    }

    /// The value of a metric's series by its whole name, once it is there.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let answer = self.server.metrics().get("/metrics").await.expect_status(200);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    /// The API's client as it is, for what no OpenAPI document describes.
    pub(crate) fn api(&self) -> Client {
        self.server.api()
    }

    /// Starts a GET; every path may leave out [`BASE`].
    pub(crate) fn get(&self, path: &str) -> Asked {
        self.call("GET", path)
    }

    /// Starts a HEAD.
    pub(crate) fn head(&self, path: &str) -> Asked {
        self.call("HEAD", path)
    }

    /// Starts a POST.
    pub(crate) fn post(&self, path: &str) -> Asked {
        self.call("POST", path)
    }

    /// Starts a PUT.
    pub(crate) fn put(&self, path: &str) -> Asked {
        self.call("PUT", path)
    }

    /// Starts a PATCH.
    pub(crate) fn patch(&self, path: &str) -> Asked {
        self.call("PATCH", path)
    }

    /// Starts a DELETE.
    pub(crate) fn delete(&self, path: &str) -> Asked {
        self.call("DELETE", path)
    }

    /// Starts a call with any method.
    pub(crate) fn call(&self, method: &str, path: &str) -> Asked {
        let path = if path.starts_with("/api/") { path.to_owned() } else { format!("{BASE}{path}") };
        let call = self.api().call(method.parse().expect("a method is a token"), &path);
        Asked { call, method: method.to_owned(), path, described: Arc::clone(&self.described) }
    }

    /// Creates by POST; the new resource.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Value {
        self.post(path).json(body).await.expect_status(201).json()
    }

    /// Creates one with an empty spec in the collection at `path`, the kind's own or one below a parent.
    pub(crate) async fn create_named(&self, path: &str, kind: &str, name: &str) -> Value {
        self.create(path, &json!({"kind": kind, "name": name, "spec": {}})).await
    }

    /// Creates a Cluster with an empty spec.
    pub(crate) async fn create_cluster(&self, name: &str) -> Value {
        self.create_named("/clusters", "Cluster", name).await
    }

    /// Creates a NodePool with an empty spec below `cluster`.
    pub(crate) async fn create_nodepool(&self, cluster: &Value, name: &str) -> Value {
        self.create_named(&format!("{}/nodepools", href(cluster)), "NodePool", name).await
    }

    /// What the resource is now.
    pub(crate) async fn read(&self, resource: &Value) -> Value {
        self.get(href(resource)).await.expect_status(200).json()
    }

    /// The version of the resource now, as its `ETag` gives it.
    pub(crate) async fn etag(&self, resource: &Value) -> String {
        etag(&self.get(href(resource)).await.expect_status(200))
    }

    /// Merges `patch` into the resource; what it is then.
    pub(crate) async fn merge(&self, resource: &Value, patch: &Value) -> Value {
        self.patch(href(resource)).json(patch).await.expect_status(200).json()
    }

    /// Asks for the deletion of the resource; what it is then.
    pub(crate) async fn remove(&self, resource: &Value) -> Value {
        self.delete(href(resource)).await.expect_status(202).json()
    }

    /// Removes a finalizing resource for good.
    pub(crate) async fn force_delete(&self, resource: &Value) {
        let path = format!("{}/force-delete", href(resource));
        self.post(&path).json(&json!({"reason": "the test needs it gone"})).await.expect_status(204);
    }

    /// Starts an adapter's report on the resource.
    pub(crate) fn report(&self, resource: &Value, report: &Value) -> Asked {
        self.put(&format!("{}/statuses", href(resource))).json(report)
    }

    /// The reports on the resource.
    pub(crate) async fn reports(&self, resource: &Value) -> Value {
        self.get(&format!("{}/statuses", href(resource))).await.expect_status(200).json()["items"].take()
    }

    /// Opens a watch of the list at `path`, which has a query already or none.
    pub(crate) async fn watch(&self, path: &str) -> Stream {
        self.get(&watched(path)).watch().await
    }

    /// The names in the list at `path`, in its order.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await.expect_status(200).json();
        list["items"].as_array().unwrap().iter().map(|item| text(&item["name"]).to_owned()).collect()
    }
}

/// A request through [`App`]. Awaiting it sends it and checks the answer against the OpenAPI document.
#[must_use = "a call is sent when it is awaited"]
pub(crate) struct Asked {
    call: Call,
    method: String,
    path: String,
    described: Arc<Described>,
}

impl Asked {
    /// Adds a header.
    pub(crate) fn header(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.call = self.call.header(name, value);
        self
    }

    /// Sets a JSON body, and its media type unless one was given before.
    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.call = self.call.json(body);
        self
    }

    /// Sets the body as it is, without a media type.
    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.call = self.call.body(body.into());
        self
    }

    /// The path asked for, with its query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Sends it and reads no more than the head of the answer, which must be a watch.
    pub(crate) async fn watch(self) -> Stream {
        let stream = self.call.open().await.expect("the server must answer");
        assert_eq!((stream.status, stream.header("content-encoding")), (200, None), "{}", self.path);
        stream
    }

    /// The call without a check of its answer, for bodies that only a client with a decoder can read.
    pub(crate) fn unchecked(self) -> Call {
        self.call
    }
}

impl IntoFuture for Asked {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let answer = self.call.await;
            self.described.check(&self.method, &self.path, &answer);
            answer
        })
    }
}

/// The path of a list as that of a watch of it.
pub(crate) fn watched(path: &str) -> String {
    format!("{path}{}watch=true", if path.contains('?') { '&' } else { '?' })
}

/// A string in an answer.
#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no string: {value}"))
}

/// The path of a resource.
#[track_caller]
pub(crate) fn href(resource: &Value) -> &str {
    text(&resource["href"])
}

/// The id of a resource.
#[track_caller]
pub(crate) fn id(resource: &Value) -> &str {
    text(&resource["id"])
}

/// The `ETag` of an answer.
#[track_caller]
pub(crate) fn etag(answer: &Answer) -> String {
    answer.header("etag").unwrap_or_else(|| panic!("no ETag: {answer}")).to_owned()
}

/// The last event of a watch that can go on from it. At version 0 there is no position.
#[track_caller]
pub(crate) fn assert_ended(end: &Event) {
    assert_eq!((end.kind(), &end.json["code"]), ("ERROR", &json!("HYPERFLEET-SVC-001")));
    let position = end.json["position"].as_str();
    let version = position.map_or("0", |position| position.split_once('-').unwrap().0);
    assert_eq!((version, position.is_some()), (&*end.version().to_string(), end.version() > 0));
    assert!(end.id.is_none() || end.id.as_deref() == position, "{end:?}");
}

/// The field and the message of each fault in a problem, one per line, redacted.
pub(crate) fn faults(answer: &Answer) -> String {
    let problem = answer.json();
    let one = |fault: &Value| format!("{}: {}", text(&fault["field"]), text(&fault["message"]));
    let lines: Vec<_> = problem["errors"].as_array().into_iter().flatten().map(one).collect();
    redacted_text(&lines.join("\n"))
}
