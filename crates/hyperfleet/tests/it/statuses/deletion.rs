//! Deletion of one resource: it waits for its adapters, and is removed with its reports by the report of the last.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(
    config = CATALOG;
    a_finalizing_resource_is_removed_by_the_report_of_its_last_adapter,
    only_the_generation_of_the_deletion_counts,
    an_adapter_may_revoke_finalized,
    optional_adapters_neither_block_nor_remove,
    a_deletion_asked_for_twice_changes_nothing,
    a_name_is_free_as_soon_as_deletion_is_asked_for,
    a_removed_resource_loses_its_reports,
    force_delete_removes_the_reports,
    a_finalizing_resource_accepts_only_reports,
    conditions_of_a_finalizing_resource_name_the_blockers,
    a_referenced_resource_is_not_removed,
);

async fn a_finalizing_resource_is_removed_by_the_report_of_its_last_adapter(app: &App) {
    let cluster = app.create_cluster("going").await;
    for adapter in ["validator", "dns", "guest"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(1))).await.expect_status(201);
    }
    let deleted = app.remove(&cluster).await;
    assert_eq!(
        condition_summary(&deleted, "Reconciled").2,
        "Required adapters not reporting Finalized=True at generation 2: validator, dns"
    );
    app.report(&cluster, &finalized("validator", 2, &at(2))).await.expect_status(201);
    let waiting = app.read(&cluster).await;
    assert_eq!(
        condition_summary(&waiting, "Reconciled"),
        (
            "False".to_owned(),
            "ReconciledMissingAdapters".to_owned(),
            "Required adapters not reporting Finalized=True at generation 2: dns".to_owned(),
            2
        )
    );
    // It cannot tell whether the resource is available, because there is nothing left to look at.
    let last = with_condition(report("dns", 2, "Unknown", &at(3)), "Finalized", "True");
    assert_snapshot!(transcript(&app.report(&cluster, &last).await), @r#"
    201
    content-type: application/json

    {
      "adapter": "dns",
      "observed_generation": 2,
      "conditions": [
        {
          "type": "Available",
          "status": "Unknown",
          "last_transition_time": "[time 1]"
        },
        {
          "type": "Applied",
          "status": "True",
          "last_transition_time": "[time 2]"
        },
        {
          "type": "Health",
          "status": "True",
          "last_transition_time": "[time 2]"
        },
        {
          "type": "Finalized",
          "status": "True",
          "last_transition_time": "[time 1]"
        }
      ],
      "data": {},
      "created_time": "[time 2]",
      "last_report_time": "[time 1]"
    }
    "#);
    app.get(href(&cluster)).await.expect_status(404);
    app.get(&format!("{}/statuses", href(&cluster))).await.expect_status(404);
    app.delete(href(&cluster)).await.expect_status(404);
    assert_eq!(app.names("/resources?showDeleted=true").await, [""; 0]);
    app.report(&cluster, &last).await.expect_status(404);
}

async fn only_the_generation_of_the_deletion_counts(app: &App) {
    let host = host(app, "old").await;
    app.report(&host, &finalized("imager", 1, &at(1))).await.expect_status(201);
    app.remove(&host).await;
    assert_eq!(condition_summary(&app.read(&host).await, "Reconciled").1, "ReconciledMissingAdapters");
    app.report(&host, &finalized("imager", 1, &at(2))).await.expect_status(201);
    assert_eq!(condition_summary(&app.read(&host).await, "Reconciled").1, "ReconciledMissingAdapters");
    app.report(&host, &finalized("imager", 3, &at(3))).await.expect_status(204);
    app.report(&host, &report("imager", 2, "True", &at(3))).await.expect_status(201);
    app.report(&host, &with_condition(report("imager", 2, "True", &at(3)), "Finalized", "False"))
        .await
        .expect_status(201);
    app.report(&host, &with_condition(report("imager", 2, "True", &at(3)), "finalized", "True"))
        .await
        .expect_status(201);
    let waiting = app.read(&host).await;
    assert_eq!(
        condition_summary(&waiting, "Reconciled").2,
        "Required adapters not reporting Finalized=True at generation 2: imager"
    );
    app.report(&host, &finalized("imager", 2, &at(3))).await.expect_status(201);
    app.get(href(&host)).await.expect_status(404);
}

