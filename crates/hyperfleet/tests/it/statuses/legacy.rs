//! `compatibility.legacy_conditions`: `Available` and `Ready` beside the others, by the tables of the first API
//! revision.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

const LEGACY: &str = "
compatibility: {legacy_conditions: true}
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validator, dns]}
  - {kind: Network, plural: networks}
";

/// The same kinds without them.
const PLAIN: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validator, dns]}
  - {kind: Network, plural: networks}
";

both_stores!(
    config = LEGACY;
    both_await_adapters_at_creation,
    a_kind_without_adapters_has_both_from_creation,
    both_follow_the_reports,
    a_change_ends_ready_and_leaves_available,
    available_keeps_its_value_while_reports_are_mixed,
    an_adapter_that_is_not_required_has_no_say,
    a_confirmation_moves_times_and_not_the_etag,
);
both_stores!(owned, config = PLAIN; they_come_and_go_with_the_setting);

/// Status, reason, generation and times (confirmed, flipped) of a condition.
fn told(resource: &Value, kind: &str) -> (String, String, u64, [String; 2]) {
    let (status, reason, _, generation) = says(resource, kind);
    let [_, updated, flipped] = times(resource, kind);
    (status, reason, generation, [updated, flipped])
}

fn said(status: &str, reason: &str, generation: u64, times: [&str; 2]) -> (String, String, u64, [String; 2]) {
    (status.to_owned(), reason.to_owned(), generation, times.map(str::to_owned))
}

async fn tell(app: &App, cluster: &Value, sent: &Value) -> Value {
    app.report(cluster, sent).await.expect_status(201);
    app.read(cluster).await
}

async fn both_await_adapters_at_creation(app: &App) {
    let cluster = app.create_cluster("new").await;
    assert_eq!(
        standing(&cluster),
        ["Reconciled=False", "LastKnownReconciled=False", "Available=False", "Ready=False"]
    );
    assert_snapshot!(redacted(&json!([condition(&cluster, "Available"), condition(&cluster, "Ready")])), @r#"
    [
      {
        "type": "Available",
        "status": "False",
        "reason": "AwaitingAdapters",
        "message": "Waiting for adapters to report status",
        "observed_generation": 1,
        "created_time": "[time 1]",
        "last_updated_time": "[time 1]",
        "last_transition_time": "[time 1]"
      },
      {
        "type": "Ready",
        "status": "False",
        "reason": "AwaitingAdapters",
        "message": "Waiting for adapters to report status",
        "observed_generation": 1,
        "created_time": "[time 1]",
        "last_updated_time": "[time 1]",
        "last_transition_time": "[time 1]"
      }
    ]
    "#);
    assert_eq!(condition(&cluster, "Ready")["created_time"], cluster["created_time"]);
}

async fn a_kind_without_adapters_has_both_from_creation(app: &App) {
    let network = app.create_named("/networks", "Network", "network").await;
    assert_eq!(
        standing(&network),
        ["Reconciled=True", "LastKnownReconciled=True", "Available=True", "Ready=True"]
    );
    assert_eq!(says(&network, "Available").1, "ResourceAvailable");
    assert_eq!(says(&network, "Ready").1, "ResourceReady");
    let patched = app.merge(&network, &json!({"spec": {"a": 1}})).await;
    assert_eq!(standing(&patched), standing(&network));
}

async fn both_follow_the_reports(app: &App) {
    let cluster = app.create_cluster("walk").await;
    let created = text(&cluster["created_time"]).to_owned();

    // Someone has not reported: Ready is looked at now, Available not at all.
    let now = tell(app, &cluster, &report("dns", 1, "True", &at(1))).await;
    let ready = told(&now, "Ready");
    assert_eq!((ready.0.as_str(), ready.1.as_str(), ready.2), ("False", "AwaitingAdapters", 1));
    assert_eq!(ready.3[1], created);
    assert!((created.as_str()..=in_seconds(0).as_str()).contains(&ready.3[0].as_str()), "{now}");
    assert_eq!(told(&now, "Available"), said("False", "AwaitingAdapters", 1, [&created, &created]));

    // All available: both flip at the time of the report, confirmed by the oldest.
    let now = tell(app, &cluster, &report("validator", 1, "True", &at(2))).await;
    assert_eq!(
        standing(&now),
        [
            "Reconciled=True",
            "LastKnownReconciled=True",
            "Available=True",
            "Ready=True",
            "ValidatorSuccessful=True",
            "DnsSuccessful=True",
        ]
    );
    assert_eq!(told(&now, "Ready"), said("True", "ResourceReady", 1, [&at(1), &at(2)]));
    assert_eq!(told(&now, "Available"), said("True", "ResourceAvailable", 1, [&at(1), &at(2)]));
    assert_eq!(says(&now, "Ready").2, "All adapters report ready at current generation");
    assert_eq!(says(&now, "Available").2, "Cluster is accessible");

    // One fails: both flip at its time.
    let now = tell(app, &cluster, &report("dns", 1, "False", &at(3))).await;
    assert_eq!(told(&now, "Ready"), said("False", "AdapterReportedNotAvailable", 1, [&at(3), &at(3)]));
    assert_eq!(told(&now, "Available"), said("False", "AdapterReportedNotAvailable", 1, [&at(3), &at(3)]));

    // It fails again: confirmed by the oldest report.
    let now = tell(app, &cluster, &report("dns", 1, "False", &at(4))).await;
    assert_eq!(told(&now, "Ready"), said("False", "AdapterReportedNotAvailable", 1, [&at(2), &at(3)]));
    assert_eq!(told(&now, "Available"), said("False", "AdapterReportedNotAvailable", 1, [&at(2), &at(3)]));

    // And recovers.
    let now = tell(app, &cluster, &report("dns", 1, "True", &at(5))).await;
    assert_eq!(told(&now, "Ready"), said("True", "ResourceReady", 1, [&at(2), &at(5)]));
    assert_eq!(told(&now, "Available"), said("True", "ResourceAvailable", 1, [&at(2), &at(5)]));
}

async fn available(app: &App, name: &str) -> Value {
    let cluster = app.create_cluster(name).await;
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(1))).await.expect_status(201);
    }
    cluster
}

