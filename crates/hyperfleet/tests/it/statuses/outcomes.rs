//! The outcome of a report, row by row of the table: stored or discarded, and what is read afterwards. A discarded
//! report leaves no trace.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(
    a_report_on_a_missing_resource_is_not_found,
    a_report_is_accepted_and_read_on_every_path_by_put_and_post,
);
both_stores!(
    config = CATALOG;
    a_report_from_the_future_is_discarded,
    a_report_on_an_older_generation_than_the_adapters_last_is_discarded,
    a_report_older_than_the_adapters_last_is_discarded,
    of_two_reports_of_the_same_time_the_later_arrival_wins,
    a_report_on_a_new_generation_may_be_of_an_earlier_time,
    a_report_without_the_mandatory_conditions_is_refused_naming_them,
    the_conditions_of_a_discarded_report_are_not_checked,
    a_later_unknown_report_is_discarded,
    a_first_unknown_report_is_stored_without_effect,
    finalized_has_no_effect_on_an_active_resource,
    finalized_counts_whatever_available_says,
    a_path_must_name_the_right_owners,
);

/// Everything that a report could change.
async fn world(app: &App, resource: &Value) -> (String, Value, Value) {
    let list = app.get(&format!("{}/statuses", href(resource))).await.expect_status(200).json();
    (app.etag(resource).await, app.read(resource).await, list)
}

async fn discarded(app: &App, resource: &Value, report: &Value) {
    let before = world(app, resource).await;
    for method in ["PUT", "POST"] {
        let path = format!("{}/statuses", href(resource));
        let answer = app.call(method, &path).json(report).await.expect_status(204);
        assert!(answer.body.is_empty());
        assert_eq!(world(app, resource).await, before, "{report}");
    }
}

async fn a_report_on_a_missing_resource_is_not_found(app: &App) {
    let cluster = app.create_cluster("there").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let stranger = "01890000-0000-7000-8000-000000000000";
    let sent = report("validator", 1, "True", &at(0));
    for (path, code, detail) in [
        (format!("/clusters/{stranger}"), "NTF-002", format!("Cluster '{stranger}' not found")),
        ("/clusters/absent".to_owned(), "NTF-002", "Cluster 'absent' not found".to_owned()),
        (format!("/clusters/{}", id(&pool)), "NTF-002", format!("Cluster '{}' not found", id(&pool))),
        (format!("/nodepools/{}", id(&cluster)), "NTF-003", format!("NodePool '{}' not found", id(&cluster))),
        (format!("/resources/{stranger}"), "NTF-001", format!("Resource '{stranger}' not found")),
        (
            format!("/clusters/{stranger}/nodepools/{}", id(&pool)),
            "NTF-002",
            format!("Cluster '{stranger}' not found"),
        ),
        (
            format!("/clusters/{}/nodepools/{stranger}", id(&cluster)),
            "NTF-003",
            format!("NodePool '{stranger}' not found"),
        ),
    ] {
        for method in ["GET", "PUT", "POST"] {
            let call = app.call(method, &format!("{path}/statuses"));
            let call = if method == "GET" { call } else { call.json(&sent) };
            let answer = call.await.expect_status(404);
            assert_eq!(answer.problem_code(), format!("HYPERFLEET-{code}"), "{method} {path}");
            assert_eq!(answer.json()["detail"], detail, "{method} {path}");
        }
    }
    for untouched in [&cluster, &pool] {
        assert_eq!(app.read(untouched).await, *untouched);
        assert_eq!(app.reports(untouched).await, json!([]));
    }
}

