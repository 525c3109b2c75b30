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
    ready_and_available_await_adapters_at_creation,
    a_kind_without_adapters_is_ready_and_available_from_creation,
    ready_and_available_follow_the_reports,
    a_change_ends_ready_and_leaves_available,
    available_keeps_its_value_while_reports_are_mixed,
    an_optional_adapter_changes_neither_condition,
    a_confirmation_moves_times_and_not_the_etag,
);
both_stores!(config = PLAIN; legacy_conditions_follow_the_setting);

/// Status, reason, generation and times (confirmed, flipped) of a condition.
fn shown_condition(resource: &Value, kind: &str) -> (String, String, u64, [String; 2]) {
    let (status, reason, _, generation) = condition_summary(resource, kind);
    let [_, updated, flipped] = condition_times(resource, kind);
    (status, reason, generation, [updated, flipped])
}

fn expected_condition(
    status: &str,
    reason: &str,
    generation: u64,
    times: [&str; 2],
) -> (String, String, u64, [String; 2]) {
    (status.to_owned(), reason.to_owned(), generation, times.map(str::to_owned))
}

async fn ready_and_available_await_adapters_at_creation(app: &App) {
    let cluster = app.create_cluster("new").await;
    assert_eq!(
        condition_states(&cluster),
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

async fn a_kind_without_adapters_is_ready_and_available_from_creation(app: &App) {
    let network = app.create_named("/networks", "Network", "network").await;
    assert_eq!(
        condition_states(&network),
        ["Reconciled=True", "LastKnownReconciled=True", "Available=True", "Ready=True"]
    );
    assert_eq!(condition_summary(&network, "Available").1, "ResourceAvailable");
    assert_eq!(condition_summary(&network, "Ready").1, "ResourceReady");
    let patched = app.merge(&network, &json!({"spec": {"a": 1}})).await;
    assert_eq!(condition_states(&patched), condition_states(&network));
}

async fn ready_and_available_follow_the_reports(app: &App) {
    let cluster = app.create_cluster("walk").await;
    let created = text(&cluster["created_time"]).to_owned();

    // One adapter has not reported: Ready is computed now, Available is not.
    let now = report_and_read(app, &cluster, &report("dns", 1, "True", &at(1))).await;
    let ready = shown_condition(&now, "Ready");
    assert_eq!((ready.0.as_str(), ready.1.as_str(), ready.2), ("False", "AwaitingAdapters", 1));
    assert_eq!(ready.3[1], created);
    assert!((created.as_str()..=in_seconds(0).as_str()).contains(&ready.3[0].as_str()), "{now}");
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("False", "AwaitingAdapters", 1, [&created, &created])
    );

    // All available: both flip at the time of the report, confirmed by the oldest.
    let now = report_and_read(app, &cluster, &report("validator", 1, "True", &at(2))).await;
    assert_eq!(
        condition_states(&now),
        [
            "Reconciled=True",
            "LastKnownReconciled=True",
            "Available=True",
            "Ready=True",
            "ValidatorSuccessful=True",
            "DnsSuccessful=True",
        ]
    );
    assert_eq!(
        shown_condition(&now, "Ready"),
        expected_condition("True", "ResourceReady", 1, [&at(1), &at(2)])
    );
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("True", "ResourceAvailable", 1, [&at(1), &at(2)])
    );
    assert_eq!(condition_summary(&now, "Ready").2, "All adapters report ready at current generation");
    assert_eq!(condition_summary(&now, "Available").2, "Cluster is accessible");

    // One fails: both flip at its time.
    let now = report_and_read(app, &cluster, &report("dns", 1, "False", &at(3))).await;
    assert_eq!(
        shown_condition(&now, "Ready"),
        expected_condition("False", "AdapterReportedNotAvailable", 1, [&at(3), &at(3)])
    );
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("False", "AdapterReportedNotAvailable", 1, [&at(3), &at(3)])
    );

    // It fails again: confirmed by the oldest report.
    let now = report_and_read(app, &cluster, &report("dns", 1, "False", &at(4))).await;
    assert_eq!(
        shown_condition(&now, "Ready"),
        expected_condition("False", "AdapterReportedNotAvailable", 1, [&at(2), &at(3)])
    );
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("False", "AdapterReportedNotAvailable", 1, [&at(2), &at(3)])
    );

    // And recovers.
    let now = report_and_read(app, &cluster, &report("dns", 1, "True", &at(5))).await;
    assert_eq!(
        shown_condition(&now, "Ready"),
        expected_condition("True", "ResourceReady", 1, [&at(2), &at(5)])
    );
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("True", "ResourceAvailable", 1, [&at(2), &at(5)])
    );
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
    assert_eq!(
        shown_condition(&patched, "Ready"),
        expected_condition("False", "AwaitingAdapters", 2, [&changed, &changed])
    );
    assert_eq!(
        shown_condition(&patched, "Available"),
        expected_condition("True", "ResourceAvailable", 1, [&at(1), &at(1)])
    );
    // Ready is False already: confirmed now, flipped then.
    let again = app.merge(&cluster, &json!({"spec": {"a": 2}})).await;
    let later = text(&again["updated_time"]).to_owned();
    assert_eq!(
        shown_condition(&again, "Ready"),
        expected_condition("False", "AwaitingAdapters", 3, [&later, &changed])
    );
    assert_eq!(
        shown_condition(&again, "Available"),
        expected_condition("True", "ResourceAvailable", 1, [&at(1), &at(1)])
    );
    // A label does not change the generation.
    let labelled = app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    for kind in ["Available", "Ready"] {
        assert_eq!(shown_condition(&labelled, kind), shown_condition(&again, kind));
    }
    // A deletion is one.
    let deleted = app.remove(&cluster).await;
    let moment = text(&deleted["deleted_time"]).to_owned();
    assert_eq!(
        shown_condition(&deleted, "Ready"),
        expected_condition("False", "AwaitingAdapters", 4, [&moment, &changed])
    );
    assert_eq!(
        shown_condition(&deleted, "Available"),
        expected_condition("True", "ResourceAvailable", 1, [&at(1), &at(1)])
    );
}

