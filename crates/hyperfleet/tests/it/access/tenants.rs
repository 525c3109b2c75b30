//! Tenants: a foreign resource does not exist. Each answer about one is compared, byte for byte, with the answer about
//! a resource that never existed.

mod absent;
mod identification;
mod lists;
mod row_level_security;
mod watches;

use super::*;
use crate::support::{CATALOG, href, id, text};

/// Kinds of the catalog that the walk has a tree of, by plural.
const KINDS: [(&str, &str); 8] = [
    ("clusters", "Cluster"),
    ("nodepools", "NodePool"),
    ("zones", "Zone"),
    ("racks", "Rack"),
    ("hosts", "Host"),
    ("permits", "Permit"),
    ("networks", "Network"),
    ("services", "Service"),
];

fn tenants() -> String {
    let server = "
server:
  tenant:
    enabled: true
    system_header: X-System
    dimensions:
      - {header: X-Org, key: org, required: true}
      - {header: X-Project, key: project, required: false}
";
    server.to_owned() + CATALOG
}

fn org<'a>(app: &'a App, org: &str) -> Caller<'a> {
    Caller::new(app, &[("x-org", org)])
}

fn system(app: &App) -> Caller<'_> {
    Caller::new(app, &[("x-system", "true")])
}

/// An id that no resource has; another for each number.
fn unknown_id(number: usize) -> String {
    format!("0198c0de-0000-7abc-8def-0000000000{number:02x}")
}

/// One resource of each kind, by plural.
struct Tree(Vec<(&'static str, Value)>);

impl Tree {
    async fn plant(caller: &Caller<'_>) -> Self {
        let named = |kind: &str| json!({"kind": kind, "name": "planted", "spec": {"a": 1}});
        let cluster = caller.create("/clusters", &named("Cluster")).await;
        let nodepool = caller.create(&format!("{}/nodepools", href(&cluster)), &named("NodePool")).await;
        let zone = caller.create("/zones", &named("Zone")).await;
        let rack = caller.create(&format!("{}/racks", href(&zone)), &named("Rack")).await;
        let host = caller.create(&format!("{}/hosts", href(&rack)), &named("Host")).await;
        let permit = caller.create(&format!("{}/permits", href(&zone)), &named("Permit")).await;
        let network = caller.create("/networks", &named("Network")).await;
        let mut service = named("Service");
        service["references"] = json!({"networks": [{"id": id(&network)}]});
        let service = caller.create("/services", &service).await;
        let planted = [cluster, nodepool, zone, rack, host, permit, network, service];
        Self(KINDS.iter().map(|(plural, _)| *plural).zip(planted).collect())
    }

    /// Ids by plural.
    fn ids(&self) -> Vec<(&'static str, String)> {
        self.0.iter().map(|(plural, resource)| (*plural, id(resource).to_owned())).collect()
    }

    async fn expect_untouched(&self, caller: &Caller<'_>) {
        for (_, resource) in &self.0 {
            let now = caller.get(href(resource)).await.expect_status(200).json();
            assert_eq!(now, *resource);
            let statuses = format!("{}/statuses", href(resource));
            assert_eq!(caller.get(&statuses).await.expect_status(200).json()["items"], json!([]));
        }
    }
}

/// Ids that no resource has, one for each plural.
fn unknown_ids() -> Vec<(&'static str, String)> {
    KINDS.iter().enumerate().map(|(number, (plural, _))| (*plural, unknown_id(number))).collect()
}

/// The path with the id that goes with each plural; below `resources` it is that of `any`.
fn filled(template: &str, any: &str, ids: &[(&str, String)]) -> String {
    let mut plural = "";
    let segments = template.split('/').map(|part| {
        if part.starts_with('{') {
            let wanted = if plural == "resources" { any } else { plural };
            let known = ids.iter().find(|(plural, _)| *plural == wanted);
            known.unwrap_or_else(|| panic!("{template}: a tree has no {wanted}")).1.clone()
        } else {
            plural = part;
            part.to_owned()
        }
    });
    segments.collect::<Vec<_>>().join("/")
}

/// An answer as text, without its time; each real id becomes the unknown one.
fn masked(answer: &Answer, masks: &[(String, String)]) -> String {
    let mut answer = answer.clone();
    answer.headers.remove("date");
    let mut shown = answer.to_string();
    if let Ok(Value::Object(problem)) = serde_json::from_slice(&answer.body)
        && let Some(timestamp) = problem.get("timestamp")
    {
        shown = shown.replace(text(timestamp), "[time]");
    }
    masks.iter().fold(shown, |shown, (from, to)| shown.replace(from, to))
}

async fn asked(
    caller: &Caller<'_>,
    method: &str,
    path: &str,
    body: Option<&Value>,
    if_match: bool,
) -> Answer {
    let asked = caller.call(method, path).header("x-request-id", "the-same");
    let asked = if if_match { asked.header("if-match", "*") } else { asked };
    match body {
        Some(body) => asked.json(body).await,
        None => asked.await,
    }
}

fn names(list: &(u64, Vec<String>)) -> (u64, Vec<&str>) {
    (list.0, list.1.iter().map(String::as_str).collect())
}
