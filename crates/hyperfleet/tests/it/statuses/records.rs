//! The one record of an adapter's reports on a resource: what is replaced, what is kept, and that values are returned
//! as sent.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(
    a_report_is_answered_as_stored,
    a_record_has_the_time_of_its_first_and_its_last_report,
    a_condition_keeps_its_time_while_it_keeps_its_status,
    a_report_replaces_the_previous_one_whole,
    each_adapter_and_each_resource_has_its_own_record,
    numbers_come_back_as_they_were_written,
    any_json_comes_back,
    any_text_comes_back,
    empty_texts_differ_from_absent_ones,
);

async fn a_report_is_answered_as_stored(app: &App) {
    let cluster = app.create_cluster("kept").await;
    let sent = json!({
        "adapter": "validator",
        "observed_generation": 1,
        "observed_time": "2026-01-01T10:00:00Z",
        "conditions": [
            {"type": "Health", "status": "Unknown"},
            {"type": "Available", "status": "True", "reason": "AllValidationsPassed", "message": "All validations passed"},
            {"type": "Quota", "status": "False", "message": "Nearly used up"},
            {"type": "Applied", "status": "True", "reason": "JobApplied"},
        ],
        "data": {"job_name": "validator-job-abc123", "attempt": 1},
        "metadata": {"job": {"duration": "2m"}},
    });
    let answer = app.report(&cluster, &sent).await;
    assert_snapshot!(transcript(&answer), @r#"
    201
    content-type: application/json

    {
      "adapter": "validator",
      "observed_generation": 1,
      "conditions": [
        {
          "type": "Health",
          "status": "Unknown",
          "last_transition_time": "[time 1]"
        },
        {
          "type": "Available",
          "status": "True",
          "reason": "AllValidationsPassed",
          "message": "All validations passed",
          "last_transition_time": "[time 1]"
        },
        {
          "type": "Quota",
          "status": "False",
          "message": "Nearly used up",
          "last_transition_time": "[time 1]"
        },
        {
          "type": "Applied",
          "status": "True",
          "reason": "JobApplied",
          "last_transition_time": "[time 1]"
        }
      ],
      "data": {
        "job_name": "validator-job-abc123",
        "attempt": 1
      },
      "metadata": {
        "job": {
          "duration": "2m"
        }
      },
      "created_time": "[time 1]",
      "last_report_time": "[time 1]"
    }
    "#);
    let list = app.get(&format!("{}/statuses", href(&cluster))).await;
    assert_eq!(list.json()["items"], json!([answer.json()]));
    let members: Vec<_> = list.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["kind", "page", "size", "total", "items", "version"]);
    assert_eq!(list.json()["kind"], "AdapterStatusList");
    let times = ["created_time", "last_report_time"].map(|member| answer.json()[member].clone());
    assert_eq!(times, [at(0), at(0)]);
}

async fn a_record_has_the_time_of_its_first_and_its_last_report(app: &App) {
    let cluster = app.create_cluster("times").await;
    for (second, available) in [(3, "Unknown"), (5, "True"), (5, "False"), (9, "False")] {
        let kept =
            app.report(&cluster, &report("validator", 1, available, &at(second))).await.expect_status(201);
        let kept = kept.json();
        assert_eq!((&kept["created_time"], &kept["last_report_time"]), (&json!(at(3)), &json!(at(second))));
        assert_eq!(app.reports(&cluster).await, json!([kept]));
    }
    // A new generation is still the same record.
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let kept = app.report(&cluster, &report("validator", 2, "True", &at(20))).await.expect_status(201).json();
    assert_eq!((&kept["created_time"], &kept["observed_generation"]), (&json!(at(3)), &json!(2)));
    assert_eq!(app.reports(&cluster).await, json!([kept]));
}

