//! Authentication and authorization over HTTP: tokens, tenants, roles and rate limits. An invisible resource must look
//! like one that never existed, so answers are compared whole.

#![allow(clippy::panic, reason = "a wrong answer fails the test")]

mod leases;
mod order;
mod rates;
mod renewed;
mod roles;
mod tenants;
mod tokens;

use std::ops::Deref;
use std::sync::Arc;

use hyperfleet_auth::dev::{DevIssuer, Grant, ISSUER_URL};
use hyperfleet_core::Timestamp;
use hyperfleet_testkit::{Answer, Launch};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::contract::walk;
use crate::support::{App, Asked, Backend, DEADLINE, both_stores, database, launch, validated};

/// An issuer of tokens with a key of its own.
struct Issuer {
    issuer: DevIssuer,
    _directory: TempDir,
}

impl Issuer {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let issuer = DevIssuer::open(directory.path(), ISSUER_URL).unwrap();
        Self { issuer, _directory: directory }
    }

    /// The configuration of a server that accepts its tokens; `server` is the rest of the section `server`.
    fn config(&self, server: &str) -> String {
        self.issuer.snippet(&Grant::new("anyone"), None) + server
    }

    /// A token for an hour.
    fn token(&self, identity: &str) -> String {
        self.mint(&Grant::new(identity))
    }

    /// A token for an hour that claims to be of these groups.
    fn member(&self, identity: &str, groups: &[&str]) -> String {
        let claims = Map::from_iter([("groups".to_owned(), json!(groups))]);
        self.mint(&Grant { claims, ..Grant::new(identity) })
    }

    /// A token that does not say, where the server looks for it, who has it.
    fn nameless(&self) -> String {
        self.mint(&Grant { identity_claim: "sub".to_owned(), ..Grant::new("somebody") })
    }

    /// A token that was good until an hour ago.
    fn expired(&self, identity: &str) -> String {
        let then = Timestamp::from_micros(Timestamp::now().micros() - 7_200_000_000);
        self.issuer.mint(&Grant::new(identity), then).unwrap()
    }

    fn mint(&self, grant: &Grant) -> String {
        self.issuer.mint(grant, Timestamp::now()).unwrap()
    }
}

/// A server that asks for tokens, and the issuer whose tokens it accepts.
struct Guarded {
    app: App,
    issuer: Issuer,
}

impl Guarded {
    /// A server with `server` as the rest of the section `server`.
    async fn on(backend: Backend, server: &str) -> Self {
        let issuer = Issuer::new();
        let launch = Self::launch(&issuer, server);
        let app = match backend {
            Backend::Sqlite => App::launched(launch, None).await,
            Backend::Postgres => App::on_database(launch, Arc::new(database().await)).await,
        };
        Self { app, issuer }
    }

    fn launch(issuer: &Issuer, server: &str) -> Launch {
        launch().config(issuer.config(server)).env("HYPERFLEET_SERVER_JWT_ENABLED", "true")
    }

    /// A caller with this token.
    fn holder(&self, token: &str) -> Caller<'_> {
        Caller { app: &self.app, headers: vec![("authorization".to_owned(), format!("Bearer {token}"))] }
    }

    /// A caller by that name.
    fn named(&self, identity: &str) -> Caller<'_> {
        self.holder(&self.issuer.token(identity))
    }

    /// A caller in these groups.
    fn member(&self, identity: &str, groups: &[&str]) -> Caller<'_> {
        self.holder(&self.issuer.member(identity, groups))
    }
}

impl Deref for Guarded {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

/// A caller that sends these headers with each request.
#[derive(Clone)]
struct Caller<'a> {
    app: &'a App,
    headers: Vec<(String, String)>,
}

impl<'a> Caller<'a> {
    fn new(app: &'a App, headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { app, headers }
    }

    fn call(&self, method: &str, path: &str) -> Asked {
        let headers = self.headers.iter();
        headers.fold(self.app.call(method, path), |asked, (name, value)| asked.header(name, value))
    }

    fn get(&self, path: &str) -> Asked {
        self.call("GET", path)
    }

    fn post(&self, path: &str, body: &Value) -> Asked {
        self.call("POST", path).json(body)
    }

    fn patch(&self, path: &str, body: &Value) -> Asked {
        self.call("PATCH", path).json(body)
    }

    fn delete(&self, path: &str) -> Asked {
        self.call("DELETE", path)
    }

    /// Creates; the new resource.
    async fn create(&self, path: &str, body: &Value) -> Value {
        self.post(path, body).await.expect_status(201).json()
    }

    /// Creates a Cluster with these labels.
    async fn cluster(&self, name: &str, labels: &Value) -> Value {
        self.create("/clusters", &cluster(name, labels)).await
    }

    /// The list at `path`: its total, and its names in order.
    async fn list(&self, path: &str) -> (u64, Vec<String>) {
        let list = self.get(path).await.expect_status(200).json();
        let names = list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap());
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort_unstable();
        (list["total"].as_u64().unwrap(), names)
    }
}

/// A Cluster to be created.
fn cluster(name: &str, labels: &Value) -> Value {
    json!({"kind": "Cluster", "name": name, "spec": {}, "labels": labels})
}

/// A path's query for this search.
fn search(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    format!("search={}", text.bytes().map(escaped).collect::<String>())
}

#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.problem_code()), (status, format!("HYPERFLEET-{code}")), "{answer}");
}

/// Every documented operation: method, template of the path, and whether it needs no token.
async fn operations(app: &App) -> Vec<(String, String, bool)> {
    let document = walk::document(app).await;
    let mut operations = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "patch", "delete"] {
            if let Some(operation) = item.get(method) {
                let open = operation["security"] == json!([]);
                operations.push((method.to_ascii_uppercase(), template.clone(), open));
            }
        }
    }
    assert!(operations.len() > 20, "{operations:?}");
    operations
}

/// A body that the operation would accept.
fn body(method: &str, path: &str, kind: &str) -> Option<Value> {
    let last = path.rsplit('/').next().unwrap();
    match (method, last) {
        ("PUT", _) if path.contains("/leases/") => Some(json!({"holder": "walk", "ttl": "10s"})),
        ("PUT" | "POST", "statuses") => Some(validated()),
        ("POST", "force-delete") => Some(json!({"reason": "the test wants it gone"})),
        ("POST", "check") => Some(json!({"verb": "read", "kind": "Cluster"})),
        ("POST", _) => Some(json!({"kind": kind, "name": "made-by-walk", "spec": {}})),
        ("PATCH", _) => Some(json!({"labels": {"changed": "yes"}})),
        _ => None,
    }
}
