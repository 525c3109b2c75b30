//! Other required adapters than at the last start: conditions are recomputed, resources that waited only for a removed
//! adapter are removed, and unchanged resources are not written.

use hyperfleet_testkit::eventually;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

/// A configuration whose clusters and sites require these adapters.
fn config(cluster: &str, site: &str) -> String {
    format!(
        "
entities:
  - {{kind: Cluster, plural: clusters, required_adapters: [{cluster}]}}
  - {{kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade, required_adapters: [pool]}}
  - {{kind: Region, plural: regions, required_adapters: [region]}}
  - {{kind: Site, plural: sites, parent_kind: Region, on_parent_delete: cascade, required_adapters: [{site}]}}
"
    )
}

/// How many kinds there are.
const KINDS: f64 = 4.0;

/// Where the tests start from.
fn before() -> String {
    config("validator, dns", "site, power")
}

both_stores!(
    config = &before();
    a_removed_adapter_no_longer_blocks_reconciliation,
    the_last_report_time_of_a_removed_adapter_is_kept,
    an_added_adapter_blocks_reconciliation,
    without_adapters_every_resource_is_reconciled_or_removed,
    a_recomputation_writes_only_changed_resources,
    the_same_settings_change_nothing,
    resources_that_waited_only_for_a_removed_adapter_are_removed_with_their_owners,
    a_large_fleet_is_recomputed_to_the_last,
    an_interrupted_recomputation_is_finished_by_the_next_start,
    an_interrupted_recomputation_is_reverted_by_the_previous_settings,
);

async fn settled(app: &App, cluster: &Value, expected: &str) -> Value {
    eventually(&format!("Reconciled: {expected}"), DEADLINE, async || {
        let now = app.read(cluster).await;
        (condition_summary(&now, "Reconciled").1 == expected).then_some(now)
    })
    .await
}

/// A cluster on which these adapters have reported at the first generation.
async fn reported(app: &App, name: &str, adapters: &[&str]) -> Value {
    let cluster = app.create_cluster(name).await;
    for adapter in adapters {
        app.report(&cluster, &report(adapter, 1, "True", &at(1))).await.expect_status(201);
    }
    app.read(&cluster).await
}

async fn tags(app: &App, resources: &[&Value]) -> Vec<String> {
    let mut tags = Vec::new();
    for resource in resources {
        tags.push(app.etag(resource).await);
    }
    tags
}

async fn a_removed_adapter_no_longer_blocks_reconciliation(app: &mut App) {
    let waiting = reported(app, "waiting", &["validator"]).await;
    let done = reported(app, "done", &["validator", "dns"]).await;
    let silent = reported(app, "silent", &[]).await;
    let pool = app.create_nodepool(&done, "pool").await;
    assert_eq!(condition_summary(&waiting, "Reconciled").1, "ReconciledMissingAdapters");
    let earlier = tags(app, &[&waiting, &done, &silent, &pool]).await;

    app.restart_with(&config("validator", "site, power")).await;
    let now = settled(app, &waiting, "ReconciledAll").await;
    assert_eq!(
        condition_states(&now),
        ["Reconciled=True", "LastKnownReconciled=True", "ValidatorSuccessful=True"]
    );
    // Without a report the condition changed with the last change of the resource.
    let changed = text(&waiting["updated_time"]).to_owned();
    assert_eq!(condition_times(&now, "Reconciled"), [changed.clone(), at(1), changed.clone()]);
    for member in ["generation", "updated_time", "updated_by"] {
        assert_eq!(now[member], waiting[member], "{member}");
    }
    eventually("the others too", DEADLINE, async || {
        let done = condition_states(&app.read(&done).await);
        let silent = condition_summary(&app.read(&silent).await, "Reconciled").2;
        (done == condition_states(&now) && silent.ends_with("at generation 1: validator")).then_some(())
    })
    .await;
    let later = tags(app, &[&waiting, &done, &silent, &pool]).await;
    for (at, name) in ["waiting", "done", "silent"].into_iter().enumerate() {
        assert_ne!(later[at], earlier[at], "{name}");
    }
    assert_eq!(later[3], earlier[3], "a pool requires what it did");
    assert_eq!(app.read(&pool).await, pool);
    // What it reported is still there.
    assert_eq!(app.reports(&done).await.as_array().unwrap().len(), 2);
}

async fn the_last_report_time_of_a_removed_adapter_is_kept(app: &mut App) {
    let cluster = reported(app, "confirmed", &["validator", "dns"]).await;
    let confirm = async |app: &App, adapter: &str, second: u32| {
        app.report(&cluster, &report(adapter, 1, "True", &at(second))).await.expect_status(201);
    };
    let last = async |app: &App| -> Vec<Value> {
        let reports = app.reports(&cluster).await;
        reports.as_array().unwrap().iter().map(|report| report["last_report_time"].clone()).collect()
    };
    confirm(app, "dns", 5).await;
    confirm(app, "validator", 6).await;
    assert_eq!(last(app).await, [at(5), at(6)]);
    // What is left of the required ones goes on reporting before and after the conditions are computed anew.
    app.restart_with(&config("validator", "site, power")).await;
    confirm(app, "validator", 7).await;
    assert_eq!(last(app).await, [at(5), at(7)]);
    settled(app, &cluster, "ReconciledAll").await;
    confirm(app, "validator", 8).await;
    assert_eq!(last(app).await, [at(5), at(8)]);
    // And the other one may do so too, without being heard.
    app.report(&cluster, &report("dns", 1, "True", &at(4))).await.expect_status(204);
    confirm(app, "dns", 9).await;
    assert_eq!(last(app).await, [at(9), at(8)]);
    app.restart_with(&before()).await;
    assert_eq!(last(app).await, [at(9), at(8)]);
    confirm(app, "dns", 10).await;
    assert_eq!(last(app).await, [at(10), at(8)]);
}

