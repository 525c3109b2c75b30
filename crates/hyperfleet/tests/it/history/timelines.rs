//! The entries of a timeline.

use super::*;
use crate::contract::walk::UNKNOWN_ID;
use crate::support::{CATALOG, both_stores, faults, id};

both_stores!(
    config = CATALOG;
    each_change_is_an_entry_with_its_details,
    a_patch_of_several_members_is_an_entry_for_each_with_one_version,
    a_report_is_an_entry_with_its_transitions_and_a_repeated_one_is_none,
    a_deletion_is_recorded_step_by_step,
    refused_dry_and_empty_changes_are_not_in_the_timeline,
    every_path_to_a_resource_has_its_timeline_and_no_other_does,
    a_parameter_that_a_timeline_does_not_have_is_refused,
);

/// An entry without when it happened and by which version.
fn without_time_and_version(mut item: Value) -> Value {
    let members = item.as_object_mut().unwrap();
    assert!(members.shift_remove("time").is_some() && members.shift_remove("version").is_some());
    item
}

async fn each_change_is_an_entry_with_its_details(app: &App) {
    let body =
        json!({"kind": "Network", "name": "net", "spec": {"cidr": "10.0.0.0/16"}, "labels": {"a/b": "c"}});
    let made = app.post("/networks").header("x-request-id", "making").json(&body).await.expect_status(201);
    let network = made.json();
    // Numbers are told as they were written.
    let patch = app
        .patch(href(&network))
        .header("x-request-id", "patching")
        .header("content-type", "application/json");
    let patched = patch.body(r#"{"spec":{"cidr":null,"size":1.5e400}}"#).await.expect_status(200);
    let answer = app.get(&format!("{}/timeline", href(&network))).await.expect_status(200);
    assert!(
        String::from_utf8_lossy(&answer.body).contains(r#"{"path":"spec.size","to":1.5e400}"#),
        "{answer}"
    );

    let list = answer.json();
    let items = list["items"].as_array().unwrap();
    for (item, state) in items.iter().zip([&patched, &made]) {
        assert_eq!(item["time"], state.json()["updated_time"]);
        assert_eq!(state.version(), item["version"].as_u64());
    }
    assert_eq!(list["version"], items[0]["version"]);
    let [patched, made] =
        [without_time_and_version(items[0].clone()), without_time_and_version(items[1].clone())];
    let circumstances =
        |item: &Value| ["actor", "request_id", "action"].map(|member| text(&item[member]).to_owned());
    assert_eq!(circumstances(&patched), ["system@hyperfleet.local", "patching", "spec_changed"]);
    let gone = json!({"path": "spec.cidr", "from": "10.0.0.0/16"});
    assert_eq!(patched["changes"][0], gone);
    assert_eq!(patched.as_object().unwrap().len(), 4, "{patched}");
    assert_eq!(circumstances(&made), ["system@hyperfleet.local", "making", "created"]);
}

async fn a_patch_of_several_members_is_an_entry_for_each_with_one_version(app: &App) {
    let mut networks = Vec::new();
    for name in ["one", "two"] {
        networks.push(app.create_named("/networks", "Network", name).await);
    }
    let referring = |index: usize| json!({"networks": [{"id": id(&networks[index])}]});
    let service = json!({"kind": "Service", "name": "svc", "spec": {}, "references": referring(0)});
    let service = app.create("/services", &service).await;
    let patch = json!({"spec": {"a": {"b": 1}}, "labels": {"team.example.com/owner": "anna"}, "references": referring(1)});
    app.merge(&service, &patch).await;

    let items = timeline(app, href(&service)).await;
    assert_eq!(actions(&items), ["references_changed", "labels_changed", "spec_changed", "created"]);
    assert!(items[..3].iter().all(|item| item["version"] == items[0]["version"]), "{items:#?}");
    let changes: Vec<_> = items[..3].iter().map(|item| item["changes"].clone()).collect();
    assert_eq!(
        changes,
        [
            json!([{"path": "references.networks", "from": [id(&networks[0])], "to": [id(&networks[1])]}]),
            json!([{"path": "labels['team.example.com/owner']", "to": "anna"}]),
            json!([{"path": "spec.a", "to": {"b": 1}}]),
        ]
    );
}

async fn a_report_is_an_entry_with_its_transitions_and_a_repeated_one_is_none(app: &App) {
    let cluster = app.create_cluster("told").await;
    app.report(&cluster, &report("validator", 1, "True", &at(1))).await.expect_status(201);
    app.report(&cluster, &report("dns", 1, "True", &at(2)))
        .header("x-request-id", "it-was-dns")
        .await
        .expect_status(201);
    app.report(&cluster, &report("dns", 1, "True", &at(3))).await.expect_status(201);

    let items = timeline(app, href(&cluster)).await;
    let flipped = ["condition_changed", "condition_changed", "report_changed"];
    assert_eq!(actions(&items), [&flipped[..], &["report_changed", "created"]].concat());
    assert!(items[..3].iter().all(|item| item["adapter"] == "dns" && item["request_id"] == "it-was-dns"));
    let flip =
        |kind: &str| json!([{"path": format!("status.conditions.{kind}"), "from": "False", "to": "True"}]);
    for (item, kind) in items.iter().zip(["LastKnownReconciled", "Reconciled"]) {
        assert_eq!((&item["condition"], &item["changes"]), (&json!(kind), &flip(kind)));
    }
    let changes = items[2]["changes"].as_array().unwrap();
    assert_eq!(changes[0], json!({"path": "observed_generation", "to": 1}));
    assert!(
        changes.contains(&json!({"path": "conditions.Available", "to": {"status": "True"}})),
        "{changes:?}"
    );
    assert_eq!((&items[3]["adapter"], items[4].get("adapter")), (&json!("validator"), None));
}

async fn a_deletion_is_recorded_step_by_step(app: &App) {
    let cluster = app.create_cluster("going").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&cluster).await;
    assert_eq!(actions(&timeline(app, href(&pool)).await), ["deletion_requested", "created"]);
    app.report(&pool, &finalized("validator", 2, &at(1))).await.expect_status(201);
    for (second, adapter) in [(2, "validator"), (3, "dns")] {
        app.report(&cluster, &finalized(adapter, 2, &at(second))).await.expect_status(201);
    }
    for resource in [&cluster, &pool] {
        app.get(href(resource)).await.expect_status(404);
        let items = timeline(app, href(resource)).await;
        let told = actions(&items);
        assert_eq!((told[0], told.last()), ("deleted", Some(&"created")), "{told:?}");
        assert!(told.contains(&"deletion_requested") && told.contains(&"report_changed"), "{told:?}");
        assert_eq!(items[0]["version"], items[1]["version"], "the report was the last step");
    }
}

async fn refused_dry_and_empty_changes_are_not_in_the_timeline(app: &App) {
    let cluster = app.create_cluster("still").await;
    let path = href(&cluster);
    app.patch(&format!("{path}?dryRun=true")).json(&json!({"spec": {"a": 1}})).await.expect_status(200);
    app.patch(path).json(&json!({"spec": {}})).await.expect_status(200);
    app.patch(path).header("if-match", "\"0\"").json(&json!({"spec": {"a": 1}})).await.expect_status(409);
    app.post(&format!("{path}/force-delete")).json(&json!({"reason": "no"})).await.expect_status(409);
    app.report(&cluster, &report("dns", 7, "True", &at(1))).await.expect_status(204);
    assert_eq!(actions(&timeline(app, path).await), ["created"]);
}

async fn every_path_to_a_resource_has_its_timeline_and_no_other_does(app: &App) {
    let mut racks = Vec::new();
    for zone in ["east", "west"] {
        let zone = app.create_named("/zones", "Zone", zone).await;
        racks.push((app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await, zone));
    }
    let (rack, zone) = &racks[0];
    let host = app.create_named(&format!("{}/hosts", href(rack)), "Host", "host").await;
    let (rack, zone, host) = (id(rack), id(zone), id(&host));
    let other = id(&racks[1].1);
    let expected = timeline(app, &format!("/hosts/{host}")).await;
    for path in [
        format!("/resources/{host}"),
        format!("/racks/{rack}/hosts/{host}"),
        format!("/zones/{zone}/racks/{rack}/hosts/{host}"),
    ] {
        assert_eq!(timeline(app, &path).await, expected);
        app.get(&format!("{path}/timeline/")).await.expect_status(200);
        app.head(&format!("{path}/timeline")).await.expect_status(200);
        app.post(&format!("{path}/timeline")).json(&json!({})).await.expect_status(405);
    }
    for path in [
        format!("/racks/{host}"),
        format!("/zones/{other}/racks/{rack}/hosts/{host}"),
        format!("/zones/{zone}/racks/{other}/hosts/{host}"),
        format!("/zones/{UNKNOWN_ID}/racks/{rack}/hosts/{host}"),
        format!("/hosts/{UNKNOWN_ID}"),
        "/hosts/no-id".to_owned(),
        format!("/hosts/{}", host.to_uppercase()),
    ] {
        for end in ["/timeline", "/diff", "?generation=1"] {
            assert_refused(&app.get(&format!("{path}{end}")).await, 404, "NTF-001");
        }
    }
}

async fn a_parameter_that_a_timeline_does_not_have_is_refused(app: &App) {
    let network = app.create_named("/networks", "Network", "net").await;
    let path = format!("{}/timeline", href(&network));
    for parameter in
        ["search=name='x'", "orderBy=time", "order=asc", "fields=time", "showDeleted=true", "watch=true"]
    {
        assert_refused(&app.get(&format!("{path}?{parameter}")).await, 400, "VAL-004");
    }
    let several =
        app.get(&format!("{path}?page=0&pageSize=501&size=7&total=some&pageToken=x&actor=me")).await;
    assert_refused(&several, 400, "VAL-000");
    insta::assert_snapshot!(faults(&several), @r"
    page: page must be a whole number of at least 1, not '0'
    pageSize: pageSize must be a whole number from 1 to 500, not '501'
    total: total must be exact or none, not 'some'
    pageToken: pageToken must be the next_page_token of a page of this very list, unaltered
    actor: actor is not a parameter of this endpoint
    ");
    assert_refused(&app.get(&format!("{}/diff?from=0&to=x&page=1", href(&network))).await, 400, "VAL-000");
}
