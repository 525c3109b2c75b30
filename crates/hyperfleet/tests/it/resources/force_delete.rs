//! Force-delete: only of a finalizing resource, only with a reason, and with all that is below it.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::*;

both_stores!(
    a_finalizing_resource_is_removed_with_its_children,
    an_active_resource_is_refused,
    a_removed_resource_is_not_found,
    a_reason_is_required,
    a_reason_has_bounds,
    a_child_is_removed_by_every_path,
);
both_stores!(config = CATALOG; a_whole_subtree_is_removed_in_one_step);

async fn a_finalizing_resource_is_removed_with_its_children(app: &App) {
    let cluster = app.create_cluster("stuck").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&cluster).await;
    let path = format!("{}/force-delete", href(&cluster));
    let answer = app.post(&path).json(&json!({"reason": "the cloud is gone"})).await.expect_status(204);
    assert!(answer.body.is_empty());
    app.get(href(&cluster)).await.expect_status(404);
    app.get(href(&pool)).await.expect_status(404);
    assert_eq!(app.names("/resources?showDeleted=true").await, [""; 0]);
    app.create_cluster("stuck").await;
}

async fn an_active_resource_is_refused(app: &App) {
    let cluster = app.create_cluster("active").await;
    let path = format!("{}/force-delete", href(&cluster));
    assert_snapshot!(transcript(&app.post(&path).json(&json!({"reason": "hurry"})).await), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "State Conflict",
      "status": 409,
      "detail": "Cluster '[id 1]' is not being deleted: only a finalizing resource can be force-deleted, so DELETE it first",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]/force-delete",
      "code": "HYPERFLEET-CNF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn a_removed_resource_is_not_found(app: &App) {
    let cluster = app.create_cluster("gone").await;
    app.remove(&cluster).await;
    app.force_delete(&cluster).await;
    let path = format!("{}/force-delete", href(&cluster));
    let answer = app.post(&path).json(&json!({"reason": "again"})).await.expect_status(404);
    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-002");
}

async fn a_reason_is_required(app: &App) {
    let cluster = app.create_cluster("reason").await;
    app.remove(&cluster).await;
    let path = format!("{}/force-delete", href(&cluster));
    assert_snapshot!(transcript(&app.post(&path).json(&json!({})).await), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Required Field Missing",
      "status": 400,
      "detail": "reason is required",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]/force-delete",
      "code": "HYPERFLEET-VAL-001",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "reason",
          "message": "reason is required",
          "constraint": "required"
        }
      ]
    }
    "#);
    for (body, code) in [
        ("", "VAL-003"),
        ("[]", "VAL-003"),
        ("{\"reason\": null}", "VAL-001"),
        ("{\"reason\": 5}", "VAL-002"),
        ("{\"reason\": \"\"}", "VAL-002"),
        ("{\"reason\": \" \\t\"}", "VAL-002"),
        ("{\"reason\": \"x\", \"colour\": 1}", "VAL-003"),
        ("{\"reason\": \"a\\u0000b\"}", "VAL-002"),
    ] {
        let answer = app.post(&path).body(body).await.expect_status(400);
        assert_eq!(answer.problem_code(), format!("HYPERFLEET-{code}"), "{body}");
    }
    app.read(&cluster).await;
}

async fn a_reason_has_bounds(app: &App) {
    let cluster = app.create_cluster("bounds").await;
    app.remove(&cluster).await;
    let path = format!("{}/force-delete", href(&cluster));
    let answer = app.post(&path).json(&json!({"reason": "é".repeat(1025)})).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
    assert_eq!(answer.json()["errors"][0]["max_value"], 1024);
    app.post(&path).json(&json!({"reason": "é".repeat(1024)})).await.expect_status(204);
}

async fn a_child_is_removed_by_every_path(app: &App) {
    let cluster = app.create_cluster("parent").await;
    for path in ["/nodepools/{pool}", "/clusters/{cluster}/nodepools/{pool}", "/resources/{pool}"] {
        let pool = app.create_nodepool(&cluster, "pool").await;
        app.remove(&pool).await;
        let path = path.replace("{pool}", id(&pool)).replace("{cluster}", id(&cluster)) + "/force-delete";
        app.post(&path).json(&json!({"reason": "test"})).await.expect_status(204);
        app.get(href(&pool)).await.expect_status(404);
    }
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn a_whole_subtree_is_removed_in_one_step(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let racks = format!("{}/racks", href(&zone));
    let (one, two) =
        (app.create_named(&racks, "Rack", "one").await, app.create_named(&racks, "Rack", "two").await);
    for rack in [&one, &two] {
        for host in ["a", "b"] {
            app.create_named(&format!("{}/hosts", href(rack)), "Host", host).await;
        }
    }
    app.remove(&zone).await;
    app.force_delete(&one).await;
    assert_eq!(app.names("/hosts?showDeleted=true&orderBy=name").await, ["a", "b"]);
    assert_eq!(app.read(&zone).await["status"]["conditions"][0]["reason"], "ReconciledWaitingForChildren");
    app.force_delete(&zone).await;
    assert_eq!(app.get("/resources?showDeleted=true").await.json()["total"], 0);
}
