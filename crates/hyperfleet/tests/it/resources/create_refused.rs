//! POST: refusals and their faults.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::*;

both_stores!(
    an_unknown_member_is_refused_by_name,
    no_child_is_created_below_a_parent_that_is_missing_or_finalizing,
);
any_store!(
    everything_that_is_missing_is_reported_in_document_order,
    a_kind_that_does_not_fit_the_route_is_refused,
    members_of_the_wrong_type_are_refused,
    every_bad_label_is_reported,
    a_label_prefix_has_a_bound,
    a_child_is_not_created_on_its_flat_route,
    other_media_types_are_refused,
    a_body_that_is_no_json_object_is_refused,
);

async fn an_unknown_member_is_refused_by_name(app: &App) {
    let body = json!({"kind": "Cluster", "name": "one-more", "spec": {}, "colour": "red"});
    let answer = app.post("/clusters").json(&body).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/invalid-request",
      "title": "Invalid Request Body",
      "status": 400,
      "detail": "colour is not a known member",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "colour",
          "message": "colour is not a known member",
          "constraint": "unknown"
        }
      ]
    }
    "#);
}

async fn everything_that_is_missing_is_reported_in_document_order(app: &App) {
    let answer = app.post("/clusters").json(&json!({})).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Validation Error",
      "status": 400,
      "detail": "Request validation failed with 3 errors",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-000",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "kind",
          "message": "kind is required",
          "constraint": "required"
        },
        {
          "field": "name",
          "message": "name is required",
          "constraint": "required"
        },
        {
          "field": "spec",
          "message": "spec is required",
          "constraint": "required"
        }
      ]
    }
    "#);

    let body = json!({"labels": {"a b": "c"}, "name": "X", "colour": "red", "spec": []});
    let answer = app.post("/clusters").json(&body).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    assert_snapshot!(faults(&answer), @"
    labels['a b']: labels['a b']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
    name: name must have at least 3 characters, not 1
    name: name must consist of lower-case letters, digits and '-', and start and end with a letter or digit
    colour: colour is not a known member
    spec: spec must be an object, not an array
    kind: kind is required
    ");

    let answer = app.post("/clusters").json(&json!({"kind": "Cluster", "spec": {}})).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-001");
    assert_eq!(answer.json()["errors"][0]["field"], "name");
}

async fn a_kind_that_does_not_fit_the_route_is_refused(app: &App) {
    let body = json!({"kind": "NodePool", "name": "odd", "spec": {}});
    let answer = app.post("/clusters").json(&body).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "kind must be Cluster here",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "kind",
          "message": "kind must be Cluster here",
          "value": "NodePool",
          "constraint": "enum",
          "allowed_values": [
            "Cluster"
          ]
        }
      ]
    }
    "#);
}

