//! The form of a report: unknown members, nulls, times of every precision, adapters and documents up to their bounds.

use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(
    unknown_members_of_a_report_are_ignored,
    an_optional_null_is_absent,
    a_report_without_a_time_is_observed_now,
    a_time_may_be_five_minutes_ahead_and_no_more,
    a_time_may_have_any_offset_and_any_age,
    times_finer_than_a_microsecond_are_cut_before_they_are_compared,
    an_adapter_has_1_to_253_characters,
    any_condition_type_is_accepted_beside_the_mandatory_ones,
    data_and_metadata_nest_sixty_four_levels_and_no_more,
    a_body_without_a_media_type_is_json,
);

async fn unknown_members_of_a_report_are_ignored(app: &App) {
    let cluster = app.create_cluster("unknown").await;
    let mut strange = with_members(
        report("validator", 1, "True", &at(0)),
        &json!({
            "colour": "red\u{0}", "created_time": "nonsense", "last_report_time": 7, "kind": "AdapterStatus", "": [{}],
        }),
    );
    strange["conditions"][0]["last_transition_time"] = "never".into();
    strange["conditions"][1]["severity"] = json!({"\u{0}": ["\u{0}"]});
    let kept = app.report(&cluster, &strange).await.expect_status(201).json();
    let plain = app.report(&cluster, &report("validator", 1, "True", &at(0))).await.expect_status(201).json();
    assert_eq!(kept, plain);
    assert_eq!(app.reports(&cluster).await, json!([plain]));
}

async fn an_optional_null_is_absent(app: &App) {
    let cluster = app.create_cluster("nulls").await;
    let plain = app.report(&cluster, &report("validator", 1, "True", &at(0))).await.expect_status(201).json();
    let mut nulls = report("validator", 1, "True", &at(0));
    for member in ["data", "metadata", "colour"] {
        nulls[member] = Value::Null;
    }
    nulls["conditions"][0]["reason"] = Value::Null;
    nulls["conditions"][0]["message"] = Value::Null;
    assert_eq!(app.report(&cluster, &nulls).await.expect_status(201).json(), plain);
    assert_eq!(plain["data"], json!({}));
    assert_eq!(plain.get("metadata"), None);
    assert_eq!(plain["conditions"][0].get("reason"), None);
    assert_eq!(plain["conditions"][0].get("message"), None);
}

async fn a_report_without_a_time_is_observed_now(app: &App) {
    for null in [false, true] {
        let cluster = app.create_cluster(&unique("now")).await;
        let mut timeless = with_members(report("validator", 1, "True", ""), &json!({"observed_time": null}));
        if null {
            timeless["observed_time"] = Value::Null;
        }
        let kept = app.report(&cluster, &timeless).await.expect_status(201).json();
        let time = text(&kept["last_report_time"]);
        assert!((text(&cluster["created_time"])..=in_seconds(0).as_str()).contains(&time), "{kept}");
        assert_eq!(kept["created_time"], kept["last_report_time"]);
        for condition in kept["conditions"].as_array().unwrap() {
            assert_eq!(condition["last_transition_time"], kept["last_report_time"]);
        }
    }
}

async fn a_time_may_be_five_minutes_ahead_and_no_more(app: &App) {
    let cluster = app.create_cluster("ahead").await;
    let far =
        app.report(&cluster, &report("validator", 1, "True", &in_seconds(330))).await.expect_status(400);
    assert_eq!(far.problem_code(), "HYPERFLEET-VAL-002");
    assert_eq!(far.json()["errors"][0]["field"], "observed_time");
    app.report(&cluster, &report("validator", 1, "True", "9999-12-31T23:59:59Z")).await.expect_status(400);
    assert_eq!(app.reports(&cluster).await, json!([]));

    let near = in_seconds(270);
    let kept = app.report(&cluster, &report("validator", 1, "True", &near)).await.expect_status(201).json();
    assert!(text(&kept["last_report_time"]) <= &*in_seconds(0), "stored as of its arrival: {kept}");
}

async fn a_time_may_have_any_offset_and_any_age(app: &App) {
    let cluster = app.create_cluster("offset").await;
    for (given, kept) in [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        ("2026-01-01T10:00:00-08:00", "2026-01-01T18:00:00.000000Z"),
        ("2026-01-02T01:30:00.5+05:30", "2026-01-01T20:00:00.500000Z"),
        ("2026-01-02T00:00:00Z", "2026-01-02T00:00:00.000000Z"),
    ] {
        let answer = app.report(&cluster, &report("validator", 1, "True", given)).await.expect_status(201);
        assert_eq!(answer.json()["last_report_time"], kept);
        assert_eq!(app.reports(&cluster).await, json!([answer.json()]));
        assert_eq!(condition(&app.read(&cluster).await, "ValidatorSuccessful")["last_updated_time"], kept);
    }
}