async fn a_condition_keeps_its_time_while_it_keeps_its_status(app: &App) {
    let cluster = app.create_cluster("flips").await;
    let told = async |second: u32, conditions: &[(&str, &str)]| -> Vec<(String, String)> {
        let conditions: Vec<_> =
            conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        let sent =
            with_members(report("validator", 1, "True", &at(second)), &json!({"conditions": conditions}));
        let kept = app.report(&cluster, &sent).await.expect_status(201).json();
        assert_eq!(app.reports(&cluster).await, json!([kept]));
        let since = |c: &Value| (text(&c["type"]).to_owned(), text(&c["last_transition_time"]).to_owned());
        kept["conditions"].as_array().unwrap().iter().map(since).collect()
    };
    let since = |expected: &[(&str, u32)]| -> Vec<(String, String)> {
        expected.iter().map(|(kind, second)| ((*kind).to_owned(), at(*second))).collect()
    };
    let all = [("Available", "True"), ("Applied", "True"), ("Health", "Unknown"), ("Extra", "False")];
    let first = told(1, &all).await;
    assert_eq!(first, since(&[("Available", 1), ("Applied", 1), ("Health", 1), ("Extra", 1)]));
    // Nothing but the order changes.
    let second = told(2, &[all[3], all[2], all[1], all[0]]).await;
    assert_eq!(second, since(&[("Extra", 1), ("Health", 1), ("Applied", 1), ("Available", 1)]));
    // One flips, one goes.
    let third = told(3, &[("Available", "False"), ("Applied", "True"), ("Health", "Unknown")]).await;
    assert_eq!(third, since(&[("Available", 3), ("Applied", 1), ("Health", 1)]));
    // What comes back is new; what flips back has flipped.
    let fourth = told(4, &all).await;
    assert_eq!(fourth, since(&[("Available", 4), ("Applied", 1), ("Health", 1), ("Extra", 4)]));
    // Only the status counts, and the time of the report only where it changed.
    let mut words = with_reason(report("validator", 1, "True", &at(5)), "Other", "Words");
    words["data"] = json!({"other": 1});
    let fifth = app.report(&cluster, &words).await.expect_status(201).json();
    assert_eq!(fifth["conditions"][0]["last_transition_time"], at(4));
    assert_eq!(fifth["conditions"][1]["last_transition_time"], at(1));
    assert_eq!(fifth["conditions"][2]["last_transition_time"], at(5), "Health was Unknown");
    // A new generation does not flip anything by itself.
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let sixth = app.report(&cluster, &report("validator", 2, "True", &at(6))).await.expect_status(201).json();
    assert_eq!(sixth["conditions"][0]["last_transition_time"], at(4));
}

async fn a_report_replaces_the_previous_one_whole(app: &App) {
    let cluster = app.create_cluster("replaced").await;
    let rich = with_members(
        with_condition(
            with_reason(report("validator", 1, "False", &at(0)), "Reason", "Message"),
            "Extra",
            "True",
        ),
        &json!({"data": {"a": 1, "b": {"c": 2}}, "metadata": {"m": 1}}),
    );
    app.report(&cluster, &rich).await.expect_status(201);
    let other =
        with_members(report("validator", 1, "False", &at(1)), &json!({"data": {"b": {}}, "metadata": {}}));
    let kept = app.report(&cluster, &other).await.expect_status(201).json();
    assert_eq!((&kept["data"], &kept["metadata"]), (&json!({"b": {}}), &json!({})));
    assert_eq!(kept["conditions"].as_array().unwrap().len(), 3);
    assert_eq!(kept["conditions"][0].get("reason"), None);
    let poor = report("validator", 1, "False", &at(2));
    let kept = app.report(&cluster, &poor).await.expect_status(201).json();
    assert_eq!((&kept["data"], kept.get("metadata")), (&json!({}), None));
    assert_eq!(app.reports(&cluster).await, json!([kept]));
}

async fn each_adapter_and_each_resource_has_its_own_record(app: &App) {
    let (one, two) = (app.create_cluster("one").await, app.create_cluster("two").await);
    let mut second = 0;
    for cluster in [&one, &two] {
        for adapter in ["validator", "Validator", "validator "] {
            second += 1;
            let sent = with_members(report(adapter, 1, "True", &at(second)), &json!({"data": {"n": second}}));
            app.report(cluster, &sent).await.expect_status(201);
        }
    }
    let seen = |reports: Value| -> Vec<(String, u64)> {
        let reports = reports.as_array().unwrap().iter();
        reports.map(|r| (text(&r["adapter"]).to_owned(), r["data"]["n"].as_u64().unwrap())).collect()
    };
    let expected = |numbers: [u64; 3]| {
        ["Validator", "validator", "validator "]
            .map(str::to_owned)
            .into_iter()
            .zip(numbers)
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(app.reports(&one).await), expected([2, 1, 3]));
    assert_eq!(seen(app.reports(&two).await), expected([5, 4, 6]));
}

