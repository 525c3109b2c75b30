//! Concurrent writers, also through two servers on one database: nothing is lost, nothing happens twice, and versions
//! only grow.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyperfleet_testkit::Answer;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::*;

const WRITERS: usize = 32;

both_stores!(
    concurrent_patches_of_different_members_are_all_kept,
    one_of_many_creates_of_one_name_wins,
    one_of_many_patches_of_one_version_wins,
    a_deletion_and_new_children_leave_no_orphans,
);

both_stores!(config = CATALOG; a_deletion_and_new_referrers_leave_nothing_dangling, the_last_child_removes_its_waiting_owners);

/// Sends all at once; the answers in any order.
async fn all(calls: impl IntoIterator<Item = Asked>) -> Vec<Answer> {
    let mut running = JoinSet::new();
    for call in calls {
        running.spawn(call.into_future());
    }
    running.join_all().await
}

fn with_status(answers: &[Answer], status: u16) -> Vec<&Answer> {
    answers.iter().filter(|answer| answer.status == status).collect()
}

fn version(answer: &Answer) -> u64 {
    answer.version().unwrap()
}

async fn patches_are_all_kept(apps: &[&App]) {
    let cluster = apps[0].create_cluster("shared").await;
    let first = version(&apps[0].get(href(&cluster)).await);
    let calls = (0..WRITERS).map(|i| {
        let patch = json!({"spec": {format!("m{i}"): i}});
        apps[i % apps.len()].patch(href(&cluster)).json(&patch)
    });
    let answers = all(calls).await;
    assert_eq!(with_status(&answers, 200).len(), WRITERS);

    let expected: Value =
        (0..WRITERS).map(|i| (format!("m{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
    for app in apps {
        let now = app.read(&cluster).await;
        assert_eq!(now["spec"], expected);
        assert_eq!(now["generation"], WRITERS + 1);
    }
    let mut seen: Vec<(u64, u64)> = answers
        .iter()
        .map(|answer| (version(answer), answer.json()["generation"].as_u64().unwrap()))
        .collect();
    seen.sort_unstable();
    let generations: Vec<u64> = seen.iter().map(|(_, generation)| *generation).collect();
    assert_eq!(
        generations,
        (2..=WRITERS as u64 + 1).collect::<Vec<_>>(),
        "versions grow with each write: {seen:?}"
    );
    assert!(seen[0].0 > first && seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "{seen:?}");
}

async fn one_create_wins(apps: &[&App]) {
    let body = json!({"kind": "Cluster", "name": "wanted", "spec": {}});
    let answers = all((0..WRITERS).map(|i| apps[i % apps.len()].post("/clusters").json(&body))).await;
    assert_eq!(with_status(&answers, 201).len(), 1);
    let refused = with_status(&answers, 409);
    assert_eq!(refused.len(), WRITERS - 1);
    assert!(refused.iter().all(|answer| answer.problem_code() == "HYPERFLEET-CNF-001"));
    for app in apps {
        assert_eq!(app.names("/clusters").await, ["wanted"]);
    }
}

async fn one_patch_wins(apps: &[&App]) {
    let cluster = apps[0].create_cluster("guarded").await;
    let tag = apps[0].etag(&cluster).await;
    let calls = (0..WRITERS).map(|i| {
        let patch = json!({"spec": {"winner": i}});
        apps[i % apps.len()].patch(href(&cluster)).header("if-match", &tag).json(&patch)
    });
    let answers = all(calls).await;
    let won = with_status(&answers, 200);
    assert_eq!(won.len(), 1);
    let refused = with_status(&answers, 409);
    assert_eq!(refused.len(), WRITERS - 1);
    for answer in refused {
        assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-002");
        assert_eq!(answer.json()["actual_version"], version(won[0]));
    }
    for app in apps {
        assert_eq!(app.read(&cluster).await, won[0].json());
    }
}

async fn no_orphans(apps: &[&App]) {
    let cluster = apps[0].create_cluster("parent").await;
    let children = (0..WRITERS).map(|i| {
        let body = json!({"kind": "NodePool", "name": format!("pool-{i}"), "spec": {}});
        apps[i % apps.len()].post(&format!("{}/nodepools", href(&cluster))).json(&body)
    });
    let calls: Vec<_> = children.chain([apps[apps.len() - 1].delete(href(&cluster))]).collect();
    let answers = all(calls).await;
    assert_eq!(with_status(&answers, 202).len(), 1);
    let made = with_status(&answers, 201).len();
    assert_eq!(made + with_status(&answers, 409).len(), WRITERS);
    // Whatever the order was, no active child is left below a finalizing owner.
    assert_eq!(apps[0].names("/nodepools").await, [""; 0]);
    assert_eq!(apps[0].get("/nodepools?showDeleted=true").await.json()["total"], made);
}

async fn nothing_dangles(apps: &[&App]) {
    let network = apps[0].create_named("/networks", "Network", "wanted").await;
    let referrers = (0..WRITERS).map(|i| {
        let references = json!({"networks": [{"id": network["id"]}]});
        let body = json!({"kind": "Service", "name": format!("s-{i}"), "spec": {}, "references": references});
        apps[i % apps.len()].post("/services").json(&body)
    });
    let mut calls: Vec<_> = referrers.collect();
    calls.insert(WRITERS / 2, apps[apps.len() - 1].delete(href(&network)));
    let answers = all(calls).await;
    let made = with_status(&answers, 201).len();
    if with_status(&answers, 202).is_empty() {
        assert_eq!(made, WRITERS, "a network that stays can be referred to");
        assert_eq!(with_status(&answers, 409)[0].problem_code(), "HYPERFLEET-CNF-003");
        apps[0].read(&network).await;
    } else {
        assert_eq!(
            (made, with_status(&answers, 400).len()),
            (0, WRITERS),
            "no resource refers to a network that is gone"
        );
        apps[0].get(href(&network)).await.expect_status(404);
    }
}

async fn owners_go_along(apps: &[&App]) {
    let zone = apps[0].create_named("/zones", "Zone", "zone").await;
    let mut hosts = Vec::new();
    for rack in 0..4 {
        let rack =
            apps[0].create_named(&format!("{}/racks", href(&zone)), "Rack", &format!("rack-{rack}")).await;
        for host in 0..4 {
            let path = format!("{}/hosts", href(&rack));
            hosts.push(apps[0].create_named(&path, "Host", &format!("host-{host}")).await);
        }
    }
    apps[0].remove(&zone).await;
    let reason = json!({"reason": "all at once"});
    let force = |(i, host): (usize, &Value)| {
        apps[i % apps.len()].post(&format!("{}/force-delete", href(host))).json(&reason)
    };
    let answers = all(hosts.iter().enumerate().map(force)).await;
    assert_eq!(with_status(&answers, 204).len(), hosts.len());
    assert_eq!(apps[0].get("/resources?showDeleted=true").await.json()["total"], 0);
}

async fn concurrent_patches_of_different_members_are_all_kept(app: &App) {
    patches_are_all_kept(&[app]).await;
}

async fn one_of_many_creates_of_one_name_wins(app: &App) {
    one_create_wins(&[app]).await;
}

async fn one_of_many_patches_of_one_version_wins(app: &App) {
    one_patch_wins(&[app]).await;
}

async fn a_deletion_and_new_children_leave_no_orphans(app: &App) {
    no_orphans(&[app]).await;
}

async fn a_deletion_and_new_referrers_leave_nothing_dangling(app: &App) {
    nothing_dangles(&[app]).await;
}

async fn the_last_child_removes_its_waiting_owners(app: &App) {
    owners_go_along(&[app]).await;
}

/// Two servers on one PostgreSQL database.
async fn pair() -> [App; 2] {
    let one = App::postgres(CATALOG).await;
    let database = Arc::clone(one.database.as_ref().unwrap());
    let other = App::on_database(launch().config(CATALOG), database).await;
    [one, other]
}

#[tokio::test]
async fn two_servers_keep_all_patches() {
    let [one, other] = pair().await;
    patches_are_all_kept(&[&one, &other]).await;
}

#[tokio::test]
async fn two_servers_create_one_name_once() {
    let [one, other] = pair().await;
    one_create_wins(&[&one, &other]).await;
}

#[tokio::test]
async fn one_of_many_patches_of_one_version_wins_at_two_servers() {
    let [one, other] = pair().await;
    one_patch_wins(&[&one, &other]).await;
}

#[tokio::test]
async fn two_servers_leave_no_orphans() {
    let [one, other] = pair().await;
    no_orphans(&[&one, &other]).await;
}

#[tokio::test]
async fn two_servers_leave_nothing_dangling() {
    let [one, other] = pair().await;
    nothing_dangles(&[&one, &other]).await;
}

#[tokio::test]
async fn two_servers_remove_waiting_owners_with_the_last_child() {
    let [one, other] = pair().await;
    owners_go_along(&[&one, &other]).await;
}

#[tokio::test]
async fn versions_are_unique_and_grow_across_two_servers() {
    let apps = pair().await;
    let mut seen = BTreeSet::new();
    let mut newest = 0;
    for round in 0..4 {
        let calls = (0..WRITERS).map(|i| {
            let body = json!({"kind": "Cluster", "name": format!("c-{round}-{i}"), "spec": {}});
            apps[i % 2].post("/clusters").json(&body)
        });
        let answers = all(calls).await;
        let versions: BTreeSet<u64> = with_status(&answers, 201).into_iter().map(version).collect();
        assert_eq!(versions.len(), WRITERS);
        assert!(versions.iter().all(|version| *version > newest), "{newest} came before {versions:?}");
        newest = *versions.last().unwrap();
        seen.extend(versions);
        // A list through either server knows of all that was answered before it was asked for.
        for app in &apps {
            let list = app.get("/clusters?total=exact&pageSize=1").await.expect_status(200).json();
            assert_eq!(list["total"], seen.len());
            assert!(list["version"].as_u64().unwrap() >= newest, "{list}");
        }
    }
    assert_eq!(seen.len(), 4 * WRITERS);
}
