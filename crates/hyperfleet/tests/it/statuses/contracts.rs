//! `compatibility.contract: go-0.2`, point by point, each beside the answer of the documented contract.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

/// The kinds of [`CATALOG`] by the contract of the Go implementation.
fn go() -> String {
    format!("{CATALOG}\ncompatibility: {{contract: go-0.2}}\n")
}

both_stores!(
    config = &go();
    go_lists_include_finalizing_resources,
    go_patches_replace_whole,
    go_labels_are_a_new_generation,
    go_paths_of_children_nest_below_their_owners,
    go_reports_may_be_half_an_hour_old_and_no_more,
    go_lists_do_not_name_their_kind,
    go_ignores_unknown_parameters,
    go_ignores_unknown_members,
    go_pages_have_a_size_of_at_most_a_hundred,
);
both_stores!(
    config = CATALOG;
    documented_lists_leave_finalizing_resources_out,
    documented_patches_merge,
    documented_labels_are_no_new_generation,
    documented_paths_of_children_are_flat,
    documented_reports_may_be_of_any_age,
    documented_lists_name_their_kind,
    documented_unknown_parameters_are_refused,
    documented_unknown_members_are_refused,
    documented_pages_have_a_page_size_of_at_most_five_hundred,
);

/// A finalizing Cluster with a finalizing NodePool, and an active one of each; the active Cluster.
async fn half_going(app: &App) -> [Value; 2] {
    let going = app.create_cluster("going").await;
    app.create_nodepool(&going, "pool-1").await;
    app.remove(&going).await;
    let staying = app.create_cluster("staying").await;
    app.create_nodepool(&staying, "pool-2").await;
    [going, staying]
}

async fn listed(app: &App, path: &str) -> (Vec<String>, Value) {
    let total = app.get(path).await.expect_status(200).json()["total"].take();
    (app.names(path).await, total)
}

async fn go_lists_include_finalizing_resources(app: &App) {
    let [going, _] = half_going(app).await;
    let both = |one: &str, two: &str| (vec![one.to_owned(), two.to_owned()], json!(2));
    assert_eq!(listed(app, "/clusters?orderBy=name").await, both("going", "staying"));
    assert_eq!(listed(app, "/nodepools?orderBy=name").await, both("pool-1", "pool-2"));
    assert_eq!(listed(app, "/resources?kind=Cluster&orderBy=name").await, both("going", "staying"));
    let nested = format!("/clusters/{}/nodepools", id(&going));
    assert_eq!(listed(app, &nested).await, (vec!["pool-1".to_owned()], json!(1)));
}

async fn documented_lists_leave_finalizing_resources_out(app: &App) {
    let [going, _] = half_going(app).await;
    let one = |name: &str| (vec![name.to_owned()], json!(1));
    assert_eq!(listed(app, "/clusters?orderBy=name").await, one("staying"));
    assert_eq!(listed(app, "/nodepools?orderBy=name").await, one("pool-2"));
    assert_eq!(listed(app, "/resources?kind=Cluster&orderBy=name").await, one("staying"));
    let nested = format!("/clusters/{}/nodepools", id(&going));
    assert_eq!(listed(app, &nested).await, (vec![], json!(0)));
}

/// A Service with a spec, labels and references, after patches of a part of each: spec, labels, references.
async fn patched(app: &App) -> (Value, Value, usize) {
    let mut networks = Vec::new();
    for name in ["one", "two"] {
        networks.push(json!({"id": app.create_named("/networks", "Network", name).await["id"]}));
    }
    let peer = json!({"kind": "Service", "name": "peer", "spec": {}, "references": {"networks": networks}});
    let peer = app.create("/services", &peer).await;
    let service = json!({
        "kind": "Service", "name": "service",
        "spec": {"a": 1, "b": {"c": 2, "d": 3}},
        "labels": {"one": "1", "two": "2"},
        "references": {"networks": networks, "peers": [{"id": peer["id"]}]},
    });
    let service = app.create("/services", &service).await;
    let spec = app.merge(&service, &json!({"spec": {"b": {"c": 4}}})).await;
    assert_eq!((&spec["labels"], &spec["references"]), (&service["labels"], &service["references"]));
    let labels = app.merge(&service, &json!({"labels": {"two": "3"}})).await;
    assert_eq!(labels["spec"], spec["spec"]);
    let references = app.merge(&service, &json!({"references": {"networks": [networks[0]]}})).await;
    assert_eq!(app.read(&service).await, references);
    (spec["spec"].clone(), labels["labels"].clone(), references["references"].as_object().unwrap().len())
}

