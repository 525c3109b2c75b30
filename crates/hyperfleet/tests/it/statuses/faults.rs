//! Refused reports: every fault, all at once, before the resource is looked up.

use hyperfleet_testkit::Answer;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

both_stores!(a_nul_character_is_named_by_its_path, an_invalid_body_is_reported_before_a_missing_resource,);
any_store!(
    each_rule_of_a_field_has_its_code,
    each_rule_of_a_condition_has_its_code,
    every_fault_is_reported_at_once_in_document_order,
    faults_inside_a_condition_come_in_the_order_of_its_members,
    a_duplicate_type_is_reported_beside_other_faults,
    a_fault_names_the_given_and_the_allowed_values,
    a_report_must_be_a_json_object,
    another_media_type_is_refused,
    a_body_over_the_limit_is_refused,
    too_many_conditions_are_one_fault,
    an_unknown_parameter_of_a_report_is_refused,
);

/// A good report, to be spoilt.
fn good() -> Value {
    report("validator", 1, "True", &at(0))
}

async fn refused(app: &App, cluster: &Value, body: &Value) -> Answer {
    let before = (app.etag(cluster).await, app.read(cluster).await);
    let answer = app.report(cluster, body).await.expect_status(400);
    assert_eq!((app.etag(cluster).await, app.read(cluster).await), before);
    assert_eq!(app.reports(cluster).await, json!([]));
    answer
}

async fn each_rule_of_a_field_has_its_code(app: &App) {
    let cluster = app.create_cluster("fields").await;
    for (member, value, code) in [
        ("adapter", Value::Null, "VAL-001"),
        ("adapter", json!(5), "VAL-002"),
        ("adapter", json!(["validator"]), "VAL-002"),
        ("adapter", json!("a\u{0}b"), "VAL-002"),
        ("observed_generation", Value::Null, "VAL-001"),
        ("observed_generation", json!(0), "VAL-002"),
        ("observed_generation", json!(-1), "VAL-002"),
        ("observed_generation", json!(1.5), "VAL-002"),
        ("observed_generation", json!("1"), "VAL-002"),
        ("observed_generation", json!(true), "VAL-002"),
        ("observed_time", json!(""), "VAL-002"),
        ("observed_time", json!("yesterday"), "VAL-002"),
        ("observed_time", json!("2026-01-01"), "VAL-002"),
        ("observed_time", json!("2026-01-01T10:00:00"), "VAL-002"),
        ("observed_time", json!("2026-02-30T10:00:00Z"), "VAL-002"),
        ("observed_time", json!("2026-01-01T25:00:00Z"), "VAL-002"),
        ("observed_time", json!(1_767_261_600), "VAL-002"),
        ("conditions", Value::Null, "VAL-001"),
        ("conditions", json!({}), "VAL-002"),
        ("conditions", json!("Available"), "VAL-002"),
        ("data", json!([]), "VAL-002"),
        ("data", json!("{}"), "VAL-002"),
        ("data", json!(false), "VAL-002"),
        ("metadata", json!([{}]), "VAL-002"),
        ("metadata", json!(0), "VAL-002"),
    ] {
        let mut absent = vec![with_members(good(), &json!({member: value}))];
        if value.is_null() {
            let mut null = good();
            null[member] = Value::Null;
            absent.push(null);
        }
        for body in absent {
            let answer = refused(app, &cluster, &body).await;
            assert_eq!(answer.problem_code(), format!("HYPERFLEET-{code}"), "{body}");
            assert_eq!(answer.json()["errors"].as_array().unwrap().len(), 1, "{answer}");
            assert_eq!(answer.json()["errors"][0]["field"], member, "{answer}");
        }
    }
}

async fn each_rule_of_a_condition_has_its_code(app: &App) {
    let cluster = app.create_cluster("conditions").await;
    for (condition, field, code) in [
        (Value::Null, "", "VAL-002"),
        (json!(7), "", "VAL-002"),
        (json!("Available"), "", "VAL-002"),
        (json!([]), "", "VAL-002"),
        (json!({"status": "True"}), ".type", "VAL-001"),
        (json!({"type": null, "status": "True"}), ".type", "VAL-001"),
        (json!({"type": "", "status": "True"}), ".type", "VAL-002"),
        (json!({"type": 1, "status": "True"}), ".type", "VAL-002"),
        (json!({"type": "Health", "status": "False"}), ".type", "VAL-002"),
        (json!({"type": "Other"}), ".status", "VAL-001"),
        (json!({"type": "Other", "status": null}), ".status", "VAL-001"),
        (json!({"type": "Other", "status": "true"}), ".status", "VAL-002"),
        (json!({"type": "Other", "status": " True"}), ".status", "VAL-002"),
        (json!({"type": "Other", "status": ""}), ".status", "VAL-002"),
        (json!({"type": "Other", "status": true}), ".status", "VAL-002"),
        (json!({"type": "Other", "status": "True", "reason": 5}), ".reason", "VAL-002"),
        (json!({"type": "Other", "status": "True", "message": {}}), ".message", "VAL-002"),
    ] {
        let mut body = good();
        body["conditions"].as_array_mut().unwrap().push(condition);
        let answer = refused(app, &cluster, &body).await;
        assert_eq!(answer.problem_code(), format!("HYPERFLEET-{code}"), "{body}");
        assert_eq!(answer.json()["errors"].as_array().unwrap().len(), 1, "{answer}");
        assert_eq!(answer.json()["errors"][0]["field"], format!("conditions[3]{field}"), "{answer}");
    }
}

