//! Specs that a schema can only be compared with at great cost: the server answers, and its memory stays small.

use insta::assert_snapshot;
use serde_json::{Map, Value, json};

use crate::support::*;

/// A tree whose inner variants share a recursive member, each listed before the member that tells them apart.
const TREE: &str = r"
openapi: 3.1.0
components:
  schemas:
    ClusterSpec: {$ref: '#/components/schemas/Node'}
    Node:
      oneOf:
        - $ref: '#/components/schemas/Group'
        - $ref: '#/components/schemas/Row'
        - $ref: '#/components/schemas/Leaf'
    Children: {type: array, items: {$ref: '#/components/schemas/Node'}}
    Group:
      type: object
      required: [kind, children]
      properties: {children: {$ref: '#/components/schemas/Children'}, kind: {enum: [group]}}
    Row:
      type: object
      required: [kind, children]
      properties: {children: {$ref: '#/components/schemas/Children'}, kind: {enum: [row]}}
    Leaf:
      type: object
      required: [kind]
      properties: {kind: {enum: [leaf]}, value: {type: integer}}
";

/// Far more than a debug build needs, and far less than one hostile spec took.
const MEMORY: usize = 400 << 20;

async fn with_schema(backend: Backend, schema: &str) -> (App, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("schema.yaml");
    std::fs::write(&path, schema).unwrap();
    let app = App::on(backend, &format!("server: {{openapi_schema_path: {}}}", path.display())).await;
    (app, directory)
}

fn nested(depth: usize, leaf: &Value) -> Value {
    let kinds = ["group", "row"].iter().cycle().take(depth);
    kinds.fold(leaf.clone(), |child, kind| json!({"kind": kind, "children": [child]}))
}

/// The most memory that the server has held so far, in bytes.
fn peak_memory(app: &App) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", app.server.pid().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

async fn a_recursive_one_of_is_checked_in_little_memory((app, _directory): &mut (App, tempfile::TempDir)) {
    for depth in [12, 16, 18, 30] {
        let body = |leaf| json!({"kind": "Cluster", "name": "tree", "spec": nested(depth, &leaf)});
        let valid = body(json!({"kind": "leaf", "value": 1}));
        app.post("/clusters?dryRun=true").json(&valid).await.expect_status(201);
        let invalid = body(json!({"kind": "leaf", "value": "x"}));
        let answer = app.post("/clusters?dryRun=true").json(&invalid).await.expect_status(400);
        assert_eq!(answer.json()["errors"][0]["field"], "spec", "depth {depth}");
        let peak = peak_memory(app);
        assert!(peak < MEMORY, "depth {depth} took {peak} bytes");
    }
    let leaf = json!({"kind": "Cluster", "name": "leaf", "spec": {"kind": "leaf"}});
    app.create("/clusters", &leaf).await;
    app.server.health().get("/readyz").await.expect_status(200);
}

/// A schema whose check of `list` takes long, and of `twice` never comes to an end.
fn long() -> String {
    let step = |i: usize| {
        let next = format!("#/components/schemas/A{}", i + 1);
        (format!("A{i}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}))
    };
    let mut schemas: Map<String, Value> = (0..60).map(step).collect();
    schemas.insert("A60".to_owned(), json!({"properties": {"a": true}}));
    let twice = json!({"$ref": "#/components/schemas/A0", "unevaluatedProperties": false});
    let list = json!({"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}});
    schemas
        .insert("ClusterSpec".to_owned(), json!({"properties": {"list": list, "twice": {"items": twice}}}));
    json!({"openapi": "3.1.0", "components": {"schemas": schemas}}).to_string()
}

async fn a_spec_that_takes_long_to_check_is_checked_to_its_end(
    (app, _directory): &mut (App, tempfile::TempDir),
) {
    let list = |last: Value| -> Value { (0..50_000).map(Value::from).chain([last]).collect() };
    let body = |name: &str, list: Value| json!({"kind": "Cluster", "name": name, "spec": {"list": list}});
    let cluster = app.create("/clusters", &body("long", list(json!("last")))).await;
    let answer = app.post("/clusters").json(&body("wrong", list(json!(null)))).await.expect_status(400);
    assert_eq!(answer.json()["errors"][0]["field"], "spec.list[50000]");

    let changed = app.merge(&cluster, &json!({"spec": {"list": list(json!("other"))}})).await;
    assert_eq!(changed["spec"]["list"][50_000], "other");
    let wrong = json!({"spec": {"list": list(json!(false))}});
    let answer = app.patch(href(&cluster)).json(&wrong).await.expect_status(400);
    assert_eq!(answer.json()["errors"][0]["field"], "spec.list[50000]");
    let operation = json!([{"op": "add", "path": "/spec/list/-", "value": "more"}]);
    let call = app.patch(href(&cluster)).header("content-type", "application/json-patch+json");
    assert_eq!(call.json(&operation).await.expect_status(200).json()["spec"]["list"][50_001], "more");
}

async fn a_spec_that_is_too_complex_is_refused_at_its_path((app, _directory): &mut (App, tempfile::TempDir)) {
    let cluster = app.create_cluster("small").await;
    let spec = json!({"twice": [{}, {"a": 1}]});
    let answers = [
        app.post("/clusters").json(&json!({"kind": "Cluster", "name": "large", "spec": spec})).await,
        app.patch(href(&cluster)).json(&json!({"spec": spec})).await,
    ];
    for answer in answers {
        assert_eq!(answer.clone().expect_status(400).problem_code(), "HYPERFLEET-VAL-002");
        assert_snapshot!(faults(&answer), @"spec.twice[0]: spec.twice[0] is too complex to be checked against its schema");
        assert_eq!(answer.json()["errors"][0]["constraint"], "complexity");
    }
    assert_eq!(app.read(&cluster).await, cluster);
}

both_stores!(start = |backend| with_schema(backend, TREE); a_recursive_one_of_is_checked_in_little_memory);
both_stores!(start = async |backend| with_schema(backend, &long()).await; a_spec_that_takes_long_to_check_is_checked_to_its_end, a_spec_that_is_too_complex_is_refused_at_its_path);