async fn go_patches_replace_whole(app: &App) {
    assert_eq!(patched(app).await, (json!({"b": {"c": 4}}), json!({"two": "3"}), 1));
    let cluster = app.create_cluster("nulls").await;
    let patched = app.merge(&cluster, &json!({"spec": {"a": null, "b": {"c": null}}})).await;
    assert_eq!(patched["spec"], json!({"a": null, "b": {"c": null}}));
    let same = app.merge(&cluster, &json!({"spec": {"b": {"c": null}, "a": null}})).await;
    assert_eq!(same, patched, "a patch that changes nothing changes nothing");
    assert_eq!(app.merge(&cluster, &json!({"spec": {}})).await["spec"], json!({}));
}

async fn documented_patches_merge(app: &App) {
    assert_eq!(
        patched(app).await,
        (json!({"a": 1, "b": {"c": 4, "d": 3}}), json!({"one": "1", "two": "3"}), 2)
    );
    let cluster = app.create_cluster("nulls").await;
    let patched = app.merge(&cluster, &json!({"spec": {"a": null, "b": {"c": null}}})).await;
    assert_eq!(patched["spec"], json!({"b": {}}));
    assert_eq!(app.merge(&cluster, &json!({"spec": {}})).await["spec"], json!({"b": {}}));
}

async fn labelled(app: &App) -> Value {
    let cluster = app.create_cluster("labelled").await;
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &report(adapter, 1, "True", &in_seconds(-1))).await.expect_status(201);
    }
    app.merge(&cluster, &json!({"labels": {"a": "b"}})).await
}

async fn go_labels_are_a_new_generation(app: &App) {
    let cluster = labelled(app).await;
    assert_eq!(cluster["generation"], 2);
    assert_eq!(condition_states(&cluster)[..2], ["Reconciled=False", "LastKnownReconciled=True"]);
    let same = app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    assert_eq!(same, cluster);
}

async fn documented_labels_are_no_new_generation(app: &App) {
    let cluster = labelled(app).await;
    assert_eq!(cluster["generation"], 1);
    assert_eq!(condition_states(&cluster)[..2], ["Reconciled=True", "LastKnownReconciled=True"]);
}

/// A Zone, a Rack below it and a Host below that, as they were created; `Location` is their path.
async fn line(app: &App) -> [Value; 3] {
    let mut made: Vec<Value> = Vec::new();
    for (kind, plural) in [("Zone", "zones"), ("Rack", "racks"), ("Host", "hosts")] {
        let path =
            made.last().map_or_else(|| format!("/{plural}"), |owner| format!("{}/{plural}", href(owner)));
        let body = json!({"kind": kind, "name": "line", "spec": {}});
        let answer = app.post(&path).json(&body).await.expect_status(201);
        assert_eq!(answer.header("location"), Some(href(&answer.json())));
        made.push(answer.json());
    }
    for resource in &made {
        assert_eq!(app.read(resource).await, *resource);
        assert_eq!(app.get(&format!("/resources/{}", id(resource))).await.json(), *resource);
        let listed = app.get(&format!("/resources?kind={}", text(&resource["kind"]))).await.json();
        assert_eq!(listed["items"], json!([resource]));
    }
    made.try_into().unwrap()
}

async fn go_paths_of_children_nest_below_their_owners(app: &App) {
    let [zone, rack, host] = line(app).await;
    let zone_path = format!("{BASE}/zones/{}", id(&zone));
    let rack_path = format!("{zone_path}/racks/{}", id(&rack));
    assert_eq!(href(&zone), zone_path);
    assert_eq!(href(&rack), rack_path);
    assert_eq!(href(&host), format!("{rack_path}/hosts/{}", id(&host)));
    assert_eq!(rack["owner_references"], json!({"kind": "Zone", "id": zone["id"], "href": zone_path}));
    assert_eq!(host["owner_references"], json!({"kind": "Rack", "id": rack["id"], "href": rack_path}));
    app.report(&host, &report("imager", 1, "True", &in_seconds(-1))).await.expect_status(201);
    assert_eq!(condition_states(&app.read(&host).await)[0], "Reconciled=True");
    // The flat paths work as well.
    app.get(&format!("/hosts/{}", id(&host))).await.expect_status(200);
}