async fn an_added_adapter_blocks_reconciliation(app: &mut App) {
    let done = reported(app, "done", &["validator", "dns", "quota"]).await;
    let partly = reported(app, "partly", &["validator", "dns"]).await;
    assert_eq!(
        (condition_summary(&done, "Reconciled").0, condition_summary(&partly, "Reconciled").0),
        ("True".to_owned(), "True".to_owned())
    );
    app.restart_with(&config("quota, validator, dns", "site, power")).await;
    let now = settled(app, &partly, "ReconciledMissingAdapters").await;
    assert_eq!(
        condition_summary(&now, "Reconciled").2,
        "Required adapters have not yet reported status at generation 1: quota"
    );
    let changed = text(&partly["updated_time"]).to_owned();
    assert_eq!(condition_times(&now, "Reconciled")[2], changed);
    // A report that came before it was required counts.
    let now = eventually("the report of before", DEADLINE, async || {
        let now = app.read(&done).await;
        (condition_states(&now).len() == 5).then_some(now)
    })
    .await;
    assert_eq!(
        condition_states(&now),
        [
            "Reconciled=True",
            "LastKnownReconciled=True",
            "QuotaSuccessful=True",
            "ValidatorSuccessful=True",
            "DnsSuccessful=True",
        ]
    );
}

async fn without_adapters_every_resource_is_reconciled_or_removed(app: &mut App) {
    let active = reported(app, "active", &["dns"]).await;
    let going = reported(app, "going", &[]).await;
    app.remove(&going).await;
    app.restart_with(&config("", "site, power")).await;
    let now = settled(app, &active, "NoRequiredAdapters").await;
    assert_eq!(condition_states(&now), ["Reconciled=True", "LastKnownReconciled=True"]);
    eventually("it is gone", DEADLINE, async || (app.get(href(&going)).await.status == 404).then_some(()))
        .await;
}

async fn a_recomputation_writes_only_changed_resources(app: &mut App) {
    let partly = reported(app, "partly", &["validator"]).await;
    let done = reported(app, "done", &["validator", "dns"]).await;
    let earlier = tags(app, &[&partly, &done]).await;
    let lines = app.server.logs().len();
    // Another order: only where both are shown does anything differ.
    app.restart_with(&config("dns, validator", "site, power")).await;
    recomputed(app, "Cluster", lines).await;
    let later = tags(app, &[&partly, &done]).await;
    assert_eq!(later[0], earlier[0]);
    assert_ne!(later[1], earlier[1]);
    assert_eq!(app.read(&partly).await, partly);
    let types = condition_states(&app.read(&done).await);
    assert_eq!(types[2..], ["DnsSuccessful=True", "ValidatorSuccessful=True"]);
    let list = app.get("/clusters").await.expect_status(200).json();
    assert_eq!(later[1], format!("\"{}\"", text(&list["position"])), "nothing else was written");
}

async fn the_same_settings_change_nothing(app: &mut App) {
    reported(app, "partly", &["validator"]).await;
    reported(app, "done", &["validator", "dns"]).await;
    let going = reported(app, "going", &["validator"]).await;
    app.remove(&going).await;
    let after = config("validator", "site, power");
    let lines = app.server.logs().len();
    app.restart_with(&after).await;
    recomputed(app, "Cluster", lines).await;
    let looked = "hyperfleet_db_query_duration_seconds_count{operation=\"recompute\"}";
    let all = "/resources?showDeleted=true&orderBy=name";
    let earlier = app.get(all).await.expect_status(200).json();
    for _ in 0..2 {
        app.restart_with(&after).await;
        // Each kind is asked once for the settings that it was computed by.
        eventually("every kind was looked at", DEADLINE, async || {
            (app.metric(looked).await? >= KINDS).then_some(())
        })
        .await;
        assert_eq!(app.get(all).await.expect_status(200).json(), earlier);
        assert_eq!(app.metric(looked).await, Some(KINDS));
    }
}

