//! Reports on a resource are bounded in number and bytes, and a write reads no more of them than it needs. Broken rows
//! prove the latter: a write that reads one fails.

use hyperfleet_testkit::Answer;
use serde_json::{Value, json};

use super::*;
use crate::operations::installation::Installation;
use crate::support::*;

both_stores!(
    start = Installation::migrated;
    large_reports_are_refused_beyond_the_bytes_and_required_adapters_keep_their_share,
    small_reports_are_refused_beyond_the_number_and_required_adapters_keep_their_place,
    first_reports_that_arrive_together_keep_within_the_number,
    a_report_that_is_stored_may_be_replaced,
    reports_that_are_too_large_together_are_not_read_by_rules,
    a_write_reads_reports_only_for_rules_that_read_them,
);

/// Clusters with two required adapters and these rules, and pools below them.
fn config(limits: &Value, rules: &Value) -> String {
    json!({
        "server": {"limits": limits},
        "entities": [
            {"kind": "Cluster", "plural": "clusters", "required_adapters": ["validator", "dns"], "conditions": rules},
            {"kind": "NodePool", "plural": "nodepools", "parent_kind": "Cluster", "on_parent_delete": "cascade"},
        ],
    })
    .to_string()
}

fn rule(kind: &str, status: &str) -> Value {
    let expression = |source: &str| json!({"expression": source});
    json!({"type": kind, "when": expression("true"), "output": {"status": expression(status)}})
}

async fn start(installation: &Installation, limits: &Value, rules: &Value) -> App {
    App::launched(installation.serve().config(config(limits, rules)), None).await
}

/// A report with this many bytes of data.
fn large(adapter: &str, bytes: usize) -> Value {
    with_members(report_now(adapter, 1, "True"), &json!({"data": {"text": "x".repeat(bytes)}}))
}

/// Checks a refusal and returns its rule.
#[track_caller]
fn refused(answer: &Answer) -> String {
    let problem = answer.json();
    assert_eq!((answer.status, text(&problem["code"])), (422, "HYPERFLEET-VAL-002"), "{problem}");
    let fault = &problem["errors"][0];
    assert_eq!(fault["message"], problem["detail"]);
    format!("{} {} {}", text(&fault["field"]), text(&fault["constraint"]), fault["max_value"])
}

async fn stored(installation: &Installation) -> (usize, usize) {
    let rows = installation
        .rows("select cast(count(*) as text), cast(coalesce(sum(bytes), 0) as text) from reports");
    let [count, bytes] = <[String; 2]>::try_from(rows.await.remove(0)).unwrap();
    (count.parse().unwrap(), bytes.parse().unwrap())
}

async fn large_reports_are_refused_beyond_the_bytes_and_required_adapters_keep_their_share(
    installation: &Installation,
) {
    let app = start(
        installation,
        &json!({"body_bytes": 2 << 20}),
        &json!([rule("Counted", "statuses.size() > 0")]),
    )
    .await;
    let cluster = app.create_cluster("large").await;
    let mut accepted = 0;
    for number in 0..201 {
        let answer = app.report(&cluster, &large(&format!("adapter-{number}"), 1 << 20)).await;
        match answer.status {
            201 => accepted += 1,
            _ => assert_eq!(refused(&answer), "data max_report_bytes 4194304"),
        }
    }
    assert_eq!(accepted, 1, "the half that is not kept holds one, with its conditions");
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &large(adapter, 1_000_000)).await.expect_status(201);
    }
    let (count, bytes) = stored(installation).await;
    assert_eq!(count, 3);
    assert!(bytes < 4 << 20, "{bytes}");
    assert_eq!(condition(&app.read(&cluster).await, "Counted")["status"], "True");
    app.create_cluster("next-one").await;
}

