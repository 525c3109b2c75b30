//! What a restart keeps: reports, conditions, and confirmed times.

use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(
    config = CATALOG;
    a_restart_changes_no_answer,
    a_crash_loses_no_answered_report,
    adapters_that_reported_before_a_restart_report_again_after_it_one_by_one,
    a_newer_generation_may_be_reported_on_with_an_older_time,
);

/// Two clusters and a host in different states, with times that confirmations moved.
async fn fleet(app: &App) -> Vec<Value> {
    let confirmed = app.create_cluster("confirmed").await;
    for second in [1, 2, 3] {
        for adapter in ["validator", "dns", "guest"] {
            let sent = with_reason(report(adapter, 1, "True", &at(second)), "Reason", "Message");
            let sent = with_members(
                sent,
                &json!({"data": {"n": 18_446_744_073_709_551_615_u64}, "metadata": {"m": null}}),
            );
            app.report(&confirmed, &sent).await.expect_status(201);
        }
    }
    let going = app.create_cluster("going").await;
    app.report(&going, &report("dns", 1, "Unknown", &at(1))).await.expect_status(201);
    app.remove(&going).await;
    for second in [4, 5] {
        app.report(&going, &finalized("validator", 2, &at(second))).await.expect_status(201);
    }
    vec![confirmed, going]
}

async fn everything(app: &App, fleet: &[Value]) -> Value {
    let mut all = vec![app.get("/resources?showDeleted=true&orderBy=name").await.expect_status(200).json()];
    for resource in fleet {
        let read = app.get(href(resource)).await.expect_status(200);
        all.push(json!(etag(&read)));
        all.push(read.json());
        all.push(app.get(&format!("{}/statuses", href(resource))).await.expect_status(200).json());
    }
    all.into()
}

async fn a_restart_changes_no_answer(app: &mut App) {
    let fleet = fleet(app).await;
    let before = everything(app, &fleet).await;
    let confirmed = app.read(&fleet[0]).await;
    assert_eq!(condition_times(&confirmed, "Reconciled")[1..], [at(3), at(1)]);
    for _ in 0..2 {
        app.restart().await;
        assert_eq!(everything(app, &fleet).await, before);
    }
    // The next report goes on from there: nothing but its own time moves.
    let tag = app.etag(&fleet[0]).await;
    let sent = app.reports(&fleet[0]).await[0].clone();
    assert_eq!(sent["adapter"], "dns");
    let again = with_members(
        with_reason(report("dns", 1, "True", &at(9)), "Reason", "Message"),
        &json!({"data": sent["data"], "metadata": sent["metadata"]}),
    );
    let kept = app.report(&fleet[0], &again).await.expect_status(201).json();
    assert_eq!((&kept["created_time"], &kept["last_report_time"]), (&json!(at(1)), &json!(at(9))));
    assert_eq!(app.etag(&fleet[0]).await, tag);
    app.report(&fleet[0], &report("dns", 1, "False", &at(8))).await.expect_status(204);
    // And the deletion too.
    app.report(&fleet[1], &finalized("dns", 2, &at(6))).await.expect_status(201);
    app.get(href(&fleet[1])).await.expect_status(404);
}

async fn a_crash_loses_no_answered_report(app: &mut App) {
    let fleet = fleet(app).await;
    let before = everything(app, &fleet).await;
    app.server.kill9();
    app.restart().await;
    assert_eq!(everything(app, &fleet).await, before);
}

async fn a_newer_generation_may_be_reported_on_with_an_older_time(app: &mut App) {
    let cluster = app.create_cluster("slow-clock").await;
    for second in [1, 9] {
        for adapter in ["validator", "dns"] {
            app.report(&cluster, &report(adapter, 1, "True", &at(second))).await.expect_status(201);
        }
    }
    app.patch(href(&cluster)).json(&json!({"spec": {"nodes": 7}})).await.expect_status(200);
    app.report(&cluster, &report("dns", 2, "True", &at(5))).await.expect_status(201);
    for _ in 0..2 {
        let reports = app.reports(&cluster).await;
        assert_eq!(reports[0]["last_report_time"], at(5), "{reports}");
        assert_eq!(reports[1]["last_report_time"], at(9), "{reports}");
        app.restart().await;
    }
    app.report(&cluster, &report("dns", 2, "True", &at(4))).await.expect_status(204);
    app.report(&cluster, &report("dns", 2, "True", &at(6))).await.expect_status(201);
    assert_eq!(app.reports(&cluster).await[0]["last_report_time"], at(6));
}

/// What one adapter's report brings back to mind must not hide what another one said before.
async fn adapters_that_reported_before_a_restart_report_again_after_it_one_by_one(app: &mut App) {
    let cluster = app.create_cluster("again").await;
    for adapter in ["validator", "dns", "guest"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(1))).await.expect_status(201);
    }
    app.restart().await;
    for (second, adapter) in (2..).zip(["validator", "dns", "guest", "validator", "guest"]) {
        let sent = report(adapter, 1, "True", &at(second));
        let kept = app.report(&cluster, &sent).await.expect_status(201).json();
        assert_eq!(kept["created_time"], at(1), "{kept}");
    }
    assert_eq!(app.reports(&cluster).await.as_array().map(Vec::len), Some(3));
    assert_eq!(condition_times(&app.read(&cluster).await, "Reconciled")[1], at(3));
}