async fn resources_that_waited_only_for_a_removed_adapter_are_removed_with_their_owners(app: &mut App) {
    let region = app.create_named("/regions", "Region", "region").await;
    let mut sites = Vec::new();
    for name in ["one", "two"] {
        sites.push(app.create_named(&format!("{}/sites", href(&region)), "Site", name).await);
    }
    let other = app.create_named("/regions", "Region", "other").await;
    let busy = app.create_named(&format!("{}/sites", href(&other)), "Site", "busy").await;
    app.remove(&region).await;
    app.remove(&other).await;
    for region in [&region, &other] {
        app.report(region, &finalized("region", 2, &at(1))).await.expect_status(201);
    }
    for site in &sites {
        app.report(site, &finalized("site", 2, &at(1))).await.expect_status(201);
        assert_eq!(
            condition_summary(&app.read(site).await, "Reconciled").2,
            "Required adapters not reporting Finalized=True at generation 2: power"
        );
    }
    app.restart_with(&config("validator, dns", "site")).await;
    eventually("the tree is gone", DEADLINE, async || {
        (app.get(href(&region)).await.status == 404).then_some(())
    })
    .await;
    for site in &sites {
        app.get(href(site)).await.expect_status(404);
        app.get(&format!("{}/statuses", href(site))).await.expect_status(404);
    }
    // The other still waits for an adapter that is required as ever.
    let now = eventually("the other tells so", DEADLINE, async || {
        let now = app.read(&busy).await;
        condition_summary(&now, "Reconciled").2.ends_with("at generation 2: site").then_some(now)
    })
    .await;
    assert_eq!(now["generation"], 2);
    assert_eq!(condition_summary(&app.read(&other).await, "Reconciled").1, "ReconciledWaitingForChildren");
    app.report(&busy, &finalized("site", 2, &at(2))).await.expect_status(201);
    app.get(href(&other)).await.expect_status(404);
}

/// That many clusters on which one of two adapters has reported.
async fn many(app: &App, count: u64) {
    let creations: Vec<_> = (0..count)
        .map(|number| {
            let body = json!({"kind": "Cluster", "name": format!("many-{number}"), "spec": {}});
            tokio::spawn(app.post("/clusters").json(&body).into_future())
        })
        .collect();
    let mut reports = Vec::new();
    for creation in creations {
        let cluster = creation.await.unwrap().expect_status(201).json();
        let sent = app.report(&cluster, &report("validator", 1, "True", &at(1)));
        reports.push(tokio::spawn(sent.into_future()));
    }
    for report in reports {
        report.await.unwrap().expect_status(201);
    }
}

/// How many clusters are reconciled.
async fn reconciled(app: &App) -> usize {
    let list = app.get("/clusters?pageSize=500").await.expect_status(200).json();
    let items = list["items"].as_array().unwrap().iter();
    items.filter(|cluster| condition_summary(cluster, "Reconciled").0 == "True").count()
}

async fn a_large_fleet_is_recomputed_to_the_last(app: &mut App) {
    many(app, 130).await;
    let version = app.get("/clusters").await.expect_status(200).json()["version"].as_u64().unwrap();
    let lines = app.server.logs().len();
    app.restart_with(&config("validator", "site, power")).await;
    recomputed(app, "Cluster", lines).await;
    assert_eq!(reconciled(app).await, 130);
    assert_eq!(app.get("/clusters").await.expect_status(200).json()["version"], version + 130);
}

/// Starts by other settings, and stops as soon as the first of many clusters has followed them.
async fn cut_short(app: &mut App) {
    let first = app.create_cluster("first").await;
    app.report(&first, &report("validator", 1, "True", &at(1))).await.expect_status(201);
    many(app, 300).await;
    app.restart_with(&config("validator", "site, power")).await;
    settled(app, &first, "ReconciledAll").await;
    app.server.kill9();
}

async fn an_interrupted_recomputation_is_finished_by_the_next_start(app: &mut App) {
    cut_short(app).await;
    app.restart().await;
    eventually("all of them", DEADLINE, async || (reconciled(app).await == 301).then_some(())).await;
}

async fn an_interrupted_recomputation_is_reverted_by_the_previous_settings(app: &mut App) {
    cut_short(app).await;
    app.restart_with(&before()).await;
    eventually("none of them", DEADLINE, async || (reconciled(app).await == 0).then_some(())).await;
}

#[test]
fn two_servers_starting_at_once_write_each_change_once() {
    run(async {
        let database = std::sync::Arc::new(database().await);
        let first = App::on_database(launch().config(before()), database.clone()).await;
        let mut waiting = Vec::new();
        for number in 0..60 {
            waiting.push(reported(&first, &format!("waiting-{number}"), &["validator"]).await);
        }
        let going = reported(&first, "going", &["dns"]).await;
        first.remove(&going).await;
        first.report(&going, &finalized("validator", 2, &at(2))).await.expect_status(201);
        let version = first.get("/clusters").await.expect_status(200).json()["version"].as_u64().unwrap();
        drop(first);

        let start =
            || App::on_database(launch().config(config("validator", "site, power")), database.clone());
        let (one, two) = tokio::join!(start(), start());
        for app in [&one, &two] {
            for cluster in &waiting {
                settled(app, cluster, "ReconciledAll").await;
            }
            eventually("it is gone", DEADLINE, async || {
                (app.get(href(&going)).await.status == 404).then_some(())
            })
            .await;
        }
        for app in [&one, &two] {
            let list = app.get("/clusters").await.expect_status(200).json();
            assert_eq!(list["version"], version + 61, "one change of each");
        }
    });
}