async fn a_change_ends_ready_and_leaves_available(app: &App) {
    let cluster = available(app, "changed").await;
    let patched = app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let changed = text(&patched["updated_time"]).to_owned();
    assert_eq!(told(&patched, "Ready"), said("False", "AwaitingAdapters", 2, [&changed, &changed]));
    assert_eq!(told(&patched, "Available"), said("True", "ResourceAvailable", 1, [&at(1), &at(1)]));
    // Ready is False already: confirmed now, flipped then.
    let again = app.merge(&cluster, &json!({"spec": {"a": 2}})).await;
    let later = text(&again["updated_time"]).to_owned();
    assert_eq!(told(&again, "Ready"), said("False", "AwaitingAdapters", 3, [&later, &changed]));
    assert_eq!(told(&again, "Available"), said("True", "ResourceAvailable", 1, [&at(1), &at(1)]));
    // A label is no change of the wish.
    let labelled = app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    for kind in ["Available", "Ready"] {
        assert_eq!(told(&labelled, kind), told(&again, kind));
    }
    // A deletion is one.
    let deleted = app.remove(&cluster).await;
    let moment = text(&deleted["deleted_time"]).to_owned();
    assert_eq!(told(&deleted, "Ready"), said("False", "AwaitingAdapters", 4, [&moment, &changed]));
    assert_eq!(told(&deleted, "Available"), said("True", "ResourceAvailable", 1, [&at(1), &at(1)]));
}

async fn available_keeps_its_value_while_reports_are_mixed(app: &App) {
    let cluster = available(app, "mixed").await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let now = tell(app, &cluster, &report("dns", 2, "False", &at(2))).await;
    assert_eq!(told(&now, "Available"), said("True", "ResourceAvailable", 1, [&at(1), &at(1)]));
    assert_eq!(says(&now, "Ready").1, "AdapterReportedNotAvailable");
    let now = tell(app, &cluster, &report("validator", 2, "True", &at(3))).await;
    // All are at one generation now, and one of them failed there, though not the one that reported last.
    let (status, reason, generation, [_, flipped]) = told(&now, "Available");
    assert_eq!((status.as_str(), reason.as_str(), generation), ("False", "AdapterReportedNotAvailable", 2));
    assert_eq!(flipped, at(3));
    let now = tell(app, &cluster, &report("dns", 2, "True", &at(4))).await;
    assert_eq!(told(&now, "Available"), said("True", "ResourceAvailable", 2, [&at(3), &at(4)]));
    assert_eq!(told(&now, "Ready"), said("True", "ResourceReady", 2, [&at(3), &at(4)]));
}

async fn an_adapter_that_is_not_required_has_no_say(app: &App) {
    let cluster = available(app, "guest").await;
    let before = app.read(&cluster).await;
    let now = tell(app, &cluster, &report("guest", 1, "False", &at(9))).await;
    assert_eq!(now, before);
}

async fn a_confirmation_moves_times_and_not_the_etag(app: &App) {
    let cluster = available(app, "confirmed").await;
    let tag = app.etag(&cluster).await;
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(9))).await.expect_status(201);
    }
    let now = app.read(&cluster).await;
    assert_eq!(told(&now, "Ready"), said("True", "ResourceReady", 1, [&at(9), &at(1)]));
    assert_eq!(told(&now, "Available"), said("True", "ResourceAvailable", 1, [&at(9), &at(1)]));
    assert_eq!(app.etag(&cluster).await, tag);
}

async fn they_come_and_go_with_the_setting(mut app: App) {
    let cluster = available(&app, "setting").await;
    let plain = app.read(&cluster).await;
    assert_eq!(standing(&plain).len(), 4);
    let lines = app.server.logs().len();
    app.restart_with(LEGACY).await;
    recomputed(&app, "Cluster", lines).await;
    assert_eq!(
        standing(&app.read(&cluster).await),
        [
            "Reconciled=True",
            "LastKnownReconciled=True",
            "Available=True",
            "Ready=True",
            "ValidatorSuccessful=True",
            "DnsSuccessful=True",
        ]
    );
    let lines = app.server.logs().len();
    app.restart_with(PLAIN).await;
    recomputed(&app, "Cluster", lines).await;
    assert_eq!(app.read(&cluster).await, plain);
}