async fn members_of_the_wrong_type_are_refused(app: &App) {
    let body = json!({"kind": 5, "name": ["x"], "spec": "text", "labels": [], "references": 1});
    let answer = app.post("/clusters").json(&body).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    assert_snapshot!(faults(&answer), @"
    kind: kind must be Cluster here
    name: name must be a string, not an array
    spec: spec must be an object, not a string
    labels: labels must be an object, not an array
    references: references must be an object, not a number
    ");
}

async fn every_bad_label_is_reported(app: &App) {
    let long = "x".repeat(64);
    let labels = json!({
        "a b": "ok", "-start": "-start", "UPPER.example.com/name": "1", "/name": "1", "prefix/": "1", "number": 5,
        "two/slashes/here": "1", "value": long, &long: "1", "nothing": null, "": "1",
    });
    let body = json!({"kind": "Cluster", "name": "labels", "spec": {}, "labels": labels});
    let answer = app.post("/clusters").json(&body).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    assert_snapshot!(faults(&answer), @"
    labels['a b']: labels['a b']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
    labels['-start']: labels['-start']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
    labels['-start']: labels['-start']: the value must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
    labels['UPPER.example.com/name']: labels['UPPER.example.com/name']: the key's prefix must be a DNS subdomain such as example.com
    labels['/name']: labels['/name']: the key's prefix must have 1 to 253 characters, not 0
    labels['prefix/']: labels['prefix/']: the key's name must have 1 to 63 characters, not 0
    labels.number: labels.number must be a string, not a number
    labels['two/slashes/here']: labels['two/slashes/here']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
    labels.value: labels.value: the value must have at most 63 characters, not 64
    labels.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: labels.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: the key's name must have 1 to 63 characters, not 64
    labels.nothing: labels.nothing must be a string, not null
    labels['']: labels['']: the key's name must have 1 to 63 characters, not 0
    ");
}

async fn a_label_prefix_has_a_bound(app: &App) {
    let key = format!("{}/name", "p.".repeat(126) + "pp");
    let body = json!({"kind": "Cluster", "name": "labels", "spec": {}, "labels": {key: "1"}});
    let answer = app.post("/clusters").json(&body).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
    let problem = answer.json();
    assert_eq!(problem["errors"].as_array().unwrap().len(), 1);
    assert_eq!(problem["errors"][0]["max_value"], 253);
    assert!(text(&problem["errors"][0]["field"]).chars().count() <= 256, "{answer}");
}

async fn a_child_is_not_created_on_its_flat_route(app: &App) {
    let answer = app.post("/nodepools").json(&json!({"kind": "NodePool", "name": "flat", "spec": {}})).await;
    assert_snapshot!(transcript(&answer), @r#"
    422
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 422,
      "detail": "NodePool is created below its Cluster: POST /api/hyperfleet/v1/clusters/{cluster_id}/nodepools",
      "instance": "/api/hyperfleet/v1/nodepools",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
}

async fn other_media_types_are_refused(app: &App) {
    let body = r#"{"kind": "Cluster", "name": "typed", "spec": {}}"#;
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"] {
        let answer =
            app.post("/clusters").header("content-type", media_type).body(body).await.expect_status(415);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003");
    }
    let answer = app.post("/clusters").header("content-encoding", "gzip").body(body).await.expect_status(415);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003");
    let answer = app.post("/clusters").header("content-type", "text/plain").body(body).await;
    assert_snapshot!(transcript(&answer), @r#"
    415
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/invalid-request",
      "title": "Invalid Request Body",
      "status": 415,
      "detail": "The media type 'text/plain' is not supported. Send application/json.",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
}

async fn a_body_that_is_no_json_object_is_refused(app: &App) {
    for body in ["", " ", "{", "[]", "null", "\"text\"", "{\"kind\": \"Cluster\",}", "{} {}"] {
        let answer = app.post("/clusters").body(body).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003", "{body}");
    }
    assert_snapshot!(transcript(&app.post("/clusters").body("[1]").await), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/invalid-request",
      "title": "Invalid Request Body",
      "status": 400,
      "detail": "The request body must be a JSON object.",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
}

async fn no_child_is_created_below_a_parent_that_is_missing_or_finalizing(app: &App) {
    let body = json!({"kind": "NodePool", "name": "pool", "spec": {}});
    let answer = app.post("/clusters/absent/nodepools").json(&body).await;
    assert_snapshot!(transcript(&answer), @r#"
    404
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-not-found",
      "title": "Cluster Not Found",
      "status": 404,
      "detail": "Cluster 'absent' not found",
      "instance": "/api/hyperfleet/v1/clusters/absent/nodepools",
      "code": "HYPERFLEET-NTF-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);

    let cluster = app.create_cluster("parent").await;
    app.remove(&cluster).await;
    let answer = app.post(&format!("{}/nodepools", href(&cluster))).json(&body).await;
    assert_snapshot!(transcript(&answer), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "State Conflict",
      "status": 409,
      "detail": "Cannot create NodePool: its owner Cluster '[id 1]' is being deleted",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]/nodepools",
      "code": "HYPERFLEET-CNF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
}
