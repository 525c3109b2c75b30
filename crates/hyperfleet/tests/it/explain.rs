//! `explain` over HTTP. Most of it is a table of situations; the tests here cover routes, times, numbers, and rows that
//! the database should never hold.

mod situations;

use hyperfleet_testkit::eventually;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::support::*;

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
    every_path_of_a_resource_gives_the_same_explanation,
    an_explanation_changes_nothing,
    an_explanation_refuses_every_parameter,
    many_children_are_counted_beyond_the_first,
    an_explanation_reads_a_bounded_part_of_a_large_tree,
    an_explanation_names_a_dangling_reference,
);
both_stores!(config = &format!("metrics: {{reconciliation_stuck_threshold: 1ms}}\n{KINDS}"); a_resource_that_waits_too_long_is_stuck);
both_stores!(config = "compatibility: {contract: go-0.2}"; under_the_go_contract_parameters_are_ignored_and_paths_nest);
both_stores!(config = KINDS; children_of_an_unconfigured_kind_are_named);

async fn explained(app: &App, resource: &Value) -> Value {
    app.get(&format!("{}/explain", href(resource))).await.expect_status(200).json()
}

async fn below(app: &App, owner: &Value, plural: &str, kind: &str, name: &str) -> Value {
    app.create_named(&format!("{}/{plural}", href(owner)), kind, name).await
}

fn names(explanation: &Value) -> Vec<&str> {
    explanation["blockers"].as_array().unwrap().iter().map(|blocker| text(&blocker["name"])).collect()
}

async fn every_path_of_a_resource_gives_the_same_explanation(app: &App) {
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
        "/clusters/absent/explain".to_owned(),
    ] {
        app.get(&path).await.expect_status(404);
    }
}

async fn an_explanation_changes_nothing(app: &App) {
    let cluster = app.create_cluster("main").await;
    app.report(&cluster, &report_now("dns", 1, "True")).await.expect_status(201);
    let before = app.get(href(&cluster)).await;
    let first = explained(app, &cluster).await;
    assert_eq!(explained(app, &cluster).await, first);
    let after = app.get(href(&cluster)).await;
    assert_eq!((etag(&after), after.json()), (etag(&before), before.json()));
}

async fn an_explanation_refuses_every_parameter(app: &App) {
    let cluster = app.create_cluster("main").await;
    for query in ["fields=phase", "dryRun=true", "page=1"] {
        let refused = app.get(&format!("{}/explain?{query}", href(&cluster))).await.expect_status(400);
        assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-004");
    }
}

async fn under_the_go_contract_parameters_are_ignored_and_paths_nest(app: &App) {
    let cluster = app.create_cluster("main").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&pool).await;
    let path = format!("/nodepools/{}/explain?colour=red", id(&pool));
    let explanation = app.get(&path).await.expect_status(200).json();
    let force = format!("POST {BASE}/clusters/{}/nodepools/{}/force-delete", id(&cluster), id(&pool));
    assert!(text(&explanation["blockers"][0]["action"]).contains(&force), "{explanation}");
}

async fn a_resource_that_waits_too_long_is_stuck(app: &App) {
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
        app.report(&cluster, &report_now(adapter, 1, "True")).await.expect_status(201);
    }
    assert_eq!(explained(app, &cluster).await["phase"], "Reconciled");
    // What is reconciled is not stuck, however long something is wrong with an adapter.
    let mut sick = report_now("dns", 1, "True");
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

async fn an_explanation_reads_a_bounded_part_of_a_large_tree(app: &App) {
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

async fn an_explanation_names_a_dangling_reference(app: &App) {
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

async fn children_of_an_unconfigured_kind_are_named(app: &mut App) {
    let cluster = app.create_cluster("main").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&cluster).await;
    let only = "entities: [{kind: Cluster, plural: clusters, required_adapters: [validator, dns]}]";
    app.restart_with(only).await;
    let explanation = explained(app, &cluster).await;
    assert_eq!(names(&explanation), ["NodePool (1)", "validator", "dns"]);
    let blocker = &explanation["blockers"][0];
    assert!(text(&blocker["action"]).contains("Put kind NodePool back"), "{explanation}");
    assert!(!explanation.to_string().contains(id(&pool)), "{explanation}");
    app.restart_with(KINDS).await;
    assert_eq!(names(&explained(app, &cluster).await), ["validator", "dns", "pool"]);
}