async fn times_finer_than_a_microsecond_are_cut_before_they_are_compared(app: &App) {
    let cluster = app.create_cluster("fine").await;
    for (given, status) in [
        ("2026-01-01T10:00:00.1234569Z", 201),
        ("2026-01-01T10:00:00.1234561Z", 201),
        ("2026-01-01T10:00:00.123456Z", 201),
        ("2026-01-01T10:00:00.123455999Z", 204),
        ("2026-01-01T10:00:00.123456000000000001Z", 201),
    ] {
        let answer = app.report(&cluster, &report("validator", 1, "True", given)).await.expect_status(status);
        if status == 201 {
            assert_eq!(answer.json()["last_report_time"], "2026-01-01T10:00:00.123456Z", "{given}");
        }
    }
}

async fn an_adapter_has_1_to_253_characters(app: &App) {
    let cluster = app.create_cluster("names").await;
    for (adapter, status) in [
        (String::new(), 400),
        ("a".to_owned(), 201),
        ("a".repeat(253), 201),
        ("a".repeat(254), 400),
        ("é".repeat(253), 201),
        ("é".repeat(254), 400),
        ("\u{1f680}".repeat(253), 201),
        ("\u{1f680}".repeat(254), 400),
        (" It's \"any\" text; drop table reports -- \u{1}\n%_\\".to_owned(), 201),
    ] {
        let answer = app.report(&cluster, &report(&adapter, 1, "True", &at(0))).await.expect_status(status);
        if status == 201 {
            assert_eq!(answer.json()["adapter"], adapter);
            continue;
        }
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
        let fault = &answer.json()["errors"][0];
        assert_eq!(
            (&fault["field"], &fault["min_value"], &fault["max_value"]),
            (&json!("adapter"), &json!(1), &json!(253))
        );
    }
    assert_eq!(app.reports(&cluster).await.as_array().unwrap().len(), 5);
}

async fn any_condition_type_is_accepted_beside_the_mandatory_ones(app: &App) {
    let cluster = app.create_cluster("types").await;
    let mut many = report("validator", 1, "True", &at(0));
    let long = "x".repeat(5_000);
    let kinds = ["available", "Finalized", "Reconciled", "a b'c\"d\\e", "\u{1f680}", " ", &long];
    for (i, kind) in kinds.iter().enumerate() {
        many = with_condition(many, kind, ["True", "False", "Unknown"][i % 3]);
    }
    let kept = app.report(&cluster, &many).await.expect_status(201).json();
    let found: Vec<_> = kept["conditions"].as_array().unwrap().iter().map(|c| text(&c["type"])).collect();
    assert_eq!(found, [&["Available", "Applied", "Health"], &kinds[..]].concat());
    assert_eq!(app.reports(&cluster).await, json!([kept]));
    assert_eq!(
        condition_states(&app.read(&cluster).await),
        ["Reconciled=True", "LastKnownReconciled=True", "ValidatorSuccessful=True"]
    );
}

async fn data_and_metadata_nest_sixty_four_levels_and_no_more(app: &App) {
    let cluster = app.create_cluster("deep").await;
    let nested = |levels: usize| -> Value {
        serde_json::from_str(&format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))).unwrap()
    };
    for member in ["data", "metadata"] {
        let deep = with_members(report("validator", 1, "True", &at(0)), &json!({member: nested(64)}));
        let kept = app.report(&cluster, &deep).await.expect_status(201).json();
        assert_eq!(kept[member], nested(64));
        assert_eq!(app.reports(&cluster).await[0][member], nested(64));
        let deeper = with_members(report("validator", 1, "True", &at(0)), &json!({member: nested(65)}));
        let answer = app.report(&cluster, &deeper).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
        assert_eq!(faults(&answer), format!("{member}: {member} is nested deeper than 64 levels"));
    }
}

async fn a_body_without_a_media_type_is_json(app: &App) {
    let cluster = app.create_cluster("typeless").await;
    let path = format!("{}/statuses", href(&cluster));
    let body = report("validator", 1, "True", &at(0)).to_string();
    for method in ["PUT", "POST"] {
        app.call(method, &path).body(body.as_str()).await.expect_status(201);
        let typed = app.call(method, &path).header("content-type", "Application/JSON; charset=utf-8");
        typed.body(body.as_str()).await.expect_status(201);
    }
}