async fn numbers_come_back_as_they_were_written(app: &App) {
    let cluster = app.create_cluster("numbers").await;
    let path = format!("{}/statuses", href(&cluster));
    for number in [
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1.5e400",
        "-1.5e-400",
        "1.0",
        "-0",
        "1e2",
    ] {
        let mut body = report("validator", 1, "True", &at(0)).to_string();
        body.truncate(body.len() - 1);
        let body = format!(r#"{body},"data":{{"n":{number}}},"metadata":{{"m":[{number}]}}}}"#);
        let kept = app.put(&path).body(body).await.expect_status(201);
        for answer in [kept, app.get(&path).await.expect_status(200)] {
            // As text: a JSON library might read two spellings as one number.
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            assert!(text.contains(&format!(r#""data":{{"n":{number}}}"#)), "{text}");
            assert!(text.contains(&format!(r#""metadata":{{"m":[{number}]}}"#)), "{text}");
        }
    }
}

async fn any_json_comes_back(app: &App) {
    let cluster = app.create_cluster("any").await;
    let any = json!({
        "null": null, "true": true, "list": [1, [], {}, null, "x"], "empty": {}, "": {"": ""},
        "text": "\u{1}\u{7f}\u{e9}\u{2028}\u{fffd}\u{1f680} \" \\ / \n\t", "with.dot": 1, "with'quote": 1, "a/b~c": 1,
        "e\u{301}": "decomposed", "\u{e9}": "composed",
    });
    let sent = with_members(report("validator", 1, "True", &at(0)), &json!({"data": any, "metadata": any}));
    let kept = app.report(&cluster, &sent).await.expect_status(201).json();
    for kept in [&kept, &app.reports(&cluster).await[0]] {
        assert_eq!((&kept["data"], &kept["metadata"]), (&any, &any));
    }
}

async fn any_text_comes_back(app: &App) {
    let cluster = app.create_cluster("texts").await;
    let tricky =
        "\",\"last_updated_time\":\"2026-01-01T00:00:00.000000Z\" \\ \u{1}\u{1f680}\n' -- %s {} \u{2028}";
    let long = "m".repeat(100_000);
    let mut second = 0;
    for message in [tricky, &long, "", " "] {
        second += 2;
        let sent = with_reason(report("validator", 1, "False", &at(second)), tricky, message);
        let kept = app.report(&cluster, &sent).await.expect_status(201).json();
        let said = &kept["conditions"][0];
        assert_eq!((&said["reason"], &said["message"]), (&json!(tricky), &json!(message)));
        assert_eq!(app.reports(&cluster).await, json!([kept]));
        // The same once more: only times move, whatever the texts beside them hold.
        let again = with_members(sent, &json!({"observed_time": at(second + 1)}));
        app.report(&cluster, &again).await.expect_status(201);
        let now = app.read(&cluster).await;
        let shown = condition(&now, "ValidatorSuccessful");
        assert_eq!((&shown["reason"], &shown["message"]), (&json!(tricky), &json!(message)));
        assert_eq!(shown["last_updated_time"], at(second + 1));
    }
}

async fn empty_texts_differ_from_absent_ones(app: &App) {
    let cluster = app.create_cluster("empty").await;
    let sent = with_reason(report("validator", 1, "True", &at(0)), "", "");
    let kept = app.report(&cluster, &sent).await.expect_status(201).json();
    assert_eq!(
        (&kept["conditions"][0]["reason"], &kept["conditions"][0]["message"]),
        (&json!(""), &json!(""))
    );
    assert_eq!((kept["conditions"][1].get("reason"), kept["conditions"][1].get("message")), (None, None));
    let shown = app.read(&cluster).await;
    let shown = condition(&shown, "ValidatorSuccessful");
    assert_eq!((&shown["reason"], &shown["message"]), (&json!(""), &json!("")));
}