async fn small_reports_are_refused_beyond_the_number_and_required_adapters_keep_their_place(
    installation: &Installation,
) {
    let app = start(installation, &json!({"reports_per_resource": 20}), &json!([])).await;
    let cluster = app.create_cluster("many").await;
    for number in 0..25 {
        let answer = app.report(&cluster, &report_now(&format!("adapter-{number}"), 1, "True")).await;
        match number < 18 {
            true => drop(answer.expect_status(201)),
            false => assert_eq!(refused(&answer), "adapter max_reports 20"),
        }
    }
    for adapter in ["validator", "dns"] {
        app.report(&cluster, &report_now(adapter, 1, "True")).await.expect_status(201);
    }
    let discarded = app.report(&cluster, &report_now("adapter-24", 9, "True")).await;
    assert_eq!(discarded.status, 204, "what is discarded takes no room");
    assert_eq!(stored(installation).await.0, 20);
}

async fn first_reports_that_arrive_together_keep_within_the_number(installation: &Installation) {
    let app = start(installation, &json!({"reports_per_resource": 20}), &json!([])).await;
    let cluster = app.create_cluster("together").await;
    let reports: Vec<Value> =
        (0..60).map(|number| report_now(&format!("adapter-{number}"), 1, "True")).collect();
    let answers = futures_util::future::join_all(
        reports.iter().map(|report| async { app.report(&cluster, report).await }),
    )
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 18);
    assert_eq!(stored(installation).await.0, 18);
}

async fn a_report_that_is_stored_may_be_replaced(installation: &Installation) {
    let app = start(installation, &json!({}), &json!([])).await;
    let cluster = app.create_cluster("again").await;
    app.report(&cluster, &large("first", 900_000)).await.expect_status(201);
    app.report(&cluster, &large("second", 900_000)).await.expect_status(201);
    assert_eq!(
        refused(&app.report(&cluster, &large("third", 900_000)).await),
        "data max_report_bytes 4194304"
    );
    drop(app);
    // By smaller limits than those that it was stored by.
    let limits = json!({"reports_per_resource": 3, "report_bytes_per_resource": 65_536});
    let app = start(installation, &limits, &json!([])).await;
    app.report(&cluster, &large("first", 900_000)).await.expect_status(201);
    assert_eq!(refused(&app.report(&cluster, &large("first", 900_001)).await), "data max_report_bytes 65536");
    app.report(&cluster, &large("first", 10)).await.expect_status(201);
    app.report(&cluster, &large("dns", 1_000)).await.expect_status(201);
}

async fn reports_that_are_too_large_together_are_not_read_by_rules(installation: &Installation) {
    let rules = json!([rule("Counted", "statuses.size() > 0"), rule("Named", "resource.name == 'legacy'")]);
    let app = start(installation, &json!({}), &rules).await;
    let cluster = app.create_cluster("legacy").await;
    app.report(&cluster, &report_now("other", 1, "True")).await.expect_status(201);
    installation.execute("update reports set body = 'broken', bytes = 4194305").await;
    app.report(&cluster, &report_now("validator", 1, "True")).await.expect_status(201);
    let patched = app.merge(&cluster, &json!({"spec": {"n": 1}})).await;
    assert_eq!(
        condition_states(&patched),
        ["Reconciled=False", "LastKnownReconciled=False", "ValidatorSuccessful=True", "Named=True"]
    );
    let cause = "the reports take more than 4194304 bytes, so no rule reads them";
    let line = |line: &Value| line["condition"] == "Counted" && line["error"] == cause;
    assert!(app.server.logs().iter().any(line));

    installation.execute("update reports set bytes = 300").await;
    let read = app.patch(href(&cluster)).json(&json!({"spec": {"n": 2}})).await;
    assert_eq!(read.status, 500, "a rule reads the broken report now: {read}");
}

async fn a_write_reads_reports_only_for_rules_that_read_them(installation: &Installation) {
    let app = start(installation, &json!({}), &json!([rule("Named", "resource.name == 'unread'")])).await;
    let cluster = app.create_cluster("unread").await;
    app.report(&cluster, &report_now("other", 1, "True")).await.expect_status(201);
    installation.execute("update reports set body = 'broken'").await;
    app.merge(&cluster, &json!({"spec": {"n": 1}})).await;
    app.report(&cluster, &report_now("validator", 1, "True")).await.expect_status(201);
    drop(app);
    // Nor for a resource whose conditions stay as they are.
    let app = start(installation, &json!({}), &json!([rule("Counted", "statuses.size() > 0")])).await;
    app.create_nodepool(&cluster, "below").await;
}
