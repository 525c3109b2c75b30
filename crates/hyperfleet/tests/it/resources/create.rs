//! POST: created resources and where they are found.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_created_cluster_is_answered_whole,
    a_created_child_names_its_owner,
    server_managed_members_are_ignored,
    null_counts_as_missing_and_an_optional_null_as_absent,
    valid_labels_are_returned,
    any_kind_is_created_through_resources,
    a_body_without_a_media_type_is_json,
);
both_stores!(config = CATALOG;
    a_kind_without_adapters_is_reconciled_from_creation,
    the_third_level_is_created_below_the_whole_chain,
);

async fn a_created_cluster_is_answered_whole(app: &App) {
    let body = json!({
        "kind": "Cluster",
        "name": "my-cluster",
        "spec": {"region": "eu-1", "nodes": 3},
        "labels": {"environment": "production"},
    });
    let answer = app.post("/clusters").json(&body).await;
    assert_snapshot!(transcript(&answer), @r#"
    201
    content-type: application/json
    etag: "[version]"
    location: /api/hyperfleet/v1/clusters/[id 1]

    {
      "kind": "Cluster",
      "id": "[id 1]",
      "href": "/api/hyperfleet/v1/clusters/[id 1]",
      "name": "my-cluster",
      "generation": 1,
      "spec": {
        "region": "eu-1",
        "nodes": 3
      },
      "labels": {
        "environment": "production"
      },
      "created_time": "[time 1]",
      "updated_time": "[time 1]",
      "created_by": "system@hyperfleet.local",
      "updated_by": "system@hyperfleet.local",
      "status": {
        "conditions": [
          {
            "type": "Reconciled",
            "status": "False",
            "reason": "ReconciledMissingAdapters",
            "message": "Required adapters have not yet reported status at generation 1: validator",
            "observed_generation": 1,
            "created_time": "[time 1]",
            "last_updated_time": "[time 1]",
            "last_transition_time": "[time 1]"
          },
          {
            "type": "LastKnownReconciled",
            "status": "False",
            "reason": "AdaptersMissingReports",
            "message": "Required adapters have not yet reported status",
            "observed_generation": 1,
            "created_time": "[time 1]",
            "last_updated_time": "[time 1]",
            "last_transition_time": "[time 1]"
          }
        ]
      }
    }
    "#);

    let created = answer.json();
    assert_eq!(answer.header("location"), Some(href(&created)));
    assert_eq!(id(&created).as_bytes()[14], b'7', "{created}");
    assert!(text(&created["created_time"]).len() <= "2026-01-02T03:04:05.678901Z".len(), "{created}");
    let read = app.get(href(&created)).await.expect_status(200);
    assert_eq!(read.json(), created);
    assert_eq!(etag(&read), etag(&answer));
}

/// A resource with its conditions on one line each; `a_created_cluster_is_answered_whole` shows them whole.
fn short_conditions(mut resource: Value) -> Value {
    for condition in resource["status"]["conditions"].as_array_mut().unwrap() {
        let [kind, status, reason] = ["type", "status", "reason"].map(|member| text(&condition[member]));
        *condition = format!("{kind}={status} {reason}").into();
    }
    resource
}

async fn a_created_child_names_its_owner(app: &App) {
    let cluster = app.create_cluster("owner").await;
    let path = format!("/clusters/{}/nodepools", id(&cluster));
    let answer = app.post(&path).json(&json!({"kind": "NodePool", "name": "pool", "spec": {}})).await;
    let answer = answer.expect_status(201);
    let created = answer.json();
    assert_eq!(answer.header("location"), Some(href(&created)));
    assert_snapshot!(redacted(&short_conditions(created.clone())), @r#"
    {
      "kind": "NodePool",
      "id": "[id 1]",
      "href": "/api/hyperfleet/v1/nodepools/[id 1]",
      "name": "pool",
      "owner_references": {
        "kind": "Cluster",
        "id": "[id 2]",
        "href": "/api/hyperfleet/v1/clusters/[id 2]"
      },
      "generation": 1,
      "spec": {},
      "labels": {},
      "created_time": "[time 1]",
      "updated_time": "[time 1]",
      "created_by": "system@hyperfleet.local",
      "updated_by": "system@hyperfleet.local",
      "status": {
        "conditions": [
          "Reconciled=False ReconciledMissingAdapters",
          "LastKnownReconciled=False AdaptersMissingReports"
        ]
      }
    }
    "#);

    let owner = json!({"kind": "Cluster", "id": cluster["id"], "href": cluster["href"]});
    assert_eq!(created["owner_references"], owner);
}

async fn server_managed_members_are_ignored(app: &App) {
    let id = "0198c0de-1111-7abc-8def-000000000001";
    let body = json!({
        "kind": "Cluster", "name": "managed", "spec": {},
        "id": id, "href": "/elsewhere", "generation": 7,
        "created_time": "2020-01-01T00:00:00Z", "updated_time": "2020-01-01T00:00:00Z",
        "deleted_time": "2020-01-01T00:00:00Z", "created_by": "me", "updated_by": "me", "deleted_by": "me",
        "status": {"conditions": []}, "owner_references": {"kind": "Cluster"}, "tenancy": {"org": "mine"},
    });
    let created = app.create("/clusters", &body).await;
    assert_snapshot!(redacted(&short_conditions(created.clone())), @r#"
    {
      "kind": "Cluster",
      "id": "[id 1]",
      "href": "/api/hyperfleet/v1/clusters/[id 1]",
      "name": "managed",
      "generation": 1,
      "spec": {},
      "labels": {},
      "created_time": "[time 1]",
      "updated_time": "[time 1]",
      "created_by": "system@hyperfleet.local",
      "updated_by": "system@hyperfleet.local",
      "status": {
        "conditions": [
          "Reconciled=False ReconciledMissingAdapters",
          "LastKnownReconciled=False AdaptersMissingReports"
        ]
      }
    }
    "#);
    assert_ne!(created["id"], id);
    app.get(&format!("/clusters/{id}")).await.expect_status(404);
}

async fn null_counts_as_missing_and_an_optional_null_as_absent(app: &App) {
    let body = json!({"kind": "Cluster", "name": "nulls", "spec": {}, "labels": null, "references": null});
    let created = app.create("/clusters", &body).await;
    assert_eq!(created["labels"], json!({}));

    let body = json!({"kind": null, "name": null, "spec": null});
    let answer = app.post("/clusters").json(&body).await.expect_status(400);
    assert_snapshot!(faults(&answer), @"
    kind: kind is required
    name: name is required
    spec: spec is required
    ");
}

async fn valid_labels_are_returned(app: &App) {
    let labels = json!({
        "a": "", "A.b_c-9": "x.Y_z-1", "example.com/name": "v", "a".repeat(63): "b".repeat(63),
        format!("{}/name", "p".repeat(63) + "." + &"q.".repeat(94) + "r"): "253 is not too long".replace(' ', "-"),
    });
    let body = json!({"kind": "Cluster", "name": "labels", "spec": {}, "labels": labels});
    assert_eq!(app.create("/clusters", &body).await["labels"], labels);
}

async fn any_kind_is_created_through_resources(app: &App) {
    let body = json!({"kind": "Cluster", "name": "generic", "spec": {}});
    let answer = app.post("/resources").json(&body).await.expect_status(201);
    let created = answer.json();
    assert_eq!(answer.header("location"), Some(href(&created)));
    assert_eq!(href(&created), format!("{BASE}/clusters/{}", id(&created)));
    assert_eq!(app.read(&created).await, created);

    let child = json!({"kind": "NodePool", "name": "generic", "spec": {}});
    let answer = app.post("/resources").json(&child).await.expect_status(422);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");

    let answer = app.post("/resources").json(&json!({"kind": "Comet", "name": "x", "spec": {}})).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "kind must be one of Cluster, NodePool",
      "instance": "/api/hyperfleet/v1/resources",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "kind",
          "message": "kind must be one of Cluster, NodePool",
          "value": "Comet",
          "constraint": "enum",
          "allowed_values": [
            "Cluster",
            "NodePool"
          ]
        }
      ]
    }
    "#);

    let answer = app.post("/resources").json(&json!({"name": "x"})).await.expect_status(400);
    assert_eq!(answer.json()["errors"][0]["field"], "kind");
}

async fn a_body_without_a_media_type_is_json(app: &App) {
    let body = r#"{"kind": "Cluster", "name": "untyped", "spec": {}}"#;
    app.post("/clusters").body(body).await.expect_status(201);
    let typed = body.replace("untyped", "typed");
    app.post("/clusters")
        .header("content-type", "Application/JSON; charset=utf-8")
        .body(typed)
        .await
        .expect_status(201);
}

async fn a_kind_without_adapters_is_reconciled_from_creation(app: &App) {
    let network = app.create_named("/networks", "Network", "n").await;
    assert_snapshot!(redacted(&network["status"]), @r#"
    {
      "conditions": [
        {
          "type": "Reconciled",
          "status": "True",
          "reason": "NoRequiredAdapters",
          "message": "No adapters are required for this kind",
          "observed_generation": 1,
          "created_time": "[time 1]",
          "last_updated_time": "[time 1]",
          "last_transition_time": "[time 1]"
        },
        {
          "type": "LastKnownReconciled",
          "status": "True",
          "reason": "NoRequiredAdapters",
          "message": "No adapters are required for this kind",
          "observed_generation": 1,
          "created_time": "[time 1]",
          "last_updated_time": "[time 1]",
          "last_transition_time": "[time 1]"
        }
      ]
    }
    "#);
}

async fn the_third_level_is_created_below_the_whole_chain(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
    let path = format!("/zones/{}/racks/{}/hosts", id(&zone), id(&rack));
    let answer =
        app.post(&path).json(&json!({"kind": "Host", "name": "host", "spec": {}})).await.expect_status(201);
    let host = answer.json();
    assert_eq!(host["owner_references"], json!({"kind": "Rack", "id": rack["id"], "href": rack["href"]}));
    assert_eq!(href(&host), format!("{BASE}/hosts/{}", id(&host)));
    assert_eq!(answer.header("location"), Some(href(&host)));
}