async fn a_path_must_name_the_right_owners(app: &App) {
    let mut hosts = Vec::new();
    for name in ["one", "two"] {
        let zone = app.create_named("/zones", "Zone", name).await;
        let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", name).await;
        let host = app.create_named(&format!("{}/hosts", href(&rack)), "Host", name).await;
        hosts.push([zone, rack, host]);
    }
    let [[zone, rack, host], [other_zone, other_rack, _]] = <[[Value; 3]; 2]>::try_from(hosts).unwrap();
    let (zone, rack, host) = (id(&zone), id(&rack), id(&host));
    let (other_zone, other_rack) = (id(&other_zone), id(&other_rack));
    for (path, status) in [
        (format!("/zones/{zone}/racks/{rack}/hosts/{host}"), 201),
        (format!("/racks/{rack}/hosts/{host}"), 201),
        (format!("/hosts/{host}"), 201),
        (format!("/resources/{host}"), 201),
        (format!("/racks/{other_rack}/hosts/{host}"), 404),
        (format!("/zones/{other_zone}/racks/{rack}/hosts/{host}"), 404),
        (format!("/zones/{zone}/racks/{other_rack}/hosts/{host}"), 404),
        (format!("/zones/{other_zone}/racks/{other_rack}/hosts/{host}"), 404),
        (format!("/racks/{zone}/hosts/{host}"), 404),
    ] {
        let path = format!("{path}/statuses");
        app.put(&path).json(&report("imager", 1, "True", &at(0))).await.expect_status(status);
        app.get(&path).await.expect_status(if status == 201 { 200 } else { 404 });
    }
}

async fn a_report_is_accepted_and_read_on_every_path_by_put_and_post(app: &App) {
    let cluster = app.create_cluster("owner").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let (cluster_id, pool_id) = (id(&cluster), id(&pool));
    let paths = [
        format!("/nodepools/{pool_id}/statuses"),
        format!("/clusters/{cluster_id}/nodepools/{pool_id}/statuses"),
        format!("/resources/{pool_id}/statuses"),
        format!("/nodepools/{pool_id}/statuses/"),
        format!("/clusters/{cluster_id}/nodepools/{pool_id}/statuses/"),
        format!("/resources/{pool_id}/statuses/"),
    ];
    let mut second = 0;
    for path in &paths {
        for method in ["PUT", "POST"] {
            second += 1;
            let sent = report("validator", 1, ["True", "False"][second as usize % 2], &at(second));
            let kept = app.call(method, path).json(&sent).await.expect_status(201).json();
            assert_eq!(kept["last_report_time"], at(second));
            for path in &paths {
                assert_eq!(app.get(path).await.expect_status(200).json()["items"], json!([kept]), "{path}");
            }
        }
    }
    assert_eq!(app.read(&cluster).await, cluster, "a report on a child says nothing of its owner");
}

async fn a_report_from_the_future_is_discarded(app: &App) {
    let cluster = app.create_cluster("future").await;
    discarded(app, &cluster, &report("validator", 2, "True", &at(0))).await;
    app.report(&cluster, &report("validator", 1, "True", &at(0))).await.expect_status(201);
    for generation in [2, 3, i64::MAX as u64, u64::MAX] {
        discarded(app, &cluster, &report("validator", generation, "False", &at(9))).await;
    }
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    app.report(&cluster, &report("validator", 2, "False", &at(9))).await.expect_status(201);
}

async fn a_report_on_an_older_generation_than_the_adapters_last_is_discarded(app: &App) {
    let cluster = app.create_cluster("older").await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    app.merge(&cluster, &json!({"spec": {"a": 2}})).await;
    app.report(&cluster, &report("validator", 2, "True", &at(0))).await.expect_status(201);
    discarded(app, &cluster, &report("validator", 1, "False", &at(9))).await;
    // Another adapter may well be behind.
    app.report(&cluster, &report("dns", 1, "True", &at(9))).await.expect_status(201);
    app.report(&cluster, &report("validator", 2, "False", &at(9))).await.expect_status(201);
    app.report(&cluster, &report("validator", 3, "True", &at(9))).await.expect_status(201);
    discarded(app, &cluster, &report("validator", 2, "True", &at(10))).await;
}

