//! What is loaded for callers with a restricted access scope.

use super::*;
use hyperfleet_core::rules::LoadPlan;
use hyperfleet_core::{AccessScope, Command, Policy, PolicyDescriptor, ResourcePath};
use request::Tag;
use serde_json::json;

/// A Cluster without labels and a NodePool below it, and the ids of both.
fn tree() -> (Database, [ResourceId; 2]) {
    let mut database = empty_database();
    let mut path: Vec<(&'static str, String)> = Vec::new();
    let ids = ["Cluster", "NodePool"].map(|name| {
        let request = Request::Create {
            kind: kind(name),
            path: path.clone(),
            name: "one",
            spec: json!({}),
            labels: Labels::new(),
            references: References::new(),
        };
        let made = database.run(&[request.command("ann", false)], Timestamp::from_micros(1)).remove(0);
        let id = shown(&made.unwrap()).id;
        path.push((name, id.to_string()));
        id
    });
    (database, ids)
}

fn target(id: ResourceId) -> ResourcePath {
    ResourcePath { kind: None, id: id.to_string(), ancestors: Vec::new() }
}

/// Deletes as a caller that sees only resources labelled for development.
fn delete(database: &Database, id: ResourceId) -> Command {
    let policy: PolicyDescriptor = serde_json::from_value(json!({
        "roles": [{"name": "dev", "rules": [{"verbs": ["*"], "kinds": ["*"], "labels": {"for": "dev"}}]}],
        "default_role": "dev",
    }))
    .unwrap();
    let policy = Policy::new(&policy, &database.rulebook.catalog).unwrap();
    let rights = policy.rights(Some("dan"), |_| Vec::new());
    let mut command = Request::Delete { target: target(id), tag: Tag::Absent }.command("dan", false);
    command.caller.scope = AccessScope::new(None, Some(Arc::new(rights)));
    command
}

fn relabel(id: ResourceId) -> Command {
    let body = json!({"labels": {"for": "dev"}});
    Request::Merge { target: target(id), tag: Tag::Absent, body }.command("ann", false)
}

#[test]
fn descendants_of_a_resource_outside_of_the_access_scope_are_not_loaded() {
    let (mut database, [cluster, _]) = tree();
    let loaded = |database: &Database| {
        let needs = LoadPlan::of(&database.rulebook, &[delete(database, cluster)]);
        let loaded = database.load(&needs);
        loaded.set.loaded().map(|resource| resource.id).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(loaded(&database), 1, "the resource that is named");
    database.run(&[relabel(cluster)], Timestamp::from_micros(2)).remove(0).unwrap();
    assert_eq!(loaded(&database), 2);
}

#[test]
fn a_resource_that_becomes_visible_within_a_batch_goes_with_all_below_it() {
    let (mut database, [cluster, pool]) = tree();
    let batch = [relabel(cluster), delete(&database, cluster)];
    for answer in database.run(&batch, Timestamp::from_micros(2)) {
        answer.unwrap();
    }
    assert!(!database.rows.contains_key(&cluster));
    assert!(!database.rows.contains_key(&pool), "an orphan is left");
}
