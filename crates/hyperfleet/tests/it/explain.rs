//! Why a resource is not done, as people ask it over HTTP. Most of it is a table of situations; beside it stand the
//! questions that a table cannot put: routes, time, numbers, and what the database should never hold.

mod situations;

use std::time::Duration;

use hyperfleet_testkit::eventually;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::support::*;

/// Met only when something is broken.
const DEADLINE: Duration = Duration::from_secs(30);

/// Adapters at every level of one tree and only at the bottom of another, a kind that nothing is required for, and one
/// that refers to clusters.
const KINDS: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validator, dns]}
  - {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade, required_adapters: [scaler]}
  - {kind: Disk, plural: disks, parent_kind: NodePool, on_parent_delete: cascade, required_adapters: [formatter]}
  - {kind: Vault, plural: vaults, parent_kind: Cluster, on_parent_delete: restrict, required_adapters: [keeper]}
  - {kind: Zone, plural: zones}
  - {kind: Rack, plural: racks, parent_kind: Zone, on_parent_delete: cascade}
  - {kind: Host, plural: hosts, parent_kind: Rack, on_parent_delete: cascade, required_adapters: [imager]}
  - kind: Service
    plural: services
    required_adapters: [router]
    references: [{ref_type: clusters, target_kind: Cluster, min: 0, max: 0}]
";

both_stores!(
    config = KINDS;
    every_way_to_a_resource_leads_to_the_same_explanation,
    an_explanation_changes_nothing,
    no_parameter_is_known,
    many_children_are_counted_beyond_the_first,
    a_large_tree_is_not_read_to_its_end,
    a_reference_that_should_not_be_there_is_told,
);
both_stores!(config = &format!("metrics: {{reconciliation_stuck_threshold: 1ms}}\n{KINDS}"); what_waits_for_too_long_is_stuck);
both_stores!(config = "compatibility: {contract: go-0.2}"; parameters_are_ignored_and_paths_nest_for_older_clients);
both_stores!(owned, config = KINDS; children_of_a_kind_that_is_not_configured_any_more_are_told);

async fn explained(app: &App, resource: &Value) -> Value {
    app.get(&format!("{}/explain", href(resource))).await.expect_status(200).json()
}

async fn below(app: &App, owner: &Value, plural: &str, kind: &str, name: &str) -> Value {
    app.create_named(&format!("{}/{plural}", href(owner)), kind, name).await
}

fn well(adapter: &str, generation: u64) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    json!({
        "adapter": adapter,
        "observed_generation": generation,
        "conditions": [condition("Available"), condition("Applied"), condition("Health")],
    })
}

fn names(explanation: &Value) -> Vec<&str> {
    explanation["blockers"].as_array().unwrap().iter().map(|blocker| text(&blocker["name"])).collect()
}

async fn every_way_to_a_resource_leads_to_the_same_explanation(app: &App) {
    let cluster = app.create_cluster("main").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let disk = below(app, &pool, "disks", "Disk", "disk").await;
    let (c, p, d) = (id(&cluster), id(&pool), id(&disk));
    let expected = explained(app, &disk).await;
    assert_eq!(names(&expected), ["formatter"]);
    for path in [
        format!("/nodepools/{p}/disks/{d}/explain"),
        format!("/clusters/{c}/nodepools/{p}/disks/{d}/explain"),
        format!("/clusters/{c}/nodepools/{p}/disks/{d}/explain/"),
        format!("/resources/{d}/explain"),
    ] {
        assert_eq!(app.get(&path).await.expect_status(200).json(), expected, "{path}");
    }
    let other = app.create_cluster("other").await;
    for path in [
        format!("/clusters/{}/nodepools/{p}/disks/{d}/explain", id(&other)),
        format!("/clusters/{d}/explain"),
        format!("/clusters/{c}/nodepools/{d}/explain"),
        "/clusters/nobody/explain".to_owned(),
    ] {
        app.get(&path).await.expect_status(404);
    }
}

async fn an_explanation_changes_nothing(app: &App) {
    let cluster = app.create_cluster("main").await;
    app.report(&cluster, &well("dns", 1)).await.expect_status(201);
    let before = app.get(href(&cluster)).await;
    let first = explained(app, &cluster).await;
    assert_eq!(explained(app, &cluster).await, first);
    let after = app.get(href(&cluster)).await;
    assert_eq!((etag(&after), after.json()), (etag(&before), before.json()));
}

async fn no_parameter_is_known(app: &App) {
    let cluster = app.create_cluster("main").await;
    for query in ["fields=phase", "dryRun=true", "page=1"] {
        let refused = app.get(&format!("{}/explain?{query}", href(&cluster))).await.expect_status(400);
        assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-004");
    }
}

async fn parameters_are_ignored_and_paths_nest_for_older_clients(app: &App) {
    let cluster = app.create_cluster("main").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&pool).await;
    let path = format!("/nodepools/{}/explain?colour=red", id(&pool));
    let explanation = app.get(&path).await.expect_status(200).json();
    let force = format!("POST {BASE}/clusters/{}/nodepools/{}/force-delete", id(&cluster), id(&pool));
    assert!(text(&explanation["blockers"][0]["action"]).contains(&force), "{explanation}");
}