async fn a_report_older_than_the_adapters_last_is_discarded(app: &App) {
    let cluster = app.create_cluster("earlier").await;
    app.report(&cluster, &report("validator", 1, "True", &at(5))).await.expect_status(201);
    discarded(app, &cluster, &report("validator", 1, "False", &at(4))).await;
    discarded(app, &cluster, &report("validator", 1, "False", "2026-01-01T10:00:04.999999Z")).await;
    app.report(&cluster, &report("dns", 1, "True", &at(4))).await.expect_status(201);
}

async fn of_two_reports_of_the_same_time_the_later_arrival_wins(app: &App) {
    let cluster = app.create_cluster("equal").await;
    for available in ["True", "False", "True", "True", "False"] {
        let kept = app.report(&cluster, &report("validator", 1, available, &at(5))).await.expect_status(201);
        assert_eq!(kept.json()["conditions"][0]["status"], available);
        assert_eq!(app.reports(&cluster).await, json!([kept.json()]));
        assert_eq!(condition(&app.read(&cluster).await, "ValidatorSuccessful")["status"], available);
    }
}

async fn a_report_on_a_new_generation_may_be_of_an_earlier_time(app: &App) {
    let cluster = app.create_cluster("back").await;
    app.report(&cluster, &report("validator", 1, "True", &at(9))).await.expect_status(201);
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let kept = app.report(&cluster, &report("validator", 2, "True", &at(1))).await.expect_status(201).json();
    assert_eq!((&kept["created_time"], &kept["last_report_time"]), (&json!(at(9)), &json!(at(1))));
}

async fn a_report_without_the_mandatory_conditions_is_refused_naming_them(app: &App) {
    let cluster = app.create_cluster("mandatory").await;
    let before = world(app, &cluster).await;
    let sent = with_members(
        report("validator", 1, "True", &at(0)),
        &json!({"conditions": [{"type": "Applied", "status": "True"}, {"type": "health", "status": "True"}]}),
    );
    assert_snapshot!(transcript(&app.report(&cluster, &sent).await), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "conditions must hold Available, Applied, Health; missing: Available, Health",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]/statuses",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "conditions",
          "message": "conditions must hold Available, Applied, Health; missing: Available, Health",
          "constraint": "required",
          "allowed_values": [
            "Available",
            "Applied",
            "Health"
          ]
        }
      ]
    }
    "#);
    let all = ["Available", "Applied", "Health"];
    for given in
        [vec![], vec!["Available"], vec!["Health", "Applied"], vec!["Available", "Applied", "Finalized"]]
    {
        let conditions: Vec<_> =
            given.iter().map(|kind| json!({"type": kind, "status": "Unknown"})).collect();
        let sent = with_members(report("validator", 1, "True", &at(0)), &json!({"conditions": conditions}));
        let answer = app.report(&cluster, &sent).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
        let missing: Vec<_> = all.into_iter().filter(|kind| !given.contains(kind)).collect();
        let expected = format!(
            "conditions: conditions must hold Available, Applied, Health; missing: {}",
            missing.join(", ")
        );
        assert_eq!(faults(&answer), expected);
    }
    assert_eq!(world(app, &cluster).await, before);
}

async fn the_conditions_of_a_discarded_report_are_not_checked(app: &App) {
    let cluster = app.create_cluster("order").await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    app.report(&cluster, &report("validator", 2, "True", &at(5))).await.expect_status(201);
    for (generation, second) in [(3, 9), (1, 9), (2, 4)] {
        let lacking =
            with_members(report("validator", generation, "True", &at(second)), &json!({"conditions": []}));
        discarded(app, &cluster, &lacking).await;
    }
    let lacking = with_members(report("validator", 2, "True", &at(5)), &json!({"conditions": []}));
    app.report(&cluster, &lacking).await.expect_status(400);
}

