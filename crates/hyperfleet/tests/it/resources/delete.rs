//! DELETE: finalizing, cascades, and what blocks a deletion.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_deleted_cluster_is_finalizing,
    a_second_delete_changes_nothing,
    finalizing_resources_are_listed_only_when_asked_for,
    deletion_cascades_to_children,
    a_child_is_deleted_alone_by_every_path,
);
both_stores!(config = CATALOG;
    a_kind_without_adapters_is_removed_at_once,
    an_active_child_that_restricts_refuses_the_whole_deletion,
    a_deleted_restricting_child_blocks_nothing,
    owners_wait_for_the_last_child_and_are_removed_with_it,
    a_tree_without_adapters_is_removed_at_once,
    a_restricting_child_blocks_its_owner_and_not_its_siblings,
);

async fn a_deleted_cluster_is_finalizing(app: &App) {
    let body = json!({"kind": "Cluster", "name": "leaving", "spec": {"a": 1}, "labels": {"k": "v"}});
    let created = app.create("/clusters", &body).await;
    let tag = app.etag(&created).await;
    let answer = app.delete(href(&created)).await;
    assert_snapshot!(transcript(&answer), @r#"
    202
    content-type: application/json
    etag: "[version]"

    {
      "kind": "Cluster",
      "id": "[id 1]",
      "href": "/api/hyperfleet/v1/clusters/[id 1]",
      "name": "leaving",
      "generation": 2,
      "spec": {
        "a": 1
      },
      "labels": {
        "k": "v"
      },
      "created_time": "[time 1]",
      "updated_time": "[time 2]",
      "created_by": "system@hyperfleet.local",
      "updated_by": "system@hyperfleet.local",
      "deleted_time": "[time 2]",
      "deleted_by": "system@hyperfleet.local",
      "status": {
        "conditions": [
          {
            "type": "Reconciled",
            "status": "False",
            "reason": "ReconciledMissingAdapters",
            "message": "Required adapters not reporting Finalized=True at generation 2: validator",
            "observed_generation": 2,
            "created_time": "[time 1]",
            "last_updated_time": "[time 2]",
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
    assert_eq!(app.read(&created).await, answer.json());
    assert_ne!(app.etag(&created).await, tag);
}

async fn a_second_delete_changes_nothing(app: &App) {
    let cluster = app.create_cluster("twice").await;
    let first = app.delete(href(&cluster)).await.expect_status(202).json();
    let tag = app.etag(&cluster).await;
    let second = app.delete(href(&cluster)).await.expect_status(202).json();
    assert_eq!(second, first);
    assert_eq!(app.etag(&cluster).await, tag);
}

async fn finalizing_resources_are_listed_only_when_asked_for(app: &App) {
    app.create_cluster("stays").await;
    let gone = app.create_cluster("leaves").await;
    app.remove(&gone).await;
    assert_eq!(app.names("/clusters").await, ["stays"]);
    assert_eq!(app.names("/clusters?showDeleted=true&orderBy=name").await, ["leaves", "stays"]);
}

async fn deletion_cascades_to_children(app: &App) {
    let (cluster, other) = (app.create_cluster("parent").await, app.create_cluster("other").await);
    let pools = [app.create_nodepool(&cluster, "one").await, app.create_nodepool(&cluster, "two").await];
    let spared = app.create_nodepool(&other, "one").await;
    let deleted = app.remove(&cluster).await;
    assert_snapshot!(redacted(&deleted["status"]["conditions"][0]), @r#"
    {
      "type": "Reconciled",
      "status": "False",
      "reason": "ReconciledMissingAdapters",
      "message": "Required adapters not reporting Finalized=True at generation 2: validator",
      "observed_generation": 2,
      "created_time": "[time 1]",
      "last_updated_time": "[time 2]",
      "last_transition_time": "[time 1]"
    }
    "#);
    for pool in &pools {
        let now = app.read(pool).await;
        assert_eq!(now["deleted_time"], deleted["deleted_time"]);
        assert_eq!(now["deleted_by"], deleted["deleted_by"]);
        assert_eq!(now["generation"], 2);
    }
    assert_eq!(app.read(&spared).await, spared);
}

async fn a_child_is_deleted_alone_by_every_path(app: &App) {
    let cluster = app.create_cluster("parent").await;
    for path in ["/nodepools/{pool}", "/clusters/{cluster}/nodepools/{pool}", "/resources/{pool}"] {
        let pool = app.create_nodepool(&cluster, "pool").await;
        let path = path.replace("{pool}", id(&pool)).replace("{cluster}", id(&cluster));
        let deleted = app.delete(&path).await.expect_status(202).json();
        assert_eq!(deleted["generation"], 2);
        assert_eq!(app.read(&pool).await, deleted);
    }
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn zone(app: &App) -> Value {
    app.create_named("/zones", "Zone", &unique("zone")).await
}

async fn below(app: &App, owner: &Value, plural: &str, kind: &str) -> Value {
    app.create_named(&format!("{}/{plural}", href(owner)), kind, &unique("child")).await
}

async fn a_kind_without_adapters_is_removed_at_once(app: &App) {
    let network = app.create_named("/networks", "Network", "short").await;
    let answer = app.delete(href(&network)).await;
    assert_snapshot!(transcript(&answer), @r#"
    202
    content-type: application/json
    etag: "[version]"

    {
      "kind": "Network",
      "id": "[id 1]",
      "href": "/api/hyperfleet/v1/networks/[id 1]",
      "name": "short",
      "generation": 2,
      "spec": {},
      "labels": {},
      "created_time": "[time 1]",
      "updated_time": "[time 2]",
      "created_by": "system@hyperfleet.local",
      "updated_by": "system@hyperfleet.local",
      "deleted_time": "[time 2]",
      "deleted_by": "system@hyperfleet.local",
      "status": {
        "conditions": [
          {
            "type": "Reconciled",
            "status": "True",
            "reason": "ReconciledAll",
            "message": "All required adapters reported Available=True or Finalized=True at the current generation",
            "observed_generation": 2,
            "created_time": "[time 1]",
            "last_updated_time": "[time 2]",
            "last_transition_time": "[time 1]"
          },
          {
            "type": "LastKnownReconciled",
            "status": "True",
            "reason": "NoRequiredAdapters",
            "message": "No adapters are required for this kind",
            "observed_generation": 2,
            "created_time": "[time 1]",
            "last_updated_time": "[time 2]",
            "last_transition_time": "[time 1]"
          }
        ]
      }
    }
    "#);
    app.get(href(&network)).await.expect_status(404);
    app.delete(href(&network)).await.expect_status(404);
    assert_eq!(app.names("/networks?showDeleted=true").await, [""; 0]);
    app.create_named("/networks", "Network", "short").await;
}

async fn an_active_child_that_restricts_refuses_the_whole_deletion(app: &App) {
    let zone = zone(app).await;
    let rack = below(app, &zone, "racks", "Rack").await;
    let host = below(app, &rack, "hosts", "Host").await;
    below(app, &zone, "permits", "Permit").await;
    assert_snapshot!(transcript(&app.delete(href(&zone)).await), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "State Conflict",
      "status": 409,
      "detail": "Zone '[id 1]' still has active children: Permit (1)",
      "instance": "/api/hyperfleet/v1/zones/[id 1]",
      "code": "HYPERFLEET-CNF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
    for untouched in [&zone, &rack, &host] {
        assert_eq!(app.read(untouched).await, *untouched);
    }
}

async fn a_deleted_restricting_child_blocks_nothing(app: &App) {
    let zone = zone(app).await;
    let permit = below(app, &zone, "permits", "Permit").await;
    app.delete(href(&zone)).await.expect_status(409);
    app.remove(&permit).await;
    app.remove(&zone).await;
    app.get(href(&zone)).await.expect_status(404);
}

async fn owners_wait_for_the_last_child_and_are_removed_with_it(app: &App) {
    let zone = zone(app).await;
    let rack = below(app, &zone, "racks", "Rack").await;
    let empty = below(app, &zone, "racks", "Rack").await;
    let hosts = [below(app, &rack, "hosts", "Host").await, below(app, &rack, "hosts", "Host").await];
    let deleted = app.remove(&zone).await;
    assert_snapshot!(redacted(&deleted["status"]), @r#"
    {
      "conditions": [
        {
          "type": "Reconciled",
          "status": "False",
          "reason": "ReconciledWaitingForChildren",
          "message": "Deletion in progress: waiting for child resources: Rack (1)",
          "observed_generation": 2,
          "created_time": "[time 1]",
          "last_updated_time": "[time 2]",
          "last_transition_time": "[time 2]"
        },
        {
          "type": "LastKnownReconciled",
          "status": "True",
          "reason": "NoRequiredAdapters",
          "message": "No adapters are required for this kind",
          "observed_generation": 2,
          "created_time": "[time 1]",
          "last_updated_time": "[time 2]",
          "last_transition_time": "[time 1]"
        }
      ]
    }
    "#);
    app.get(href(&empty)).await.expect_status(404);
    assert_eq!(
        app.read(&rack).await["status"]["conditions"][0]["message"],
        "Deletion in progress: waiting for child resources: Host (2)"
    );

    let tag = app.etag(&rack).await;
    app.force_delete(&hosts[0]).await;
    let waiting = app.read(&rack).await;
    assert_eq!(
        waiting["status"]["conditions"][0]["message"],
        "Deletion in progress: waiting for child resources: Host (1)"
    );
    assert_eq!(waiting["generation"], 2);
    assert_ne!(app.etag(&rack).await, tag);

    app.force_delete(&hosts[1]).await;
    for gone in [&hosts[0], &hosts[1], &rack, &zone] {
        app.get(href(gone)).await.expect_status(404);
    }
    assert_eq!(app.get("/resources?showDeleted=true").await.json()["total"], 0);
}

async fn a_tree_without_adapters_is_removed_at_once(app: &App) {
    let zone = zone(app).await;
    let racks = [below(app, &zone, "racks", "Rack").await, below(app, &zone, "racks", "Rack").await];
    let deleted = app.remove(&zone).await;
    assert_eq!(deleted["status"]["conditions"][0]["reason"], "ReconciledAll");
    for gone in [&zone, &racks[0], &racks[1]] {
        app.get(href(gone)).await.expect_status(404);
    }
}

async fn a_restricting_child_blocks_its_owner_and_not_its_siblings(app: &App) {
    let zone = zone(app).await;
    let rack = below(app, &zone, "racks", "Rack").await;
    below(app, &zone, "permits", "Permit").await;
    app.remove(&rack).await;
    app.get(href(&rack)).await.expect_status(404);
    app.delete(href(&zone)).await.expect_status(409);
}
