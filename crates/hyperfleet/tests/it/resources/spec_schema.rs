//! Specs against the schema that `server.openapi_schema_path` names.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::*;

const SCHEMA: &str = r"
openapi: 3.1.0
components:
  schemas:
    Region: {type: string, enum: [eu, us]}
    ClusterSpec:
      type: object
      required: [region, nodes]
      additionalProperties: false
      properties:
        region: {$ref: '#/components/schemas/Region'}
        nodes: {type: integer, minimum: 1, maximum: 9}
        name: {type: string, pattern: '^[a-z]+$', maxLength: 5}
        started: {type: string, format: date-time}
        tags: {type: array, items: {type: string}}
";

/// A server with that schema, on the store that the name says.
async fn with_schema(on_postgres: bool) -> (App, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("schema.yaml");
    std::fs::write(&path, SCHEMA).unwrap();
    let config = format!("server: {{openapi_schema_path: {}}}", path.display());
    let app = if on_postgres { App::postgres(&config).await } else { App::sqlite(&config).await };
    (app, directory)
}

#[tokio::test]
async fn every_violation_of_a_spec_is_reported_at_once() {
    let (app, _directory) = with_schema(false).await;
    let spec = json!({"extra": 1, "tags": ["a", 5], "started": "now", "name": "Abcdef", "more": 2, "nodes": 0, "region": "mars"});
    let answer = app.post("/clusters").json(&json!({"kind": "Cluster", "name": "wrong", "spec": spec})).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Validation Error",
      "status": 400,
      "detail": "Request validation failed with 8 errors",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-000",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "spec.extra",
          "message": "spec.extra is not a member that the schema allows",
          "constraint": "unknown"
        },
        {
          "field": "spec.tags[1]",
          "message": "spec.tags[1] has the wrong type: value is not of type \"string\"",
          "value": 5,
          "constraint": "type"
        },
        {
          "field": "spec.started",
          "message": "spec.started must be a valid date-time",
          "value": "now",
          "constraint": "format",
          "format": "date-time"
        },
        {
          "field": "spec.name",
          "message": "spec.name must have at most 5 characters",
          "value": "Abcdef",
          "constraint": "max_length",
          "max_value": 5
        },
        {
          "field": "spec.name",
          "message": "spec.name must match the pattern ^[a-z]+$",
          "value": "Abcdef",
          "constraint": "pattern",
          "pattern": "^[a-z]+$"
        },
        {
          "field": "spec.more",
          "message": "spec.more is not a member that the schema allows",
          "constraint": "unknown"
        },
        {
          "field": "spec.nodes",
          "message": "spec.nodes must be at least 1",
          "value": 0,
          "constraint": "min",
          "min_value": 1
        },
        {
          "field": "spec.region",
          "message": "spec.region must be one of eu, us",
          "value": "mars",
          "constraint": "enum",
          "allowed_values": [
            "eu",
            "us"
          ]
        }
      ]
    }
    "#);

    let answer = app
        .post("/clusters")
        .json(&json!({"kind": "Cluster", "name": "X", "spec": {}}))
        .await
        .expect_status(400);
    assert_snapshot!(faults(&answer), @"
    name: name must have at least 3 characters, not 1
    name: name must consist of lower-case letters, digits and '-', and start and end with a letter or digit
    spec.region: spec.region is required
    spec.nodes: spec.nodes is required
    ");
    let one = json!({"kind": "Cluster", "name": "one", "spec": {"region": "eu"}});
    assert_eq!(
        app.post("/clusters").json(&one).await.expect_status(400).problem_code(),
        "HYPERFLEET-VAL-001"
    );
}

#[test]
fn a_patch_is_validated_by_its_result() {
    run(async {
        for on_postgres in [false, true] {
            let (app, _directory) = with_schema(on_postgres).await;
            let body = json!({"kind": "Cluster", "name": "right", "spec": {"region": "eu", "nodes": 3}});
            let cluster = app.create("/clusters", &body).await;
            app.merge(&cluster, &json!({"spec": {"nodes": 4}})).await;
            let before = app.read(&cluster).await;
            let answer =
                app.patch(href(&cluster)).json(&json!({"spec": {"nodes": 10, "region": null}})).await;
            assert_eq!(answer.clone().expect_status(400).problem_code(), "HYPERFLEET-VAL-000");
            assert_snapshot!(faults(&answer), @"
            spec.nodes: spec.nodes must be at most 9
            spec.region: spec.region is required
            ");
            let operations = json!([{"op": "remove", "path": "/spec/region"}]);
            let json_patch = app.patch(href(&cluster)).header("content-type", "application/json-patch+json");
            let answer = json_patch.json(&operations).await.expect_status(400);
            assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-001");
            assert_eq!(answer.json()["errors"][0]["field"], "spec.region");
            app.patch(&format!("{}?dryRun=true", href(&cluster)))
                .json(&json!({"spec": {"x": 1}}))
                .await
                .expect_status(400);
            assert_eq!(app.read(&cluster).await, before);
        }
    });
}

#[tokio::test]
async fn a_kind_without_a_schema_accepts_every_spec() {
    let (app, _directory) = with_schema(false).await;
    let body = json!({"kind": "Cluster", "name": "right", "spec": {"region": "us", "nodes": 1}});
    let cluster = app.create("/clusters", &body).await;
    let pool = json!({"kind": "NodePool", "name": "pool", "spec": {"anything": ["goes"]}});
    app.create(&format!("{}/nodepools", href(&cluster)), &pool).await;
}