async fn documented_paths_of_children_are_flat(app: &App) {
    let [zone, rack, host] = line(app).await;
    let rack_path = format!("{BASE}/racks/{}", id(&rack));
    assert_eq!(href(&rack), rack_path);
    assert_eq!(href(&host), format!("{BASE}/hosts/{}", id(&host)));
    assert_eq!(rack["owner_references"]["href"], format!("{BASE}/zones/{}", id(&zone)));
    assert_eq!(host["owner_references"]["href"], rack_path);
}

async fn go_reports_may_be_half_an_hour_old_and_no_more(app: &App) {
    let cluster = app.create_cluster("old").await;
    for old in [at(0), in_seconds(-31 * 60), "0001-01-01T00:00:00Z".to_owned()] {
        let answer = app.report(&cluster, &report("dns", 1, "True", &old)).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
        assert_eq!(answer.json()["errors"][0]["field"], "observed_time");
    }
    let answer = app.report(&cluster, &report("dns", 1, "True", &at(0))).await;
    assert_snapshot!(faults(&answer), @"observed_time: observed_time [time 1] is more than 30 minutes before the server's time [time 2]");
    assert_eq!(app.reports(&cluster).await, json!([]));
    app.report(&cluster, &report("dns", 1, "True", &in_seconds(-29 * 60))).await.expect_status(201);
    app.report(&cluster, &report("dns", 1, "True", &in_seconds(360))).await.expect_status(400);
}

async fn documented_reports_may_be_of_any_age(app: &App) {
    let cluster = app.create_cluster("old").await;
    for old in ["0001-01-01T00:00:00Z".to_owned(), at(0), in_seconds(-31 * 60)] {
        app.report(&cluster, &report("dns", 1, "True", &old)).await.expect_status(201);
    }
}

/// The members of each list there is.
async fn members_of_lists(app: &App) -> Vec<Vec<String>> {
    let cluster = app.create_cluster("listed").await;
    app.report(&cluster, &report("dns", 1, "True", &in_seconds(-1))).await.expect_status(201);
    let mut found = Vec::new();
    for path in ["/clusters", "/resources", "/clusters?page=9", &format!("{}/nodepools", href(&cluster))] {
        let mut list = app.get(path).await.expect_status(200).json();
        // Lists that can be watched name where a watch begins.
        assert!(list.as_object_mut().unwrap().remove("position").is_some(), "{path}");
        found.push(list);
    }
    found.push(app.get(&format!("{}/statuses", href(&cluster))).await.expect_status(200).json());
    found.iter().map(|list| list.as_object().unwrap().keys().cloned().collect()).collect()
}

async fn go_lists_do_not_name_their_kind(app: &App) {
    for members in members_of_lists(app).await {
        assert_eq!(members, ["page", "size", "total", "items", "version"]);
    }
    let item = app.get("/clusters").await.json()["items"][0].clone();
    assert_eq!(item["kind"], "Cluster", "the resources in them do");
}

async fn documented_lists_name_their_kind(app: &App) {
    for members in members_of_lists(app).await {
        assert_eq!(members, ["kind", "page", "size", "total", "items", "version"]);
    }
}

/// Requests with an unknown parameter: method, path, body, the answer without the parameter.
fn strange_requests(cluster: &Value) -> Vec<(&'static str, String, Value, u16)> {
    let (one, statuses) = (href(cluster).to_owned(), format!("{}/statuses", href(cluster)));
    vec![
        ("GET", "/clusters?colour=red".to_owned(), Value::Null, 200),
        ("GET", "/resources?colour=red&kind=Cluster".to_owned(), Value::Null, 200),
        ("GET", format!("{one}?colour=red"), Value::Null, 200),
        ("GET", format!("{one}/nodepools?colour=red"), Value::Null, 200),
        ("GET", format!("{statuses}?colour=red&orderBy=adapter"), Value::Null, 200),
        (
            "POST",
            "/networks?colour=red".to_owned(),
            json!({"kind": "Network", "name": "new", "spec": {}}),
            201,
        ),
        ("PUT", format!("{statuses}?colour=red"), report("dns", 1, "True", &in_seconds(-1)), 201),
        ("PATCH", format!("{one}?dryrun=true"), json!({"labels": {"a": "b"}}), 200),
        ("DELETE", format!("{one}?dryrun=true"), Value::Null, 202),
        ("POST", format!("{one}/force-delete?colour=red"), json!({"reason": "test"}), 204),
    ]
}

