//! The total of a search is the number of its matches after any writes: each step is followed by a walk over the pages
//! of many searches, compared with all resources as shown.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_testkit::eventually;

use super::*;
use crate::lists::pages::walked;

/// What is asked of every list after every step: a search, and what a resource shows that it finds.
type Question = (&'static str, fn(&Value) -> bool);

fn label<'a>(resource: &'a Value, key: &str) -> &'a str {
    resource["labels"][key].as_str().unwrap_or_default()
}

fn status<'a>(resource: &'a Value, kind: &str) -> &'a str {
    let conditions = resource["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|c| c["type"] == kind).map_or("", |c| text(&c["status"]))
}

const QUESTIONS: [Question; 21] = [
    ("labels.env = 'a'", |r| label(r, "env") == "a"),
    ("labels.env = 'b'", |r| label(r, "env") == "b"),
    ("labels.env in ['a', 'b']", |r| ["a", "b"].contains(&label(r, "env"))),
    ("labels.env in ['a', 'a', 'absent']", |r| label(r, "env") == "a"),
    ("labels.env = 'a' and labels.tier = 'x'", |r| label(r, "env") == "a" && label(r, "tier") == "x"),
    ("labels.env = 'a' or labels.tier = 'x'", |r| label(r, "env") == "a" || label(r, "tier") == "x"),
    ("not labels.env = 'a'", |r| label(r, "env") != "a"),
    ("labels.env = 'a' and labels.env = 'a'", |r| label(r, "env") == "a"),
    ("status.conditions.Reconciled = 'True'", |r| status(r, "Reconciled") == "True"),
    ("status.conditions.Reconciled = 'False'", |r| status(r, "Reconciled") == "False"),
    ("status.conditions.Reconciled in ['True', 'False']", |_| true),
    ("status.conditions.ValidatorSuccessful.status = 'True'", |r| status(r, "ValidatorSuccessful") == "True"),
    ("labels.env = 'a' and status.conditions.Reconciled = 'False'", |r| {
        label(r, "env") == "a" && status(r, "Reconciled") == "False"
    }),
    ("kind = 'Cluster'", |r| r["kind"] == "Cluster"),
    ("kind = 'Cluster' and labels.env = 'a'", |r| r["kind"] == "Cluster" && label(r, "env") == "a"),
    ("kind in ['Cluster', 'Zone'] and kind in ['Zone', 'NodePool']", |r| r["kind"] == "Zone"),
    ("kind = 'Cluster' and kind = 'NodePool' and labels.env = 'a'", |_| false),
    ("name is not null", |_| true),
    ("deleted_time is null", |r| r.get("deleted_time").is_none()),
    ("deleted_time is null and labels.env = 'a'", |r| {
        r.get("deleted_time").is_none() && label(r, "env") == "a"
    }),
    ("deleted_time is null and deleted_time is not null and labels.env = 'a'", |_| false),
];

/// Which resources of a list are looked through.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phases {
    Active,
    All,
    Finalizing,
}

/// Holds every question in every list against all resources.
async fn totals_are_right(app: &App, step: &str) {
    let all = app.get("/resources?showDeleted=true&pageSize=500").await.expect_status(200).json();
    let all = all["items"].as_array().unwrap();
    let phases = [Phases::Active, Phases::All, Phases::Finalizing];
    let mut lists = vec![
        ("/clusters".to_owned(), Some("Cluster"), None, &phases[..2]),
        ("/resources".to_owned(), None, None, &phases[..]),
        ("/nodepools".to_owned(), Some("NodePool"), None, &phases[..1]),
        ("/resources?kind=Zone".to_owned(), Some("Zone"), None, &phases[..1]),
    ];
    if let Some(owner) = all.iter().find(|r| r["kind"] == "Cluster").map(id) {
        let below = format!("/clusters/{owner}/nodepools");
        lists.push((below, Some("NodePool"), Some(owner), &phases[1..2]));
    }
    for (list, kind, owner, phases) in lists {
        for (search, meant) in QUESTIONS {
            for phases in phases {
                let path = match phases {
                    Phases::Active => searched(&list, search),
                    Phases::All => format!("{}&showDeleted=true", searched(&list, search)),
                    Phases::Finalizing => {
                        searched(&list, &format!("deleted_time is not null and ({search})"))
                    }
                };
                let is_meant = |r: &&Value| {
                    let finalizing = r.get("deleted_time").is_some();
                    kind.is_none_or(|kind| r["kind"] == kind)
                        && owner.is_none_or(|owner| r["owner_references"]["id"] == owner)
                        && match phases {
                            Phases::Active => !finalizing || search.contains("deleted_time"),
                            Phases::All => true,
                            Phases::Finalizing => finalizing,
                        }
                        && meant(r)
                };
                let expected = all.iter().filter(is_meant).count() as u64;
                let page = app.get(&format!("{path}&pageSize=500&fields=id")).await.expect_status(200).json();
                let counted =
                    (page["total"].as_u64().unwrap(), page["items"].as_array().unwrap().len() as u64);
                assert_eq!(counted, (expected, expected), "{step}: {path}");
            }
        }
    }
}