async fn available_keeps_its_value_while_reports_are_mixed(app: &App) {
    let cluster = available(app, "mixed").await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let now = report_and_read(app, &cluster, &report("dns", 2, "False", &at(2))).await;
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("True", "ResourceAvailable", 1, [&at(1), &at(1)])
    );
    assert_eq!(condition_summary(&now, "Ready").1, "AdapterReportedNotAvailable");
    let now = report_and_read(app, &cluster, &report("validator", 2, "True", &at(3))).await;
    // All are at one generation now, and one of them failed there, though not the one that reported last.
    let (status, reason, generation, [_, flipped]) = shown_condition(&now, "Available");
    assert_eq!((status.as_str(), reason.as_str(), generation), ("False", "AdapterReportedNotAvailable", 2));
    assert_eq!(flipped, at(3));
    let now = report_and_read(app, &cluster, &report("dns", 2, "True", &at(4))).await;
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("True", "ResourceAvailable", 2, [&at(3), &at(4)])
    );
    assert_eq!(
        shown_condition(&now, "Ready"),
        expected_condition("True", "ResourceReady", 2, [&at(3), &at(4)])
    );
}

async fn an_optional_adapter_changes_neither_condition(app: &App) {
    let cluster = available(app, "guest").await;
    let before = app.read(&cluster).await;
    let now = report_and_read(app, &cluster, &report("guest", 1, "False", &at(9))).await;
    assert_eq!(now, before);
}

async fn a_confirmation_moves_times_and_not_the_etag(app: &App) {
    let cluster = available(app, "confirmed").await;
    let tag = app.etag(&cluster).await;
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(9))).await.expect_status(201);
    }
    let now = app.read(&cluster).await;
    assert_eq!(
        shown_condition(&now, "Ready"),
        expected_condition("True", "ResourceReady", 1, [&at(9), &at(1)])
    );
    assert_eq!(
        shown_condition(&now, "Available"),
        expected_condition("True", "ResourceAvailable", 1, [&at(9), &at(1)])
    );
    assert_eq!(app.etag(&cluster).await, tag);
}

async fn legacy_conditions_follow_the_setting(app: &mut App) {
    let cluster = available(app, "setting").await;
    let plain = app.read(&cluster).await;
    assert_eq!(condition_states(&plain).len(), 4);
    let lines = app.server.logs().len();
    app.restart_with(LEGACY).await;
    recomputed(app, "Cluster", lines).await;
    assert_eq!(
        condition_states(&app.read(&cluster).await),
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
    recomputed(app, "Cluster", lines).await;
    assert_eq!(app.read(&cluster).await, plain);
}
