//! Objects that enter a search, change in it and leave it: by labels, specs, conditions and deletion.

use super::*;

both_stores!(
    config = CATALOG;
    a_label_change_moves_an_object_into_and_out_of_a_search,
    a_spec_change_moves_an_object_into_and_out_of_a_search,
    a_report_moves_an_object_into_and_out_of_a_search,
    an_object_is_added_once_the_search_stops_excluding_it,
    a_deletion_ends_an_object_unless_finalizing_objects_are_shown,
    a_search_for_finalizing_objects_begins_with_their_deletion,
    an_object_without_adapters_is_deleted_at_once,
    reports_that_only_confirm_send_no_event,
    writes_that_change_nothing_send_no_event,
    a_watch_with_fields_sends_only_those_members,
);
both_stores!(config = GO; under_the_go_contract_finalizing_objects_are_shown);

const GO: &str = "compatibility: {contract: go-0.2}";

/// A watch of the clusters that a search means, or that are the last ones of a test.
async fn searched(app: &App, search: &str) -> Stream {
    let search: String =
        format!("({search}) or name like 'last-%'").bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut stream = app.watch(&format!("/clusters?search={search}")).await;
    assert_eq!(stream.until_bookmark().await.0, []);
    stream
}

/// The event and the object that it shows, which is what the answer to its cause was.
#[track_caller]
fn assert_event(event: &Event, kind: &str, object: &Value) {
    assert_eq!((event.kind(), event.object()), (kind, object));
}

async fn a_label_change_moves_an_object_into_and_out_of_a_search(app: &App) {
    let mut stream = searched(app, "labels.tone = 'red'").await;
    let cluster = app.create_cluster("painted").await;
    let red = app.merge(&cluster, &json!({"labels": {"tone": "red"}})).await;
    let event = stream.change().await;
    assert_event(&event, "ADDED", &red);
    assert_eq!(event.version(), version(app, &red).await);
    let changed = app.merge(&cluster, &json!({"spec": {"n": 1}, "labels": {"more": "yes"}})).await;
    assert_event(&stream.change().await, "MODIFIED", &changed);
    let blue = app.merge(&cluster, &json!({"labels": {"tone": "blue"}, "spec": {"n": 2}})).await;
    assert_event(&stream.change().await, "DELETED", &blue);
    app.merge(&cluster, &json!({"spec": {"n": 3}})).await;
    let red = app.merge(&cluster, &json!({"labels": {"tone": "red"}})).await;
    assert_event(&stream.change().await, "ADDED", &red);
    let none = app.merge(&cluster, &json!({"labels": null})).await;
    assert_event(&stream.change().await, "DELETED", &none);
    assert_eq!(event_names(app, &mut stream).await, []);
}

async fn a_spec_change_moves_an_object_into_and_out_of_a_search(app: &App) {
    let mut stream = searched(app, "spec.size.n >= 3 and not spec.off = true").await;
    let cluster = app.create_cluster("sized").await;
    app.merge(&cluster, &json!({"spec": {"size": {"n": 2}}})).await;
    for (patch, kind) in [
        (json!({"size": {"n": 3}}), "ADDED"),
        (json!({"size": {"n": 3.5}, "off": false}), "MODIFIED"),
        (json!({"off": true}), "DELETED"),
        (json!({"off": null}), "ADDED"),
        (json!({"size": "large"}), "DELETED"),
    ] {
        let now = app.merge(&cluster, &json!({"spec": patch})).await;
        assert_event(&stream.change().await, kind, &now);
    }
    assert_eq!(event_names(app, &mut stream).await, []);
}

async fn a_report_moves_an_object_into_and_out_of_a_search(app: &App) {
    let mut stream = searched(app, "status.conditions.Reconciled = 'True'").await;
    let cluster = app.create_cluster("reported").await;
    let send = async |adapter: &str, generation: u64, available: &str| {
        let report = report(adapter, generation, available, "2026-01-01T10:00:00Z");
        app.report(&cluster, &report).await.expect_status(201);
        app.read(&cluster).await
    };
    send("validator", 1, "True").await;
    let done = send("dns", 1, "True").await;
    assert_event(&stream.change().await, "ADDED", &done);
    let other = send("observer", 1, "False").await;
    assert_event(&stream.change().await, "MODIFIED", &other);
    let changed = app.merge(&cluster, &json!({"spec": {"n": 1}})).await;
    assert_event(&stream.change().await, "DELETED", &changed);
    send("validator", 2, "False").await;
    send("dns", 2, "True").await;
    let done = send("validator", 2, "True").await;
    assert_event(&stream.change().await, "ADDED", &done);
    let failed = send("dns", 2, "False").await;
    assert_event(&stream.change().await, "DELETED", &failed);
    assert_eq!(event_names(app, &mut stream).await, []);
}

