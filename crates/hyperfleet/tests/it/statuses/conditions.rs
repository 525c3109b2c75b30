//! Conditions as readers see them: their values after each report, their order and times, and the ETag. The tables
//! behind them are tested in core.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

/// Names that make a type of several parts, in an order that is not the alphabet's.
const NAMES: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [my-adapter, dns, a-2-b, éa]}
";

both_stores!(config = NAMES; adapters_come_in_configured_order_under_their_own_types);
both_stores!(
    config = CATALOG;
    conditions_follow_the_reports_from_creation_to_reconciled,
    an_adapter_that_is_not_required_never_appears,
    a_change_moves_the_etag_and_a_time_alone_does_not,
    a_confirmation_moves_the_times_of_what_it_confirms,
    a_new_generation_waits_for_every_adapter_again,
    last_known_reconciled_stays_true_until_its_generation_fails,
    a_label_change_keeps_generation_and_conditions,
    lists_show_what_a_read_shows,
    confirmed_times_survive_other_writes,
);

async fn conditions_follow_the_reports_from_creation_to_reconciled(app: &App) {
    let cluster = app.create_cluster("walk").await;
    let ref_time = text(&cluster["updated_time"]).to_owned();
    let missing = "Required adapters have not yet reported status";
    let condition_summary = |resource: &Value, kind: &str| {
        let (status, reason, message, generation) = condition_summary(resource, kind);
        assert_eq!(generation, 1);
        (status, reason, message)
    };
    let said = |status: &str, reason: &str, message: &str| {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    };
    assert_eq!(condition_states(&cluster), ["Reconciled=False", "LastKnownReconciled=False"]);
    assert_eq!(
        condition_summary(&cluster, "Reconciled"),
        said("False", "ReconciledMissingAdapters", &format!("{missing} at generation 1: validator, dns"))
    );
    assert_eq!(
        condition_summary(&cluster, "LastKnownReconciled"),
        said("False", "AdaptersMissingReports", missing)
    );

    let now = report_and_read(
        app,
        &cluster,
        &with_reason(report("dns", 1, "False", &at(1)), "ZoneMissing", "No zone yet"),
    )
    .await;
    assert_eq!(
        condition_summary(&now, "Reconciled"),
        said("False", "ReconciledMissingAdapters", &format!("{missing} at generation 1: validator"))
    );
    assert_eq!(condition_times(&now, "Reconciled"), [ref_time.clone(), at(1), ref_time.clone()]);
    assert_eq!(
        condition_summary(&now, "LastKnownReconciled"),
        said("False", "AdaptersMissingReports", missing)
    );
    assert_eq!(condition_summary(&now, "DnsSuccessful"), said("False", "ZoneMissing", "No zone yet"));
    assert_eq!(condition_times(&now, "DnsSuccessful"), [ref_time.clone(), at(1), at(1)]);

    let now = report_and_read(app, &cluster, &report("validator", 1, "False", &at(2))).await;
    assert_eq!(
        condition_summary(&now, "Reconciled"),
        said(
            "False",
            "ReconciledNotAvailable",
            "Adapters reporting Available=False: validator, dns (ZoneMissing)"
        )
    );
    assert_eq!(
        condition_summary(&now, "LastKnownReconciled"),
        said(
            "False",
            "AdapterReportedNotAvailable",
            "One or more required adapters report Available=False: validator, dns"
        )
    );
    assert_eq!(condition_summary(&now, "ValidatorSuccessful"), said("False", "", ""));
    assert_eq!(condition_times(&now, "LastKnownReconciled"), [ref_time.clone(), at(1), ref_time.clone()]);

    report_and_read(app, &cluster, &report("validator", 1, "True", &at(3))).await;
    let now = report_and_read(
        app,
        &cluster,
        &with_reason(report("dns", 1, "True", &at(4)), "ZoneReady", "Serving"),
    )
    .await;
    assert_eq!(app.read(&cluster).await["generation"], 1);
    assert_eq!(now["updated_time"], ref_time, "a report does not change the desired state");
    assert_snapshot!(redacted(&now["status"]), @r#"
    {
      "conditions": [
        {
          "type": "Reconciled",
          "status": "True",
          "reason": "ReconciledAll",
          "message": "All required adapters reported Available=True or Finalized=True at the current generation",
          "observed_generation": 1,
          "created_time": "[time 1]",
          "last_updated_time": "[time 2]",
          "last_transition_time": "[time 3]"
        },
        {
          "type": "LastKnownReconciled",
          "status": "True",
          "reason": "AllAdaptersReconciled",
          "message": "All required adapters report Available=True for the tracked generation",
          "observed_generation": 1,
          "created_time": "[time 1]",
          "last_updated_time": "[time 2]",
          "last_transition_time": "[time 3]"
        },
        {
          "type": "ValidatorSuccessful",
          "status": "True",
          "reason": "",
          "message": "",
          "observed_generation": 1,
          "created_time": "[time 1]",
          "last_updated_time": "[time 2]",
          "last_transition_time": "[time 2]"
        },
        {
          "type": "DnsSuccessful",
          "status": "True",
          "reason": "ZoneReady",
          "message": "Serving",
          "observed_generation": 1,
          "created_time": "[time 1]",
          "last_updated_time": "[time 3]",
          "last_transition_time": "[time 3]"
        }
      ]
    }
    "#);
    assert_eq!(condition_times(&now, "Reconciled"), [ref_time.clone(), at(3), at(4)]);
    assert_eq!(condition_times(&now, "LastKnownReconciled"), [ref_time.clone(), at(3), at(4)]);
    assert_eq!(condition_times(&now, "ValidatorSuccessful"), [ref_time.clone(), at(3), at(3)]);
    assert_eq!(condition_times(&now, "DnsSuccessful"), [ref_time, at(4), at(4)]);
}

async fn adapters_come_in_configured_order_under_their_own_types(app: &App) {
    let cluster = app.create_cluster("order").await;
    for adapter in ["éa", "a-2-b", "dns", "other", "my-adapter"] {
        app.report(&cluster, &report(adapter, 1, "True", &at(0))).await.expect_status(201);
    }
    assert_eq!(
        condition_states(&app.read(&cluster).await),
        [
            "Reconciled=True",
            "LastKnownReconciled=True",
            "MyAdapterSuccessful=True",
            "DnsSuccessful=True",
            "A2BSuccessful=True",
            "ÉaSuccessful=True",
        ]
    );
}

async fn an_adapter_that_is_not_required_never_appears(app: &App) {
    let cluster = app.create_cluster("guest").await;
    let tag = app.etag(&cluster).await;
    let now = report_and_read(app, &cluster, &report("guest", 1, "False", &at(1))).await;
    assert_eq!(now, cluster);
    let after = app.etag(&cluster).await;
    assert_ne!(after, tag, "its report is something new all the same");
    report_and_read(app, &cluster, &report("guest", 1, "False", &at(2))).await;
    assert_eq!(app.etag(&cluster).await, after);
    assert_eq!(app.reports(&cluster).await[0]["last_report_time"], at(2));

    let network = app.create_named("/networks", "Network", "network").await;
    let now = report_and_read(app, &network, &report("guest", 1, "False", &at(1))).await;
    assert_eq!(now, network, "a kind without adapters is reconciled whatever they say");
}

async fn a_change_moves_the_etag_and_a_time_alone_does_not(app: &App) {
    let cluster = app.create_cluster("tags").await;
    let mut sent = with_members(
        with_reason(report("validator", 1, "True", &at(0)), "Reason", "Message"),
        &json!({"data": {"a": 1}, "metadata": {"m": 1}}),
    );
    app.report(&cluster, &sent).await.expect_status(201);
    let mut second = 0;
    let mut moves = async |change: &dyn Fn(&mut Value), expected: bool| {
        second += 1;
        change(&mut sent);
        sent["observed_time"] = at(second).into();
        let before = app.etag(&cluster).await;
        let kept = app.report(&cluster, &sent).await.expect_status(201).json();
        assert_eq!(kept["last_report_time"], at(second));
        let after = app.etag(&cluster).await;
        assert_eq!(after != before, expected, "{sent}");
        let unmodified = app.get(href(&cluster)).header("if-none-match", &before).await;
        assert_eq!(unmodified.status, if expected { 200 } else { 304 });
        assert_eq!(
            condition(&app.read(&cluster).await, "ValidatorSuccessful")["last_updated_time"],
            at(second)
        );
    };
    moves(&|_| (), false).await;
    moves(&|sent| sent["conditions"][0]["reason"] = "Other".into(), true).await;
    moves(&|sent| sent["conditions"][0]["message"] = "Other".into(), true).await;
    moves(&|_| (), false).await;
    moves(&|sent| sent["conditions"][0]["status"] = "False".into(), true).await;
    moves(&|sent| sent["conditions"][1]["status"] = "Unknown".into(), true).await;
    moves(&|sent| sent["conditions"][1]["reason"] = "Why".into(), true).await;
    moves(&|sent| sent["data"] = json!({"a": 2}), true).await;
    moves(&|sent| sent["data"] = json!({"a": 2}), false).await;
    moves(&|sent| sent["metadata"] = json!({}), true).await;
    moves(&|sent| drop(sent.as_object_mut().unwrap().shift_remove("metadata")), true).await;
    moves(&|sent| *sent = with_condition(sent.clone(), "Extra", "True"), true).await;
    moves(&|sent| drop(sent["conditions"].as_array_mut().unwrap().pop()), true).await;
    moves(&|_| (), false).await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    moves(&|_| (), false).await;
    moves(&|sent| sent["observed_generation"] = json!(2), true).await;
    moves(&|_| (), false).await;
}

async fn a_confirmation_moves_the_times_of_what_it_confirms(app: &App) {
    let cluster = app.create_cluster("confirmed").await;
    let ref_time = text(&cluster["updated_time"]).to_owned();
    report_and_read(app, &cluster, &report("validator", 1, "True", &at(1))).await;
    let before = report_and_read(app, &cluster, &report("dns", 1, "True", &at(2))).await;
    let tag = app.etag(&cluster).await;
    assert_eq!(condition_times(&before, "Reconciled"), [ref_time.clone(), at(1), at(2)]);

    // The oldest of the two reports decides.
    let now = report_and_read(app, &cluster, &report("validator", 1, "True", &at(5))).await;
    for kind in ["Reconciled", "LastKnownReconciled"] {
        assert_eq!(condition_times(&now, kind), [ref_time.clone(), at(2), at(2)]);
    }
    assert_eq!(condition_times(&now, "ValidatorSuccessful"), [ref_time.clone(), at(5), at(1)]);
    let now = report_and_read(app, &cluster, &report("dns", 1, "True", &at(4))).await;
    for kind in ["Reconciled", "LastKnownReconciled"] {
        assert_eq!(condition_times(&now, kind), [ref_time.clone(), at(4), at(2)]);
    }
    assert_eq!(condition_times(&now, "DnsSuccessful"), [ref_time, at(4), at(2)]);
    assert_eq!(app.etag(&cluster).await, tag);
    // The ETag that was read before is still good for a change.
    let patch = app.patch(href(&cluster)).header("if-match", &tag).json(&json!({"spec": {}}));
    patch.await.expect_status(200);
    // Nothing but these times has moved.
    let without_times = |mut resource: Value| {
        for condition in resource["status"]["conditions"].as_array_mut().unwrap() {
            condition["last_updated_time"].take();
        }
        resource
    };
    assert_eq!(without_times(now), without_times(before));
}

async fn a_new_generation_waits_for_every_adapter_again(app: &App) {
    let cluster = app.create_cluster("again").await;
    for adapter in ["validator", "dns"] {
        report_and_read(app, &cluster, &report(adapter, 1, "True", &at(1))).await;
    }
    let patched = app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let changed = text(&patched["updated_time"]).to_owned();
    assert_eq!(
        condition_states(&patched),
        ["Reconciled=False", "LastKnownReconciled=True", "ValidatorSuccessful=True", "DnsSuccessful=True"]
    );
    let (_, reason, message, generation) = condition_summary(&patched, "Reconciled");
    assert_eq!(
        (reason.as_str(), message.as_str(), generation),
        (
            "ReconciledMissingAdapters",
            "Required adapters have not yet reported status at generation 2: validator, dns",
            2
        )
    );
    assert_eq!(condition_times(&patched, "Reconciled")[1..], [changed.clone(), changed.clone()]);
    assert_eq!(condition_times(&patched, "LastKnownReconciled")[1..], [at(1), at(1)]);
    assert_eq!(condition(&patched, "LastKnownReconciled")["observed_generation"], 1);
    assert_eq!(condition(&patched, "DnsSuccessful")["observed_generation"], 1);

    let now = report_and_read(app, &cluster, &report("dns", 2, "True", &at(2))).await;
    assert_eq!(
        condition_summary(&now, "Reconciled").2,
        "Required adapters have not yet reported status at generation 2: validator"
    );
    assert_eq!(condition_times(&now, "Reconciled")[1..], [at(2), changed]);
    let now = report_and_read(app, &cluster, &report("validator", 2, "True", &at(3))).await;
    assert_eq!(condition_summary(&now, "Reconciled").0, "True");
    assert_eq!(condition_times(&now, "Reconciled")[1..], [at(2), at(3)]);
    assert_eq!(condition(&now, "LastKnownReconciled")["observed_generation"], 2);
}

async fn last_known_reconciled_stays_true_until_its_generation_fails(app: &App) {
    let cluster = app.create_cluster("known").await;
    let mut second = 0;
    let mut known = async |adapter: &str, generation: u64, available: &str| {
        second += 1;
        let now = report_and_read(app, &cluster, &report(adapter, generation, available, &at(second))).await;
        let (status, reason, message, generation) = condition_summary(&now, "LastKnownReconciled");
        format!("{status} at {generation}: {reason}, {message}")
    };
    let all = "AllAdaptersReconciled, All required adapters report Available=True for the tracked generation";
    let failed = "AdapterReportedNotAvailable, One or more required adapters report Available=False:";
    known("validator", 1, "True").await;
    assert_eq!(known("dns", 1, "True").await, format!("True at 1: {all}"));
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    assert_eq!(known("validator", 2, "False").await, format!("True at 1: {all}"));
    assert_eq!(known("dns", 1, "False").await, format!("False at 2: {failed} validator, dns"));
    assert_eq!(known("validator", 2, "True").await, format!("False at 2: {failed} dns"));
    assert_eq!(
        known("dns", 1, "True").await,
        "False at 2: AdaptersNotAtSameGeneration, Required adapters report different generations: validator (2), dns (1)"
    );
    assert_eq!(known("dns", 2, "True").await, format!("True at 2: {all}"));
}

async fn a_label_change_keeps_generation_and_conditions(app: &App) {
    let cluster = app.create_cluster("labelled").await;
    let now = app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    assert_eq!(now["generation"], 1);
    let changed = text(&now["updated_time"]).to_owned();
    assert_eq!(
        condition_times(&now, "Reconciled")[1],
        changed,
        "without a report it is as of the last change"
    );
    for adapter in ["validator", "dns"] {
        report_and_read(app, &cluster, &report(adapter, 1, "True", &at(1))).await;
    }
    let before = app.read(&cluster).await;
    let now = app.merge(&cluster, &json!({"labels": {"a": "c"}})).await;
    assert_eq!(now["status"], before["status"]);
}

async fn lists_show_what_a_read_shows(app: &App) {
    let zone = app.create_named("/zones", "Zone", "zone").await;
    let rack = app.create_named(&format!("{}/racks", href(&zone)), "Rack", "rack").await;
    let host = app.create_named(&format!("{}/hosts", href(&rack)), "Host", "host").await;
    for (second, available) in [(1, "False"), (2, "True"), (3, "True"), (4, "True")] {
        let read = report_and_read(app, &host, &report("imager", 1, available, &at(second))).await;
        assert_eq!(condition_times(&read, "Reconciled")[1], at(second));
        for path in [
            "/hosts".to_owned(),
            "/resources?kind=Host".to_owned(),
            format!("{}/hosts", href(&rack)),
            format!("{}/racks/{}/hosts", href(&zone), id(&rack)),
        ] {
            assert_eq!(app.get(&path).await.expect_status(200).json()["items"], json!([read]), "{path}");
        }
        let fields = "fields=status.conditions";
        let part = app.get(&format!("{}?{fields}", href(&host))).await.expect_status(200).json();
        assert_eq!(part["status"], read["status"]);
        let listed = app.get(&format!("/hosts?{fields}")).await.expect_status(200).json();
        assert_eq!(listed["items"], json!([part]));
        let times = app.get(&format!("{}?fields=status.conditions.last_updated_time", href(&host))).await;
        assert_eq!(times.json()["status"]["conditions"][0], json!({"last_updated_time": at(second)}));
    }
}

async fn confirmed_times_survive_other_writes(app: &App) {
    let cluster = app.create_cluster("moved").await;
    for second in [1, 2, 3] {
        for adapter in ["validator", "dns"] {
            report_and_read(app, &cluster, &report(adapter, 1, "True", &at(second))).await;
        }
    }
    let before = app.read(&cluster).await;
    assert_eq!(condition_times(&before, "Reconciled")[1], at(3));
    let labelled = app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    assert_eq!(labelled["status"], before["status"]);
    assert_eq!(app.read(&cluster).await, labelled);
    report_and_read(app, &cluster, &report("validator", 1, "True", &at(9))).await;
    let flipped = report_and_read(app, &cluster, &report("dns", 1, "False", &at(4))).await;
    assert_eq!(condition_times(&flipped, "Reconciled")[1..], [at(4), at(4)]);
    assert_eq!(condition_times(&flipped, "ValidatorSuccessful")[1..], [at(9), at(1)]);
    let deleted = app.remove(&cluster).await;
    assert_eq!(condition_times(&deleted, "ValidatorSuccessful")[1..], [at(9), at(1)]);
    assert_eq!(app.read(&cluster).await, deleted);
}