/// Clusters and pools with labels, and a Zone.
async fn labelled(app: &App, clusters: usize) -> Vec<Value> {
    let mut made = Vec::new();
    for number in 0..clusters {
        let (env, tier) = (["a", "b", "c"][number % 3], ["x", "y"][number % 2]);
        let labels = json!({"env": env, "tier": tier});
        let body =
            json!({"kind": "Cluster", "name": format!("cluster-{number}"), "spec": {}, "labels": labels});
        let cluster = app.create("/clusters", &body).await;
        for (pool, env) in ["a", "b"].into_iter().enumerate() {
            let labels = json!({"env": env});
            let body =
                json!({"kind": "NodePool", "name": format!("pool-{pool}"), "spec": {}, "labels": labels});
            app.create(&format!("{}/nodepools", href(&cluster)), &body).await;
        }
        made.push(cluster);
    }
    app.create("/zones", &json!({"kind": "Zone", "name": "zone", "spec": {}, "labels": {"env": "a"}})).await;
    made
}

async fn totals_follow_labels_reports_and_deletions(app: &mut App) {
    totals_are_right(app, "nothing there").await;
    let clusters = labelled(app, 5).await;
    totals_are_right(app, "created").await;

    app.merge(&clusters[0], &json!({"labels": {"env": "b"}})).await;
    app.merge(&clusters[1], &json!({"labels": {"env": null}})).await;
    app.merge(&clusters[2], &json!({"labels": {"env": "a", "tier": null, "more": "x"}})).await;
    app.merge(&clusters[3], &json!({"labels": {"tier": "x"}, "spec": {"changed": 1}})).await;
    app.merge(&clusters[4], &json!({"labels": {"env": "b"}})).await;
    app.merge(&clusters[3], &json!({"labels": null})).await;
    app.merge(&clusters[4], &json!({"labels": {}})).await;
    totals_are_right(app, "patched and emptied").await;

    let up = json!({"status": "True"});
    let down = json!({"status": "False", "reason": "Broken"});
    for (cluster, generation) in [(0, 1), (2, 1), (3, 2)] {
        for adapter in ["validator", "dns"] {
            let sent = report(adapter, generation, 10, &up);
            app.report(&clusters[cluster], &sent).await.expect_status(201);
        }
    }
    totals_are_right(app, "reconciled").await;
    app.report(&clusters[0], &report("dns", 1, 20, &down)).await.expect_status(201);
    app.report(&clusters[2], &report("dns", 1, 20, &up)).await.expect_status(201);
    app.report(&clusters[2], &report("dns", 1, 5, &down)).await.expect_status(204);
    app.merge(&clusters[3], &json!({"spec": {"changed": 2}})).await;
    totals_are_right(app, "turned").await;

    // What is refused or only tried counts nothing.
    let body = json!({"kind": "Cluster", "name": "cluster-0", "spec": {}, "labels": {"env": "a"}});
    app.post("/clusters").json(&body).await.expect_status(409);
    let tried = json!({"kind": "Cluster", "name": "tried", "spec": {}, "labels": {"env": "a"}});
    app.post("/clusters?dryRun=true").json(&tried).await.expect_status(201);
    app.patch(&format!("{}?dryRun=true", href(&clusters[0])))
        .json(&json!({"labels": {"env": "a"}}))
        .await
        .expect_status(200);
    app.delete(&format!("{}?dryRun=true", href(&clusters[0]))).await.expect_status(202);
    app.patch(href(&clusters[0]))
        .header("if-match", "\"1\"")
        .json(&json!({"labels": {"env": "a"}}))
        .await
        .expect_status(409);
    totals_are_right(app, "refused").await;

    app.remove(&clusters[0]).await;
    app.remove(&clusters[2]).await;
    app.remove(&clusters[2]).await;
    app.patch(href(&clusters[2])).json(&json!({"labels": {"env": "b"}})).await.expect_status(409);
    totals_are_right(app, "finalizing").await;
    app.restart().await;
    totals_are_right(app, "started again").await;
    app.force_delete(&clusters[0]).await;
    let zones = app.get("/zones").await.expect_status(200).json();
    app.remove(&zones["items"][0]).await;
    totals_are_right(app, "removed by force and at once").await;

    // The pools finish, then the cluster, and all three are gone.
    let pools = app
        .get(&format!("{}/nodepools?showDeleted=true", href(&clusters[2])))
        .await
        .expect_status(200)
        .json();
    let mut last = pools["items"].as_array().unwrap().clone();
    last.push(clusters[2].clone());
    for resource in &last {
        for adapter in ["validator", "dns"] {
            if resource["kind"] == "NodePool" && adapter == "dns" {
                continue;
            }
            let mut sent = report(adapter, 2, 30, &json!({"status": "False"}));
            sent["conditions"].as_array_mut().unwrap().push(json!({"type": "Finalized", "status": "True"}));
            app.report(resource, &sent).await.expect_status(201);
        }
    }
    app.get(href(&clusters[2])).await.expect_status(404);
    totals_are_right(app, "gone").await;
    for (search, _) in QUESTIONS {
        walked(app, &searched("/resources?showDeleted=true", search), 3).await;
    }
}

