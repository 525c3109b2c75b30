//! Concurrent reports: none is lost, the newest wins, and a tree is removed whole whichever report is the last.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(
    config = CATALOG;
    concurrent_reports_of_all_adapters_are_stored,
    the_newest_concurrent_report_of_an_adapter_wins,
    a_tree_is_removed_whole_in_any_order_of_reports,
    concurrent_reports_and_patches_end_consistent,
    concurrent_reports_and_deletions_leave_nothing_behind,
    a_deletion_beside_reports_keeps_the_desired_state_of_waiting_resources,
    a_deletion_beside_reports_reverts_no_confirmed_time,
);

/// Sends them all at once; how many answers of each status came back.
async fn send(calls: Vec<Asked>) -> BTreeMap<u16, usize> {
    let running: Vec<_> = calls.into_iter().map(|call| tokio::spawn(call.into_future())).collect();
    let mut statuses = BTreeMap::new();
    for call in running {
        *statuses.entry(call.await.unwrap().status).or_default() += 1;
    }
    statuses
}

async fn concurrent_reports_of_all_adapters_are_stored(app: &App) {
    let cluster = app.create_cluster("many").await;
    let names: Vec<String> = (0..40).map(|n| format!("adapter-{n:02}")).collect();
    let required = ["dns", "validator"].map(str::to_owned);
    let all: Vec<&String> = names.iter().chain(&required).collect();
    let calls = all.iter().map(|name| app.report(&cluster, &report(name, 1, "True", &at(1)))).collect();
    assert_eq!(send(calls).await, BTreeMap::from([(201, 42)]));
    let list = app.get(&format!("{}/statuses?pageSize=500", href(&cluster))).await.expect_status(200).json();
    let found: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| text(&item["adapter"])).collect();
    assert_eq!(found, all);
    assert_eq!(
        condition_states(&app.read(&cluster).await)[..2],
        ["Reconciled=True", "LastKnownReconciled=True"]
    );
}

async fn the_newest_concurrent_report_of_an_adapter_wins(app: &App) {
    let cluster = app.create_cluster("race").await;
    for round in 0..3 {
        let seconds = (0..20).map(|second| round * 20 + second);
        let sent = |second| report("dns", 1, if second % 2 == 0 { "True" } else { "False" }, &at(second));
        let calls = seconds.map(|second| app.report(&cluster, &sent(second))).collect();
        let statuses = send(calls).await;
        assert!(statuses.keys().all(|status| [201, 204].contains(status)), "{statuses:?}");
        let last = round * 20 + 19;
        assert_eq!(app.reports(&cluster).await[0]["last_report_time"], at(last));
        let now = app.read(&cluster).await;
        let shown = condition(&now, "DnsSuccessful");
        assert_eq!((&shown["status"], &shown["last_updated_time"]), (&"False".into(), &at(last).into()));
    }
}

/// One commit may hold reports on what is remembered and on what has to be loaded with everything around it.
async fn a_deletion_beside_reports_reverts_no_confirmed_time(app: &App) {
    let (mut staying, mut going) = (Vec::new(), Vec::new());
    for number in 0..6 {
        let cluster = app.create_cluster(&format!("staying-{number}")).await;
        for (adapter, second) in [("dns", 1), ("validator", 1), ("dns", 50)] {
            app.report(&cluster, &report(adapter, 1, "True", &at(second))).await.expect_status(201);
        }
        staying.push(cluster);
        let cluster = app.create_cluster(&format!("going-{number}")).await;
        app.remove(&cluster).await;
        going.push(cluster);
    }
    for round in 1..=5 {
        let confirmed =
            staying.iter().map(|it| app.report(it, &report("validator", 1, "True", &at(50 + round))));
        let waiting = going.iter().map(|it| app.report(it, &report("validator", 2, "False", &at(round))));
        let calls = confirmed.zip(waiting).flat_map(|(one, other)| [one, other]).collect();
        assert_eq!(send(calls).await, BTreeMap::from([(201, 12)]));
        for cluster in &staying {
            let now = app.read(cluster).await;
            for kind in ["DnsSuccessful", "Reconciled"] {
                assert_eq!(condition(&now, kind)["last_updated_time"], at(50), "{kind} {now}");
            }
        }
    }
}