async fn an_object_is_added_once_the_search_stops_excluding_it(app: &App) {
    let mut stream = searched(app, "not labels.tone = 'red' and not name = 'never'").await;
    app.create_cluster("never").await;
    let body = json!({"kind": "Cluster", "name": "red", "spec": {}, "labels": {"tone": "red"}});
    let cluster = app.create("/clusters", &body).await;
    for (tone, kind) in [(json!("blue"), "ADDED"), (json!("red"), "DELETED"), (Value::Null, "ADDED")] {
        let now = app.merge(&cluster, &json!({"labels": {"tone": tone}})).await;
        assert_event(&stream.change().await, kind, &now);
    }
    assert_eq!(event_names(app, &mut stream).await, []);
}

async fn a_deletion_ends_an_object_unless_finalizing_objects_are_shown(app: &App) {
    let cluster = app.create_cluster("going").await;
    let [mut plain, mut all] = [app.watch("/clusters").await, app.watch("/clusters?showDeleted=true").await];
    for stream in [&mut plain, &mut all] {
        assert_event(&stream.until_bookmark().await.0[0], "ADDED", &cluster);
    }
    let going = app.remove(&cluster).await;
    assert_event(&plain.change().await, "DELETED", &going);
    assert_event(&all.change().await, "MODIFIED", &going);
    app.remove(&cluster).await;

    app.report(&cluster, &finalized("validator", 2, &at(0))).await.expect_status(201);
    let waiting = app.read(&cluster).await;
    assert_event(&all.change().await, "MODIFIED", &waiting);
    let before = newest(app).await;
    app.report(&cluster, &finalized("dns", 2, &at(0))).await.expect_status(201);
    app.get(href(&cluster)).await.expect_status(404);
    let last = all.change().await;
    assert_eq!((last.kind(), last.version()), ("DELETED", before + 1));
    assert_eq!(last.object()["id"], cluster["id"]);
    assert_eq!(last.object()["deleted_time"], going["deleted_time"]);
    let next = app.create_cluster("next").await;
    for stream in [&mut plain, &mut all] {
        assert_event(&stream.change().await, "ADDED", &next);
    }
}

async fn a_search_for_finalizing_objects_begins_with_their_deletion(app: &App) {
    let mut stream = searched(app, "deleted_time is not null").await;
    let cluster = app.create_cluster("going").await;
    app.merge(&cluster, &json!({"spec": {"n": 1}})).await;
    let going = app.remove(&cluster).await;
    assert_event(&stream.change().await, "ADDED", &going);
    app.force_delete(&cluster).await;
    assert_event(&stream.change().await, "DELETED", &going);
    assert_eq!(event_names(app, &mut stream).await, []);
}

async fn an_object_without_adapters_is_deleted_at_once(app: &App) {
    for query in ["", "?showDeleted=true"] {
        let mut stream = app.watch(&format!("/networks{query}")).await;
        stream.until_bookmark().await;
        let network = app.create_named("/networks", "Network", "brief").await;
        assert_event(&stream.change().await, "ADDED", &network);
        let gone = app.remove(&network).await;
        assert_event(&stream.change().await, "DELETED", &gone);
        app.get(href(&network)).await.expect_status(404);
        let next = app.create_named("/networks", "Network", "next").await;
        assert_event(&stream.change().await, "ADDED", &next);
        app.remove(&next).await;
    }
}

