//! Deletion of trees: in any order of reports, each resource is removed when it waits for nothing, and its owners with
//! it.

use serde_json::{Value, json};

use super::*;
use crate::support::*;

/// Three levels with adapters at each, and a kind that holds its owner while it is active.
const LEVELS: &str = "
entities:
  - {kind: Region, plural: regions, required_adapters: [region]}
  - kind: Site
    plural: sites
    parent_kind: Region
    on_parent_delete: cascade
    required_adapters: [site]
  - kind: Unit
    plural: units
    parent_kind: Site
    on_parent_delete: cascade
    required_adapters: [power, image]
  - kind: Vault
    plural: vaults
    parent_kind: Region
    on_parent_delete: restrict
    required_adapters: [vault]
";

both_stores!(
    config = LEVELS;
    the_last_report_at_the_bottom_removes_the_whole_tree,
    a_tree_finalized_from_the_bottom_is_removed_level_by_level,
    a_tree_finalized_last_in_the_middle_is_removed_from_there,
    an_active_child_that_restricts_refuses_and_a_finalizing_one_is_waited_for,
    a_finalizing_child_keeps_its_own_deletion,
    children_of_a_finalizing_parent_change_only_by_reports,
    the_removal_of_a_child_leaves_an_active_parent_alone,
    force_delete_of_the_last_child_removes_the_waiting_owners,
    a_finalized_report_before_the_children_are_gone_is_remembered,
);
both_stores!(
    config = CATALOG;
    owners_without_adapters_wait_for_children_that_have_some,
);

async fn below(app: &App, owner: &Value, plural: &str, kind: &str) -> Value {
    app.create_named(&format!("{}/{plural}", href(owner)), kind, &unique(plural)).await
}

async fn tree(app: &App) -> (Value, Value, [Value; 2]) {
    let region = app.create_named("/regions", "Region", &unique("region")).await;
    let site = below(app, &region, "sites", "Site").await;
    let units = [below(app, &site, "units", "Unit").await, below(app, &site, "units", "Unit").await];
    (region, site, units)
}

async fn finish(app: &App, resource: &Value, adapter: &str) {
    app.report(resource, &finalized(adapter, 2, &at(1))).await.expect_status(201);
}

async fn gone(app: &App, resource: &Value) {
    app.get(href(resource)).await.expect_status(404);
    app.get(&format!("{}/statuses", href(resource))).await.expect_status(404);
}

async fn waits_for(app: &App, resource: &Value, what: &str) {
    let now = app.read(resource).await;
    assert_eq!(
        (now["generation"].as_u64(), condition_summary(&now, "Reconciled").0.as_str()),
        (Some(2), "False")
    );
    let (_, reason, message, _) = condition_summary(&now, "Reconciled");
    let told = match reason.as_str() {
        "ReconciledWaitingForChildren" => "Deletion in progress: waiting for child resources: ",
        _ => "Required adapters not reporting Finalized=True at generation 2: ",
    };
    assert_eq!(message, format!("{told}{what}"));
}

async fn the_last_report_at_the_bottom_removes_the_whole_tree(app: &App) {
    let (region, site, [one, two]) = tree(app).await;
    let deleted = app.remove(&region).await;
    for below in [&site, &one, &two] {
        let now = app.read(below).await;
        assert_eq!((&now["deleted_time"], &now["generation"]), (&deleted["deleted_time"], &json!(2)));
    }
    waits_for(app, &region, "region").await;
    finish(app, &region, "region").await;
    waits_for(app, &region, "Site (1)").await;
    finish(app, &site, "site").await;
    waits_for(app, &site, "Unit (2)").await;
    finish(app, &one, "image").await;
    waits_for(app, &one, "power").await;
    let tag = app.etag(&site).await;
    finish(app, &one, "power").await;
    gone(app, &one).await;
    waits_for(app, &site, "Unit (1)").await;
    assert_ne!(app.etag(&site).await, tag);
    finish(app, &two, "power").await;
    for waiting in [&two, &site, &region] {
        app.read(waiting).await;
    }
    finish(app, &two, "image").await;
    for resource in [&two, &site, &region] {
        gone(app, resource).await;
    }
    assert_eq!(app.get("/resources?showDeleted=true").await.json()["total"], 0);
}

async fn a_tree_finalized_from_the_bottom_is_removed_level_by_level(app: &App) {
    let (region, site, units) = tree(app).await;
    app.remove(&region).await;
    for unit in &units {
        for adapter in ["power", "image"] {
            finish(app, unit, adapter).await;
        }
        gone(app, unit).await;
    }
    waits_for(app, &site, "site").await;
    finish(app, &site, "site").await;
    gone(app, &site).await;
    waits_for(app, &region, "region").await;
    finish(app, &region, "region").await;
    gone(app, &region).await;
}

async fn a_tree_finalized_last_in_the_middle_is_removed_from_there(app: &App) {
    let (region, site, units) = tree(app).await;
    app.remove(&region).await;
    finish(app, &region, "region").await;
    for unit in &units {
        for adapter in ["power", "image"] {
            finish(app, unit, adapter).await;
        }
    }
    waits_for(app, &region, "Site (1)").await;
    finish(app, &site, "site").await;
    gone(app, &site).await;
    gone(app, &region).await;
}