/// A batch of writers at once, as many as fit into one commit, each through one of the servers.
async fn written_by_many(servers: &[&App]) {
    let clusters = labelled(servers[0], 3).await;
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..24_usize {
        let api = servers[number % servers.len()].api();
        let (path, own) = (href(&clusters[number % 3]).to_owned(), format!("own-{number}"));
        writers.spawn(async move {
            for round in 0..4_usize {
                let (env, tier) = (["a", "b", "c", ""][(number + round) % 4], ["x", "y"][round % 2]);
                let patch = json!({"labels": {"env": env, "tier": tier}});
                api.patch(&path).json(&patch).await.expect_status(200);
                let status = ["True", "False"][(number + round) % 2];
                let available = json!({"status": status});
                let sent = report("validator", 1, u32::try_from(number).unwrap(), &available);
                let sent = api.put(&format!("{path}/statuses")).json(&sent).await;
                assert!([201, 204].contains(&sent.status), "{sent}");
                if round == 1 {
                    let body = json!({"kind": "Cluster", "name": own, "spec": {}, "labels": {"env": env}});
                    let made =
                        api.post(&format!("{BASE}/clusters")).json(&body).await.expect_status(201).json();
                    if number % 3 == 0 {
                        api.delete(href(&made)).await.expect_status(202);
                    }
                }
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    for server in servers {
        totals_are_right(server, "after all of them").await;
    }
}

async fn totals_survive_many_writers_at_once(app: &App) {
    written_by_many(&[app]).await;
}

#[test]
fn totals_survive_many_writers_through_two_servers() {
    run(async {
        let database = Arc::new(database().await);
        let launch = launch().config(CATALOG);
        let one = App::on_database(launch.clone(), Arc::clone(&database)).await;
        let other = App::on_database(launch, database).await;
        written_by_many(&[&one, &other]).await;
    });
}

/// While labels come and go, a page that holds everything holds as many as it counts.
async fn count_and_items_come_from_one_snapshot(app: &App) {
    let clusters = labelled(app, 3).await;
    let writer = async {
        for round in 0..30_usize {
            let env = ["a", "b"][round % 2];
            app.merge(&clusters[round % 3], &json!({"labels": {"env": env}})).await;
            let network = json!({"kind": "Network", "name": "brief", "spec": {}, "labels": {"env": "a"}});
            let network = app.create("/networks", &network).await;
            app.remove(&network).await;
        }
    };
    let reader = async {
        for round in 0..90_usize {
            let search = QUESTIONS[round % 9].0;
            for list in ["/clusters", "/resources", "/networks"] {
                let path = format!("{}&pageSize=500", searched(list, search));
                let page = app.get(&path).await.expect_status(200).json();
                assert_eq!(page["total"], page["items"].as_array().unwrap().len(), "{path}");
            }
        }
    };
    tokio::join!(writer, reader);
}

/// Other required adapters change conditions of resources that were not written.
async fn totals_follow_conditions_that_are_computed_anew(app: &mut App) {
    let clusters = labelled(app, 4).await;
    for cluster in &clusters[..2] {
        app.report(cluster, &report("validator", 1, 10, &json!({"status": "True"}))).await.expect_status(201);
    }
    totals_are_right(app, "waiting for dns").await;
    app.restart_with(&CATALOG.replace("[validator, dns]", "[validator]")).await;
    let reconciled = searched("/clusters", "status.conditions.Reconciled = 'True'");
    eventually("two reconciled clusters", Duration::from_secs(30), async || {
        (app.names(&reconciled).await.len() == 2).then_some(())
    })
    .await;
    totals_are_right(app, "dns is not required").await;
}

both_stores!(
    config = CATALOG;
    totals_follow_labels_reports_and_deletions,
    totals_follow_conditions_that_are_computed_anew,
);
both_stores!(
    config = CATALOG;
    totals_survive_many_writers_at_once,
    count_and_items_come_from_one_snapshot,
);