async fn an_adapter_may_revoke_finalized(app: &App) {
    let cluster = app.create_cluster("back").await;
    app.remove(&cluster).await;
    app.report(&cluster, &finalized("validator", 2, &at(1))).await.expect_status(201);
    app.report(&cluster, &report("validator", 2, "True", &at(2))).await.expect_status(201);
    app.report(&cluster, &finalized("dns", 2, &at(3))).await.expect_status(201);
    let waiting = app.read(&cluster).await;
    assert_eq!(
        condition_summary(&waiting, "Reconciled").2,
        "Required adapters not reporting Finalized=True at generation 2: validator"
    );
    app.report(&cluster, &finalized("validator", 2, &at(4))).await.expect_status(201);
    app.get(href(&cluster)).await.expect_status(404);
}

async fn optional_adapters_neither_block_nor_remove(app: &App) {
    let host = host(app, "guests").await;
    app.report(&host, &report("guest", 1, "True", &at(1))).await.expect_status(201);
    app.remove(&host).await;
    app.report(&host, &finalized("guest", 2, &at(2))).await.expect_status(201);
    app.report(&host, &with_condition(report("other", 2, "True", &at(2)), "Finalized", "False"))
        .await
        .expect_status(201);
    app.read(&host).await;
    app.report(&host, &finalized("imager", 2, &at(3))).await.expect_status(201);
    app.get(href(&host)).await.expect_status(404);
}

async fn a_deletion_asked_for_twice_changes_nothing(app: &App) {
    let cluster = app.create_cluster("twice").await;
    app.remove(&cluster).await;
    app.report(&cluster, &finalized("validator", 2, &at(1))).await.expect_status(201);
    app.report(&cluster, &finalized("validator", 2, &at(2))).await.expect_status(201);
    let before = app.get(href(&cluster)).await.expect_status(200);
    let again = app.delete(href(&cluster)).await.expect_status(202);
    assert_eq!((again.json(), etag(&again)), (before.json(), etag(&before)));
    assert_eq!(again.json()["generation"], 2);
    let after = app.get(href(&cluster)).await.expect_status(200);
    assert_eq!((after.json(), etag(&after)), (before.json(), etag(&before)));
    app.report(&cluster, &finalized("dns", 2, &at(3))).await.expect_status(201);
    app.get(href(&cluster)).await.expect_status(404);
}

async fn a_name_is_free_as_soon_as_deletion_is_asked_for(app: &App) {
    let old = app.create_cluster("phoenix").await;
    app.report(&old, &report("dns", 1, "True", &at(1))).await.expect_status(201);
    app.remove(&old).await;
    let new = app.create_cluster("phoenix").await;
    assert_ne!(new["id"], old["id"]);
    assert_eq!(app.reports(&new).await, json!([]));
    assert_eq!(condition_states(&new), ["Reconciled=False", "LastKnownReconciled=False"]);
    for adapter in ["validator", "dns"] {
        app.report(&old, &finalized(adapter, 2, &at(2))).await.expect_status(201);
    }
    app.get(href(&old)).await.expect_status(404);
    assert_eq!(app.read(&new).await, new);
    assert_eq!(app.names("/clusters?showDeleted=true").await, ["phoenix"]);
    let again = json!({"kind": "Cluster", "name": "phoenix", "spec": {}});
    app.post("/clusters").json(&again).await.expect_status(409);
}

async fn a_removed_resource_loses_its_reports(app: &App) {
    let network = app.create_named("/networks", "Network", "network").await;
    app.report(&network, &report("guest", 1, "True", &at(1))).await.expect_status(201);
    app.remove(&network).await;
    for path in [format!("{}/statuses", href(&network)), format!("/resources/{}/statuses", id(&network))] {
        app.get(&path).await.expect_status(404);
        app.put(&path).json(&report("guest", 1, "True", &at(2))).await.expect_status(404);
    }
    let again = app.create_named("/networks", "Network", "network").await;
    assert_eq!(app.reports(&again).await, json!([]));
}

async fn force_delete_removes_the_reports(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
    let host = app.create_named(&format!("{}/hosts", href(&rack)), "Host", "host").await;
    for resource in [&zone, &rack, &host] {
        app.report(resource, &report("imager", 1, "True", &at(1))).await.expect_status(201);
    }
    app.remove(&zone).await;
    app.force_delete(&zone).await;
    for gone in [&zone, &rack, &host] {
        let path = format!("/resources/{}/statuses", id(gone));
        app.get(&path).await.expect_status(404);
        app.put(&path).json(&finalized("imager", 2, &at(2))).await.expect_status(404);
    }
    assert_eq!(app.get("/resources?showDeleted=true").await.json()["total"], 0);
}