async fn an_active_child_that_restricts_refuses_and_a_finalizing_one_is_waited_for(app: &App) {
    let (region, site, units) = tree(app).await;
    let vault = below(app, &region, "vaults", "Vault").await;
    app.report(&vault, &report("vault", 1, "True", &at(1))).await.expect_status(201);
    let before = [app.read(&region).await, app.read(&site).await, app.read(&units[0]).await];
    let answer = app.delete(href(&region)).await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-003");
    assert_eq!(
        answer.json()["detail"],
        format!("Region '{}' still has active children: Vault (1)", id(&region))
    );
    assert_eq!([app.read(&region).await, app.read(&site).await, app.read(&units[0]).await], before);

    app.remove(&vault).await;
    app.remove(&region).await;
    finish(app, &region, "region").await;
    waits_for(app, &region, "Site (1), Vault (1)").await;
    finish(app, &site, "site").await;
    for unit in &units {
        for adapter in ["power", "image"] {
            finish(app, unit, adapter).await;
        }
    }
    gone(app, &site).await;
    waits_for(app, &region, "Vault (1)").await;
    finish(app, &vault, "vault").await;
    gone(app, &vault).await;
    gone(app, &region).await;
}

async fn a_finalizing_child_keeps_its_own_deletion(app: &App) {
    let (region, site, [early, late]) = tree(app).await;
    app.remove(&early).await;
    finish(app, &early, "power").await;
    let before = app.get(href(&early)).await.expect_status(200);
    let deleted = app.remove(&region).await;
    let after = app.get(href(&early)).await.expect_status(200);
    assert_eq!((after.json(), etag(&after)), (before.json(), etag(&before)));
    assert_eq!(app.read(&late).await["deleted_time"], deleted["deleted_time"]);
    finish(app, &region, "region").await;
    finish(app, &site, "site").await;
    waits_for(app, &site, "Unit (2)").await;
    finish(app, &early, "image").await;
    waits_for(app, &site, "Unit (1)").await;
    for adapter in ["power", "image"] {
        finish(app, &late, adapter).await;
    }
    gone(app, &region).await;
}

async fn children_of_a_finalizing_parent_change_only_by_reports(app: &App) {
    let (region, site, [unit, _]) = tree(app).await;
    app.remove(&region).await;
    let refused = app.patch(href(&unit)).json(&json!({"spec": {"a": 1}})).await.expect_status(409);
    assert_eq!(refused.problem_code(), "HYPERFLEET-CNF-003");
    let new = json!({"kind": "Unit", "name": "late", "spec": {}});
    for path in [format!("{}/units", href(&site)), format!("{}/sites/{}/units", href(&region), id(&site))] {
        let refused = app.post(&path).json(&new).await.expect_status(409);
        assert_eq!(refused.problem_code(), "HYPERFLEET-CNF-003");
    }
    let path = format!("/regions/{}/sites/{}/units/{}/statuses", id(&region), id(&site), id(&unit));
    app.put(&path).json(&finalized("power", 2, &at(1))).await.expect_status(201);
    app.put(&path).json(&finalized("image", 2, &at(1))).await.expect_status(201);
    app.get(&path).await.expect_status(404);
    waits_for(app, &site, "site").await;
}

async fn the_removal_of_a_child_leaves_an_active_parent_alone(app: &App) {
    let (region, site, [unit, other]) = tree(app).await;
    let before = [app.get(href(&region)).await, app.get(href(&site)).await, app.get(href(&other)).await];
    app.remove(&unit).await;
    for adapter in ["power", "image"] {
        finish(app, &unit, adapter).await;
    }
    gone(app, &unit).await;
    for (resource, before) in [&region, &site, &other].into_iter().zip(before) {
        let now = app.get(href(resource)).await.expect_status(200);
        assert_eq!((now.json(), etag(&now)), (before.json(), etag(&before)));
    }
}

async fn force_delete_of_the_last_child_removes_the_waiting_owners(app: &App) {
    let (region, site, [one, two]) = tree(app).await;
    app.remove(&region).await;
    finish(app, &site, "site").await;
    app.force_delete(&one).await;
    waits_for(app, &site, "Unit (1)").await;
    app.force_delete(&two).await;
    gone(app, &site).await;
    waits_for(app, &region, "region").await;
    finish(app, &region, "region").await;
    gone(app, &region).await;
}

async fn a_finalized_report_before_the_children_are_gone_is_remembered(app: &App) {
    let (region, site, units) = tree(app).await;
    app.remove(&region).await;
    for (resource, adapter) in [(&region, "region"), (&site, "site")] {
        // Confirmed several times meanwhile, and moved by nothing but time.
        for second in 1..4 {
            app.report(resource, &finalized(adapter, 2, &at(second))).await.expect_status(201);
        }
        assert_eq!(condition_times(&app.read(resource).await, "Reconciled")[1], at(3));
    }
    for unit in &units {
        app.force_delete(unit).await;
    }
    gone(app, &site).await;
    gone(app, &region).await;
}

async fn owners_without_adapters_wait_for_children_that_have_some(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = below(app, &zone, "racks", "Rack").await;
    let empty = below(app, &zone, "racks", "Rack").await;
    let hosts = [below(app, &rack, "hosts", "Host").await, below(app, &rack, "hosts", "Host").await];
    app.remove(&zone).await;
    gone(app, &empty).await;
    waits_for(app, &zone, "Rack (1)").await;
    finish(app, &hosts[0], "imager").await;
    gone(app, &hosts[0]).await;
    waits_for(app, &rack, "Host (1)").await;
    finish(app, &hosts[1], "imager").await;
    for resource in [&hosts[1], &rack, &zone] {
        gone(app, resource).await;
    }
    assert_eq!(app.get("/resources?showDeleted=true").await.json()["total"], 0);
}
