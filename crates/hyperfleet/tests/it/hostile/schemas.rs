//! Specs that a schema can only be compared with at great cost: the server answers, and its memory stays small.

use serde_json::{Value, json};

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

both_stores!(start = |backend| with_schema(backend, TREE); a_recursive_one_of_is_checked_in_little_memory);