async fn a_finalizing_resource_accepts_only_reports(app: &App) {
    let cluster = app.create_cluster("closing").await;
    app.remove(&cluster).await;
    app.patch(href(&cluster)).json(&json!({"labels": {"a": "b"}})).await.expect_status(409);
    let below = format!("{}/nodepools", href(&cluster));
    let pool = json!({"kind": "NodePool", "name": "late", "spec": {}});
    app.post(&below).json(&pool).await.expect_status(409);
    app.report(&cluster, &report("validator", 2, "False", &at(1))).await.expect_status(201);
    app.report(&cluster, &report("validator", 1, "True", &at(2))).await.expect_status(204);
}

async fn conditions_of_a_finalizing_resource_name_the_blockers(app: &App) {
    let cluster = app.create_cluster("telling").await;
    let created = text(&cluster["created_time"]).to_owned();
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(1))).await.expect_status(201);
    }
    let deleted = app.remove(&cluster).await;
    let moment = text(&deleted["deleted_time"]).to_owned();
    assert_eq!(
        (&deleted["updated_time"], &deleted["updated_by"]),
        (&deleted["deleted_time"], &deleted["deleted_by"])
    );
    assert_eq!(
        condition_states(&deleted),
        ["Reconciled=False", "LastKnownReconciled=True", "ValidatorSuccessful=True", "DnsSuccessful=True"]
    );
    assert_eq!(condition_times(&deleted, "Reconciled"), [created.clone(), moment.clone(), moment.clone()]);

    let last = with_reason(finalized("dns", 2, &at(3)), "Removed", "No zone left");
    app.report(&cluster, &last).await.expect_status(201);
    let waiting = app.read(&cluster).await;
    assert_eq!(
        condition_states(&waiting),
        ["Reconciled=False", "LastKnownReconciled=True", "ValidatorSuccessful=True", "DnsSuccessful=False"]
    );
    assert_eq!(condition_times(&waiting, "Reconciled"), [created.clone(), at(3), moment]);
    assert_eq!(condition_times(&waiting, "DnsSuccessful"), [created, at(3), at(3)]);
    assert_eq!(
        condition_summary(&waiting, "DnsSuccessful"),
        ("False".to_owned(), "Removed".to_owned(), "No zone left".to_owned(), 2)
    );
}

/// Kinds that refer to each other, all with an adapter.
const REFERRING: &str = "
entities:
  - {kind: Network, plural: networks, required_adapters: [net]}
  - kind: Service
    plural: services
    required_adapters: [svc]
    references:
      - {ref_type: networks, target_kind: Network, min: 0, max: 0}
";

both_stores!(config = REFERRING; a_finalizing_referrer_blocks_nothing);

async fn service(app: &App, network: &Value) -> Value {
    let references = json!({"networks": [{"id": network["id"]}]});
    let body = json!({"kind": "Service", "name": unique("service"), "spec": {}, "references": references});
    app.create("/services", &body).await
}

async fn a_referenced_resource_is_not_removed(app: &App) {
    let network = app.create_named("/networks", "Network", "held").await;
    app.report(&network, &report("guest", 1, "True", &at(1))).await.expect_status(201);
    let service = service(app, &network).await;
    let before = app.read(&network).await;
    let answer = app.delete(href(&network)).await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-003");
    assert_eq!(
        answer.json()["detail"],
        format!(
            "Cannot be deleted while others refer to it: Service '{}' refers to Network '{}'",
            id(&service),
            id(&network)
        )
    );
    assert_eq!(app.read(&network).await, before);
    assert_eq!(app.reports(&network).await.as_array().unwrap().len(), 1);
}

async fn a_finalizing_referrer_blocks_nothing(app: &App) {
    let network = app.create_named("/networks", "Network", "held").await;
    let service = service(app, &network).await;
    app.delete(href(&network)).await.expect_status(409);
    let going = app.remove(&service).await;
    assert_eq!(going.get("references"), None);
    app.remove(&network).await;
    app.report(&network, &finalized("net", 2, &at(1))).await.expect_status(201);
    app.get(href(&network)).await.expect_status(404);
    assert_eq!(app.read(&service).await, going);
    app.report(&service, &finalized("svc", 2, &at(1))).await.expect_status(201);
    app.get(href(&service)).await.expect_status(404);
}

/// A Host with its own Zone and Rack.
async fn host(app: &App, name: &str) -> Value {
    let zone = app.create_named("/zones", "Zone", name).await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", name).await;
    app.create_named(&format!("{}/hosts", href(&rack)), "Host", name).await
}