async fn a_tree_is_removed_whole_in_any_order_of_reports(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let mut hosts = Vec::new();
    for rack in ["a", "b", "c"] {
        let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", rack).await;
        for host in ["a", "b", "c"] {
            hosts.push(app.create_named(&format!("{}/hosts", href(&rack)), "Host", host).await);
        }
    }
    app.remove(&zone).await;
    let calls = hosts.iter().map(|host| app.report(host, &finalized("imager", 2, &at(1)))).collect();
    assert_eq!(send(calls).await, BTreeMap::from([(201, 9)]));
    let left = app.get("/resources?showDeleted=true").await.expect_status(200).json();
    assert_eq!(left["total"], 0, "{left}");
}

async fn concurrent_reports_and_patches_end_consistent(app: &App) {
    let cluster = app.create_cluster("mixed").await;
    let mut calls = Vec::new();
    for number in 1..=10_u64 {
        calls.push(app.patch(href(&cluster)).json(&serde_json::json!({"spec": {"n": number}})));
        for adapter in ["dns", "validator"] {
            calls.push(app.report(&cluster, &report(adapter, number, "True", &at(number as u32))));
        }
    }
    let statuses = send(calls).await;
    assert!(statuses.keys().all(|status| [200, 201, 204].contains(status)), "{statuses:?}");
    let generation = app.read(&cluster).await["generation"].as_u64().unwrap();
    assert_eq!(generation, 11);
    for adapter in ["dns", "validator"] {
        app.report(&cluster, &report(adapter, generation, "True", &at(59))).await.expect_status(201);
    }
    let now: Value = app.read(&cluster).await;
    assert_eq!(condition_summary(&now, "Reconciled").0, "True");
    assert_eq!(condition(&now, "LastKnownReconciled")["observed_generation"], 11);
}

async fn concurrent_reports_and_deletions_leave_nothing_behind(app: &App) {
    let mut hosts = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let zone = app.create_named("/zones", "Zone", name).await;
        let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", name).await;
        let host = app.create_named(&format!("{}/hosts", href(&rack)), "Host", name).await;
        hosts.push((zone, host));
    }
    let mut calls = Vec::new();
    for (zone, host) in &hosts {
        calls.push(app.report(host, &report("imager", 1, "True", &at(1))));
        calls.push(app.delete(href(zone)));
        calls.push(app.report(host, &finalized("imager", 2, &at(2))));
        calls.push(app.delete(href(host)));
    }
    let statuses = send(calls).await;
    assert!(statuses.keys().all(|status| [201, 202, 204, 404].contains(status)), "{statuses:?}");
    for (zone, host) in &hosts {
        // In whatever order the requests came, what is left waits for this report alone.
        if app.get(href(host)).await.status == 200 {
            app.report(host, &finalized("imager", 2, &at(3))).await.expect_status(201);
        }
        for gone in [host, zone] {
            app.get(&format!("{}/statuses", href(gone))).await.expect_status(404);
        }
    }
    assert_eq!(app.get("/resources?showDeleted=true").await.expect_status(200).json()["total"], 0);
}

/// Reports are decided without the spec; a deletion in the same commit writes the whole row.
async fn a_deletion_beside_reports_keeps_the_desired_state_of_waiting_resources(app: &App) {
    for round in 0..8 {
        let name = format!("waiting-{round}");
        let zone = app.create_named("/zones", "Zone", &name).await;
        let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", &name).await;
        let mut hosts = Vec::new();
        for n in 0..4 {
            let host = json!({"kind": "Host", "name": format!("h{n}"), "spec": {"n": n}, "labels": {"n": n.to_string()}});
            let host = app.create(&format!("{}/hosts", href(&rack)), &host).await;
            app.report(&host, &report("imager", 1, "True", &at(1))).await.expect_status(201);
            hosts.push(host);
        }
        let mut calls = vec![];
        for second in 2..6 {
            calls
                .extend(hosts.iter().map(|host| app.report(host, &report("imager", 1, "True", &at(second)))));
        }
        calls.insert(calls.len() / 2, app.delete(href(&zone)));
        let statuses = send(calls).await;
        // A report that is overtaken by a later one is stale.
        assert!(statuses.keys().all(|status| [201, 202, 204].contains(status)), "{statuses:?}");
        for host in &hosts {
            let now = app.read(host).await;
            assert_eq!((&now["spec"], &now["labels"]), (&host["spec"], &host["labels"]), "round {round}");
            assert_eq!(now["generation"], 2);
            app.report(host, &finalized("imager", 2, &at(9))).await.expect_status(201);
        }
        app.get(href(&zone)).await.expect_status(404);
    }
}