async fn reports_that_only_confirm_send_no_event(app: &App) {
    let cluster = app.create_cluster("steady").await;
    let mut stream = app.watch("/clusters?since=1").await;
    let mut steady = report("validator", 1, "True", "2026-01-01T10:00:00Z");
    app.report(&cluster, &steady).await.expect_status(201);
    let before = app.read(&cluster).await;
    assert_event(&stream.change().await, "MODIFIED", &before);
    for second in 1..=5 {
        steady["observed_time"] = json!(format!("2026-01-01T10:00:0{second}Z"));
        app.report(&cluster, &steady).await.expect_status(201);
    }
    assert_ne!(app.read(&cluster).await, before, "times have moved");
    assert_eq!(event_names(app, &mut stream).await, []);

    let mut other = app.watch("/clusters").await;
    let shown = other.until_bookmark().await.0.remove(0);
    assert_event(&shown, "ADDED", &app.read(&cluster).await);
    // What an adapter says beside its conditions is a change of the resource's version.
    steady["data"] = json!({"nodes": 3});
    app.report(&cluster, &steady).await.expect_status(201);
    for stream in [&mut stream, &mut other] {
        let event = stream.change().await;
        assert_eq!(event.version(), version(app, &cluster).await);
        assert_event(&event, "MODIFIED", &app.read(&cluster).await);
    }
}

async fn writes_that_change_nothing_send_no_event(app: &App) {
    let cluster = app.create_cluster("same").await;
    let mut stream = app.watch("/clusters?showDeleted=true&since=1").await;
    app.merge(&cluster, &json!({"spec": {}})).await;
    app.merge(&cluster, &json!({"labels": {"a": null}})).await;
    app.patch(&format!("{}?dryRun=true", href(&cluster)))
        .json(&json!({"spec": {"n": 1}}))
        .await
        .expect_status(200);
    app.delete(&format!("{}?dryRun=true", href(&cluster))).await.expect_status(202);
    app.post("/clusters?dryRun=true")
        .json(&json!({"kind": "Cluster", "name": "dry", "spec": {}}))
        .await
        .expect_status(201);
    app.post("/clusters")
        .json(&json!({"kind": "Cluster", "name": "same", "spec": {}}))
        .await
        .expect_status(409);
    app.report(&cluster, &report("validator", 9, "True", "2026-01-01T10:00:00Z")).await.expect_status(204);
    assert_eq!(event_names(app, &mut stream).await, []);
}

async fn a_watch_with_fields_sends_only_those_members(app: &App) {
    let body = json!({"kind": "Cluster", "name": "whole", "spec": {"a": {"b": 1, "c": 2}}, "labels": {"x": "1", "y": "2"}});
    let cluster = app.create("/clusters", &body).await;
    let fields = "fields=name,spec.a.b,labels.x,status.conditions.type";
    let mut stream = app.watch(&format!("/clusters?{fields}")).await;
    let shown = async || app.get(&format!("{}?{fields}", href(&cluster))).await.expect_status(200).json();
    let first = stream.until_bookmark().await.0.remove(0);
    assert_event(&first, "ADDED", &shown().await);
    assert_eq!(first.object()["spec"], json!({"a": {"b": 1}}));
    assert_eq!(first.object().as_object().unwrap().len(), 5, "{}", first.object());
    app.merge(&cluster, &json!({"spec": {"a": {"b": 5}}})).await;
    let last = shown().await;
    assert_event(&stream.change().await, "MODIFIED", &last);
    app.merge(&cluster, &json!({"spec": {"a": {"c": 5}}})).await;
    assert_event(&stream.change().await, "MODIFIED", &last);
    app.remove(&cluster).await;
    assert_event(&stream.change().await, "DELETED", &last);

    let mut ids = app.watch("/clusters?fields=id&since=0").await;
    assert_eq!(ids.change().await.object(), &json!({"id": cluster["id"]}));
}

async fn under_the_go_contract_finalizing_objects_are_shown(app: &App) {
    let cluster = app.create_cluster("going").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let mut stream = app.watch("/resources?since=0&unknown=ignored").await;
    assert_event(&stream.change().await, "ADDED", &cluster);
    let added = stream.change().await;
    assert_event(&added, "ADDED", &pool);
    assert!(text(&added.object()["href"]).starts_with(href(&cluster)), "{}", added.object());
    app.remove(&cluster).await;
    let mut told = events_of(&mut stream, 2).await;
    told.sort_by_key(|event| text(&event.object()["name"]).to_owned());
    assert_eq!(named(&told), [("MODIFIED", "going"), ("MODIFIED", "pool")]);
    for event in &told {
        assert!(event.object()["deleted_time"].is_string());
    }
    app.force_delete(&cluster).await;
    let mut told = events_of(&mut stream, 2).await;
    told.sort_by_key(|event| text(&event.object()["name"]).to_owned());
    assert_eq!(named(&told), [("DELETED", "going"), ("DELETED", "pool")]);
}
