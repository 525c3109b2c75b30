//! Timelines of deleted resources.

use super::*;
use crate::contract::walk::UNKNOWN_ID;
use crate::support::{CATALOG, both_stores, id};

both_stores!(
    config = CATALOG;
    a_force_deleted_tree_has_a_timeline_entry_for_each_resource,
    an_immediate_deletion_is_in_the_timeline,
    a_reused_name_has_its_own_timeline,
);

async fn a_force_deleted_tree_has_a_timeline_entry_for_each_resource(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
    let mut hosts = Vec::new();
    for name in ["one", "two"] {
        hosts.push(app.create_named(&format!("{}/hosts", href(&rack)), "Host", name).await);
    }
    app.remove(&zone).await;
    let reason = json!({"reason": "the imager is gone for good"});
    app.post(&format!("{}/force-delete", href(&zone))).json(&reason).await.expect_status(204);

    let below = [&rack, &hosts[0], &hosts[1]];
    for resource in below {
        app.get(href(resource)).await.expect_status(404);
        let items = timeline(app, href(resource)).await;
        let told = actions(&items);
        assert_eq!((told[0], told.last()), ("force_deleted", Some(&"created")));
        assert!(told.contains(&"deletion_requested"), "{told:?}");
        assert_eq!((&items[0]["reason"], items[0].get("removed")), (&reason["reason"], None));
        assert_eq!(timeline(app, &format!("/resources/{}", id(resource))).await, items);
    }
    let items = timeline(app, href(&zone)).await;
    assert_eq!((&items[0]["action"], &items[0]["reason"]), (&json!("force_deleted"), &reason["reason"]));
    let removed = |ids: &Value| {
        let mut ids: Vec<_> = ids.as_array().unwrap().iter().map(|id| text(id).to_owned()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(removed(&items[0]["removed"]), removed(&below.map(id).to_vec().into()));

    // The owners are gone as well, and the path is still checked.
    let (zone, rack, host) = (id(&zone), id(&rack), id(&hosts[0]));
    let nested = format!("/zones/{zone}/racks/{rack}/hosts/{host}");
    assert_eq!(timeline(app, &nested).await, timeline(app, &format!("/hosts/{host}")).await);
    app.get(&format!("{nested}?generation=1")).await.expect_status(200);
    for (path, wrong) in [
        (format!("/zones/{UNKNOWN_ID}/racks/{rack}/hosts/{host}"), format!("Zone '{UNKNOWN_ID}' not found")),
        (format!("/zones/{zone}/racks/{UNKNOWN_ID}/hosts/{host}"), format!("Rack '{UNKNOWN_ID}' not found")),
        (format!("/zones/{zone}/racks/{rack}/hosts/{UNKNOWN_ID}"), format!("Host '{UNKNOWN_ID}' not found")),
        (format!("/zones/{zone}/racks/{rack}/hosts/{rack}"), format!("Host '{rack}' not found")),
    ] {
        let answer = app.get(&format!("{path}/timeline")).await;
        assert_refused(&answer, 404, "NTF-001");
        assert_eq!(answer.json()["detail"], wrong);
    }
}

async fn an_immediate_deletion_is_in_the_timeline(app: &App) {
    let network = app.create("/networks", &json!({"kind": "Network", "name": "net", "spec": {"a": 1}})).await;
    app.remove(&network).await;
    app.get(href(&network)).await.expect_status(404);
    let items = timeline(app, href(&network)).await;
    assert_eq!(actions(&items), ["deleted", "deletion_requested", "created"]);
    assert_eq!(items[0]["version"], items[1]["version"]);
    let was = app.get(&format!("{}?generation=1", href(&network))).await.expect_status(200).json();
    assert_eq!(was, network);
    let last = app.get(&format!("{}?generation=2", href(&network))).await.expect_status(200).json();
    assert_eq!((&last["spec"], last.get("deleted_time").is_some()), (&json!({"a": 1}), true));
    // Nothing else of it is there.
    app.get(&format!("{}/statuses", href(&network))).await.expect_status(404);
    app.patch(href(&network)).json(&json!({"spec": {}})).await.expect_status(404);
}

async fn a_reused_name_has_its_own_timeline(app: &App) {
    let first = app.create_named("/networks", "Network", "net").await;
    app.remove(&first).await;
    let second = app.create_named("/networks", "Network", "net").await;
    assert_eq!(actions(&timeline(app, href(&second)).await), ["created"]);
    assert_eq!(timeline(app, href(&first)).await.len(), 3);
}