async fn ask(app: &App, method: &str, path: &str, body: &Value) -> hyperfleet_testkit::Answer {
    let call = app.call(method, path);
    if body.is_null() { call.await } else { call.json(body).await }
}

async fn go_ignores_unknown_parameters(app: &App) {
    let cluster = app.create_cluster("strange").await;
    for (method, path, body, status) in strange_requests(&cluster) {
        ask(app, method, &path, &body).await.expect_status(status);
    }
    app.get(href(&cluster)).await.expect_status(404);
    for known in ["/clusters?page=0", "/clusters?showDeleted=yes", "/clusters?fields=nothing"] {
        app.get(known).await.expect_status(400);
    }
}

async fn documented_unknown_parameters_are_refused(app: &App) {
    let cluster = app.create_cluster("strange").await;
    for (method, path, body, _) in strange_requests(&cluster) {
        ask(app, method, &path, &body).await.expect_status(400);
    }
    assert_eq!(app.read(&cluster).await, cluster);
}

fn strange_members() -> Value {
    json!({"kind": "Cluster", "name": "members", "spec": {}, "colour": "red", "$schema": {"a": ["\u{0}"]}})
}

async fn go_ignores_unknown_members(app: &App) {
    let made = app.create("/clusters", &strange_members()).await;
    assert_eq!((made.get("colour"), made.get("$schema")), (None, None));
    let missing = json!({"kind": "Cluster", "spec": {}, "colour": "red"});
    let answer = app.post("/clusters").json(&missing).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-001");
}

async fn documented_unknown_members_are_refused(app: &App) {
    let answer = app.post("/clusters").json(&strange_members()).await.expect_status(400);
    let fields: Vec<_> =
        answer.json()["errors"].as_array().unwrap().iter().map(|f| f["field"].clone()).collect();
    assert_eq!(fields, ["colour", "$schema"]);
    assert_eq!(app.names("/clusters").await, [""; 0]);
}

/// How many are on a page of clusters and on one of reports, or the status of the refusal.
async fn sizes(app: &App, cluster: &Value, query: &str) -> [u64; 2] {
    let mut sizes = [0; 2];
    for (size, path) in sizes.iter_mut().zip(["/clusters".to_owned(), format!("{}/statuses", href(cluster))])
    {
        let answer = app.get(&format!("{path}?{query}")).await;
        *size =
            if answer.status == 200 { answer.json()["size"].as_u64().unwrap() } else { answer.status.into() };
    }
    sizes
}

/// Three clusters, and three reports on one of them.
async fn threes(app: &App) -> Value {
    let mut last = Value::Null;
    for name in ["one", "two", "three"] {
        last = app.create_cluster(name).await;
    }
    for adapter in ["one", "two", "three"] {
        app.report(&last, &report(adapter, 1, "True", &in_seconds(-1))).await.expect_status(201);
    }
    last
}

async fn go_pages_have_a_size_of_at_most_a_hundred(app: &App) {
    let cluster = threes(app).await;
    for (query, size) in [
        ("size=2", 2),
        ("size=100", 3),
        ("size=101", 400),
        ("size=0", 400),
        ("pageSize=2", 3),
        ("pageSize=501", 3),
        ("pageSize=none", 3),
        ("pageSize=1&size=2", 2),
    ] {
        assert_eq!(sizes(app, &cluster, query).await, [size; 2], "{query}");
    }
}

async fn documented_pages_have_a_page_size_of_at_most_five_hundred(app: &App) {
    let cluster = threes(app).await;
    for (query, size) in [
        ("size=2", 2),
        ("size=101", 3),
        ("size=500", 3),
        ("size=501", 400),
        ("pageSize=2", 2),
        ("pageSize=501", 400),
        ("pageSize=none", 400),
        ("pageSize=1&size=2", 400),
    ] {
        assert_eq!(sizes(app, &cluster, query).await, [size; 2], "{query}");
    }
}