async fn a_later_unknown_report_is_discarded(app: &App) {
    let cluster = app.create_cluster("unknown").await;
    app.report(&cluster, &report("validator", 1, "True", &at(0))).await.expect_status(201);
    discarded(app, &cluster, &report("validator", 1, "Unknown", &at(9))).await;
    let said = with_members(report("validator", 1, "Unknown", &at(9)), &json!({"data": {"new": true}}));
    discarded(app, &cluster, &with_condition(said, "Finalized", "True")).await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    discarded(app, &cluster, &report("validator", 2, "Unknown", &at(9))).await;

    app.remove(&cluster).await;
    discarded(app, &cluster, &report("validator", 3, "Unknown", &at(9))).await;
    discarded(
        app,
        &cluster,
        &with_condition(report("validator", 3, "Unknown", &at(9)), "Finalized", "False"),
    )
    .await;
    discarded(
        app,
        &cluster,
        &with_condition(report("validator", 3, "Unknown", &at(9)), "Finalized", "Unknown"),
    )
    .await;
}

async fn a_first_unknown_report_is_stored_without_effect(app: &App) {
    let cluster = app.create_cluster("first").await;
    let tag = app.etag(&cluster).await;
    app.report(&cluster, &report("dns", 1, "True", &at(0))).await.expect_status(201);
    let before = app.read(&cluster).await;
    let unknown = with_reason(report("validator", 1, "Unknown", &at(1)), "Starting", "Wait for it");
    let kept = app.report(&cluster, &unknown).await.expect_status(201).json();
    assert_eq!(app.reports(&cluster).await[1], kept);
    assert_eq!(app.read(&cluster).await, before, "it is not aggregated");
    assert_ne!(app.etag(&cluster).await, tag, "but something new is known");
    discarded(app, &cluster, &report("validator", 1, "Unknown", &at(2))).await;

    // What is computed for another reason does not count it either.
    app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    assert_eq!(
        condition_states(&app.read(&cluster).await),
        ["Reconciled=False", "LastKnownReconciled=False", "DnsSuccessful=True"]
    );
    let kept = app.report(&cluster, &report("validator", 1, "True", &at(3))).await.expect_status(201).json();
    assert_eq!(kept["created_time"], at(1));
    assert_eq!(
        condition_states(&app.read(&cluster).await),
        ["Reconciled=True", "LastKnownReconciled=True", "ValidatorSuccessful=True", "DnsSuccessful=True"]
    );
}

async fn finalized_has_no_effect_on_an_active_resource(app: &App) {
    let cluster = app.create_cluster("active").await;
    for (second, adapter) in ["validator", "dns"].into_iter().enumerate() {
        let sent = finalized(adapter, 1, &at(second as u32));
        app.report(&cluster, &sent).await.expect_status(201);
    }
    let now = app.read(&cluster).await;
    assert_eq!(condition_summary(&now, "Reconciled").1, "ReconciledNotAvailable");
    assert_eq!(now.get("deleted_time"), None);
    discarded(app, &cluster, &with_condition(report("dns", 1, "Unknown", &at(9)), "Finalized", "True")).await;
}

async fn finalized_counts_whatever_available_says(app: &App) {
    for available in ["True", "False", "Unknown"] {
        for known in [false, true] {
            let cluster = app.create_cluster(&unique("going")).await;
            if known {
                app.report(&cluster, &report("dns", 1, "True", &at(0))).await.expect_status(201);
            }
            app.remove(&cluster).await;
            let sent = with_condition(report("dns", 2, available, &at(1)), "Finalized", "True");
            let kept = app.report(&cluster, &sent).await.expect_status(201).json();
            assert_eq!(app.reports(&cluster).await, json!([kept]));
            let now = app.read(&cluster).await;
            assert_eq!(
                condition_summary(&now, "Reconciled").2,
                "Required adapters not reporting Finalized=True at generation 2: validator"
            );
            let shown = if available == "True" { "True" } else { "False" };
            assert_eq!(condition(&now, "DnsSuccessful")["status"], shown, "{available}");
            assert_eq!(condition_times(&now, "Reconciled")[1], at(1));
        }
    }
}