async fn every_fault_is_reported_at_once_in_document_order(app: &App) {
    let cluster = app.create_cluster("several").await;
    let body = json!({
        "metadata": 1,
        "conditions": [
            {"type": "Health", "status": "True"},
            {"type": "Available"},
            7,
            {"type": "", "status": "Maybe"},
            {"type": "Health", "status": "True"},
            {"status": "True"},
        ],
        "observed_generation": 0,
        "data": {"a": ["\u{0}"]},
        "observed_time": "soon",
    });
    let answer = refused(app, &cluster, &body).await;
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    let detail = &answer.json()["detail"];
    assert_eq!(detail, "Request validation failed with 11 errors");
    let fields: Vec<_> =
        faults(&answer).lines().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(
        fields,
        [
            "metadata",
            "conditions[1].status",
            "conditions[2]",
            "conditions[3].type",
            "conditions[3].status",
            "conditions[4].type",
            "conditions[5].type",
            "observed_generation",
            "data.a[0]",
            "observed_time",
            "adapter",
        ]
    );
    let answer = refused(app, &cluster, &json!({})).await;
    assert_eq!(
        faults(&answer),
        "adapter: adapter is required\nobserved_generation: observed_generation is required\n\
         conditions: conditions is required"
    );
}

async fn faults_inside_a_condition_come_in_the_order_of_its_members(app: &App) {
    let cluster = app.create_cluster("members").await;
    for (condition, expected) in [
        (r#"{"type":"","status":"Maybe","reason":5,"message":6}"#, ["type", "status", "reason", "message"]),
        (r#"{"message":6,"reason":5,"status":"Maybe","type":""}"#, ["message", "reason", "status", "type"]),
        (r#"{"status":7,"message":6,"type":"","reason":5}"#, ["status", "message", "type", "reason"]),
    ] {
        let mut body = good();
        body["conditions"][0] = serde_json::from_str(condition).unwrap();
        let answer = refused(app, &cluster, &body).await;
        let fields: Vec<_> =
            answer.json()["errors"].as_array().unwrap().iter().map(|f| f["field"].clone()).collect();
        assert_eq!(fields, expected.map(|member| json!(format!("conditions[0].{member}"))), "{condition}");
    }
}

async fn a_duplicate_type_is_reported_beside_other_faults(app: &App) {
    let cluster = app.create_cluster("twice").await;
    let body = with_members(
        good(),
        &json!({"conditions": [{"type": "Health", "status": "Maybe"}, {"type": "Health", "status": "True"}]}),
    );
    let answer = refused(app, &cluster, &body).await;
    let fields: Vec<_> =
        faults(&answer).lines().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(fields, ["conditions[0].status", "conditions[1].type"]);
}

async fn a_fault_names_the_given_and_the_allowed_values(app: &App) {
    let cluster = app.create_cluster("told").await;
    let mut body = good();
    body["observed_generation"] = json!(0);
    body["observed_time"] = "soon".into();
    body["conditions"][1]["status"] = "yes".into();
    body["conditions"][2]["type"] = "Available".into();
    let answer = refused(app, &cluster, &body).await;
    let errors = answer.json()["errors"].take();
    assert_snapshot!(redacted(&errors), @r#"
    [
      {
        "field": "observed_generation",
        "message": "observed_generation must be at least 1, not 0",
        "value": 0,
        "constraint": "min",
        "min_value": 1
      },
      {
        "field": "observed_time",
        "message": "observed_time must be an RFC 3339 time such as [time 1], not 'soon'",
        "value": "soon",
        "constraint": "format",
        "format": "date-time"
      },
      {
        "field": "conditions[1].status",
        "message": "conditions[1].status must be True or False or Unknown, not 'yes'",
        "value": "yes",
        "constraint": "enum",
        "allowed_values": [
          "True",
          "False",
          "Unknown"
        ]
      },
      {
        "field": "conditions[2].type",
        "message": "conditions[2].type 'Available' is there more than once",
        "value": "Available",
        "constraint": "unique"
      }
    ]
    "#);
}

async fn a_nul_character_is_named_by_its_path(app: &App) {
    let cluster = app.create_cluster("nul").await;
    let mut body = with_members(
        good(),
        &json!({"data": {"a": {"b c": ["x", "y\u{0}"]}, "k\u{0}": 1}, "metadata": {"m": "\u{0}"}}),
    );
    for member in ["type", "reason", "message"] {
        body["conditions"][0][member] = "a\u{0}".into();
    }
    let answer = refused(app, &cluster, &body).await;
    let mut fields: Vec<_> =
        faults(&answer).lines().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "conditions[0].message",
            "conditions[0].reason",
            "conditions[0].type",
            "data.a['b c'][1]",
            "data['k']",
            "metadata.m",
        ]
    );
}

async fn a_report_must_be_a_json_object(app: &App) {
    let cluster = app.create_cluster("bodies").await;
    let path = format!("{}/statuses", href(&cluster));
    for method in ["PUT", "POST"] {
        for body in ["", "  ", "[]", "null", "\"report\"", "{", "{\"adapter\":}", "{} {}"] {
            let answer = app.call(method, &path).body(body).await.expect_status(400);
            assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003", "{body}");
        }
    }
    assert_snapshot!(transcript(&app.put(&path).body("").await), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/invalid-request",
      "title": "Invalid Request Body",
      "status": 400,
      "detail": "The request body is empty; a JSON document is required.",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]/statuses",
      "code": "HYPERFLEET-VAL-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
}

async fn another_media_type_is_refused(app: &App) {
    let cluster = app.create_cluster("media").await;
    let path = format!("{}/statuses", href(&cluster));
    for method in ["PUT", "POST"] {
        for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/yaml"] {
            let call = app.call(method, &path).header("content-type", media_type);
            let answer = call.json(&good()).await.expect_status(415);
            assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003", "{media_type}");
        }
    }
    assert_eq!(app.reports(&cluster).await, json!([]));
}

async fn a_body_over_the_limit_is_refused(app: &App) {
    let cluster = app.create_cluster("large").await;
    let large = with_members(good(), &json!({"data": {"blob": "x".repeat(1 << 20)}}));
    let answer = app.report(&cluster, &large).await.expect_status(413);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003");
    assert_eq!(app.reports(&cluster).await, json!([]));

    let frame = with_members(good(), &json!({"data": {"blob": ""}})).to_string().len();
    let largest = with_members(good(), &json!({"data": {"blob": "x".repeat((1 << 20) - frame)}}));
    let kept = app.report(&cluster, &largest).await.expect_status(201).json();
    assert_eq!(kept["data"], largest["data"]);
}

async fn too_many_conditions_are_one_fault(app: &App) {
    let cluster = app.create_cluster("many").await;
    for condition in [json!({}), json!({"type": "Available", "status": "True"})] {
        let many = with_members(good(), &json!({"conditions": vec![condition; 1_001]}));
        let problem = app.report(&cluster, &many).await.expect_status(400).json();
        assert_eq!(problem["errors"].as_array().map(Vec::len), Some(1), "{problem}");
        assert_eq!(problem["errors"][0]["field"], "conditions");
    }
}

async fn an_invalid_body_is_reported_before_a_missing_resource(app: &App) {
    for path in [
        "/clusters/absent/statuses",
        "/clusters/absent/nodepools/absent/statuses",
        "/resources/absent/statuses",
    ] {
        for method in ["PUT", "POST"] {
            app.call(method, path).json(&json!({"adapter": 5})).await.expect_status(400);
            app.call(method, path).header("content-type", "text/plain").body("x").await.expect_status(415);
            app.call(method, path).json(&good()).await.expect_status(404);
        }
    }
    // Which conditions are missing is asked only of a resource that is there.
    let lacking = with_members(good(), &json!({"conditions": []}));
    app.put("/clusters/absent/statuses").json(&lacking).await.expect_status(404);
}

async fn an_unknown_parameter_of_a_report_is_refused(app: &App) {
    let cluster = app.create_cluster("query").await;
    let path = format!("{}/statuses", href(&cluster));
    for method in ["PUT", "POST"] {
        for query in ["dryrun=true", "force=true", "dryRun=yes", "page=1"] {
            let answer = app.call(method, &format!("{path}?{query}")).json(&good()).await.expect_status(400);
            assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{query}");
        }
        app.call(method, &format!("{path}?dryRun=")).json(&good()).await.expect_status(201);
    }
}