async fn what_waits_for_too_long_is_stuck(app: &App) {
    let stuck = async |resource: &Value| {
        eventually("the threshold to pass", DEADLINE, async || {
            Some(explained(app, resource).await).filter(|explanation| explanation["phase"] == "Stuck")
        })
        .await
    };
    let cluster = app.create_cluster("main").await;
    let explanation = stuck(&cluster).await;
    assert!(text(&explanation["summary"]).contains("stuck in its reconciliation"), "{explanation}");
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &well(adapter, 1)).await.expect_status(201);
    }
    assert_eq!(explained(app, &cluster).await["phase"], "Reconciled");
    // What is reconciled is not stuck, however long something is wrong with an adapter.
    let mut sick = well("dns", 1);
    sick["conditions"][2]["status"] = "False".into();
    app.report(&cluster, &sick).await.expect_status(201);
    assert_eq!(explained(app, &cluster).await["phase"], "Degraded");
    app.remove(&cluster).await;
    let explanation = stuck(&cluster).await;
    assert!(text(&explanation["summary"]).contains("stuck in its deletion"), "{explanation}");
    assert_eq!(names(&explanation), ["validator", "dns"]);
}

async fn many_children_are_counted_beyond_the_first(app: &App) {
    let cluster = app.create_cluster("main").await;
    for number in 10..35 {
        app.create_nodepool(&cluster, &format!("pool-{number}")).await;
    }
    app.remove(&cluster).await;
    let explanation = explained(app, &cluster).await;
    let mut expected = vec!["validator".to_owned(), "dns".to_owned()];
    expected.extend((10..20).map(|number| format!("pool-{number}")));
    expected.push("NodePool (15)".to_owned());
    assert_eq!(names(&explanation), expected);
    let listed =
        text(&explanation["blockers"][12]["action"]).split(' ').nth(2).unwrap().trim_end_matches(',');
    assert_eq!(app.get(listed).await.expect_status(200).json()["total"], 25, "{explanation}");
}

async fn a_large_tree_is_not_read_to_its_end(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = below(app, &zone, "racks", "Rack", "rack").await;
    let mut creating = JoinSet::new();
    for number in 0..1_005 {
        let body = json!({"kind": "Host", "name": format!("host-{number}"), "spec": {}});
        let call = app.post(&format!("{}/hosts", href(&rack))).json(&body);
        creating.spawn(async move { call.await.expect_status(201) });
        if creating.len() >= 64 {
            creating.join_next().await.unwrap().unwrap();
        }
    }
    creating.join_all().await;
    app.remove(&zone).await;
    let explanation = explained(app, &zone).await;
    assert_eq!(names(&explanation), ["rack"]);
    let detail = text(&explanation["blockers"][0]["detail"]);
    assert!(detail.contains("waiting for child resources: Host (1005)"), "{detail}");
    assert!(detail.contains("Left below it: at least Host (999)."), "{detail}");
}

/// Writes into the database past the server.
async fn write(app: &App, statement: &str) {
    match &app.database {
        Some(database) => {
            let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(statement).await.unwrap();
        }
        None => {
            let path = app.server.directory().join("hyperfleet.db");
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.busy_timeout(DEADLINE).unwrap();
            connection.execute_batch(statement).unwrap();
        }
    }
}

async fn a_reference_that_should_not_be_there_is_told(app: &App) {
    let cluster = app.create_cluster("main").await;
    let service = app.create_named("/services", "Service", "shop").await;
    let refer = format!(
        "insert into resource_references (source_id, ref_type, target_id) values ('{}', 'clusters', '{}')",
        id(&service),
        id(&cluster)
    );
    write(app, &refer).await;
    assert_eq!(
        names(&explained(app, &cluster).await),
        ["validator", "dns"],
        "an active one may be referred to"
    );
    write(app, "delete from resource_references").await;
    app.remove(&cluster).await;
    assert_eq!(names(&explained(app, &cluster).await), ["validator", "dns"]);
    write(app, &refer).await;
    let explanation = explained(app, &cluster).await;
    assert_eq!(names(&explanation), ["shop", "validator", "dns"]);
    let blocker = &explanation["blockers"][0];
    assert_eq!(blocker["kind"], "reference");
    assert!(text(&blocker["action"]).contains(&format!("PATCH {}", href(&service))), "{explanation}");
    write(app, "delete from resource_references").await;
}

async fn children_of_a_kind_that_is_not_configured_any_more_are_told(mut app: App) {
    let cluster = app.create_cluster("main").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&cluster).await;
    let only = "entities: [{kind: Cluster, plural: clusters, required_adapters: [validator, dns]}]";
    app.restart_with(only).await;
    let explanation = explained(&app, &cluster).await;
    assert_eq!(names(&explanation), ["NodePool (1)", "validator", "dns"]);
    let blocker = &explanation["blockers"][0];
    assert!(text(&blocker["action"]).contains("Put kind NodePool back"), "{explanation}");
    assert!(!explanation.to_string().contains(id(&pool)), "{explanation}");
    app.restart_with(KINDS).await;
    assert_eq!(names(&explained(&app, &cluster).await), ["validator", "dns", "pool"]);
}
