//! Conditions that configured rules map from reports: their order, what the rules see, and failing rules.

use hyperfleet_testkit::eventually;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::support::*;

/// A rule with these expressions; an empty reason or message is left out.
fn rule(kind: &str, when: &str, status: &str, reason: &str, message: &str) -> Value {
    let expression = |source: &str| json!({"expression": source});
    let mut output = json!({"status": expression(status)});
    for (member, source) in [("reason", reason), ("message", message)] {
        if !source.is_empty() {
            output[member] = expression(source);
        }
    }
    json!({"type": kind, "when": expression(when), "output": output})
}

/// A configuration of clusters that require one adapter and have these rules; JSON is YAML too.
fn config(rules: &[Value]) -> String {
    json!({
        "entities": [
            {"kind": "Cluster", "plural": "clusters", "required_adapters": ["validator"], "conditions": rules},
            {"kind": "Network", "plural": "networks"},
        ],
    })
    .to_string()
}

const DNS: &str = "statuses.filter(s, s.adapter == 'dns')";
const HAS_DNS: &str = "statuses.exists(s, s.adapter == 'dns')";

/// Lifts what the adapter `dns`, which is not required, finds of its zone.
fn zone_rule() -> Value {
    let zone = format!("{DNS}[0].conditions.filter(c, c.type == 'Zone')[0]");
    rule(
        "ZoneServed",
        HAS_DNS,
        &format!("{zone}.status"),
        &format!("{zone}.?reason.orValue('NoReason')"),
        &format!("resource.name + ': ' + dig({DNS}[0].data, 'zones.0.name')"),
    )
}

/// What `dns` reports.
fn zone(status: &str, observed_time: &str) -> Value {
    let sent = with_condition(report("dns", 1, "True", observed_time), "Zone", status);
    with_members(sent, &json!({"data": {"zones": [{"name": "a.example"}]}}))
}

both_stores!(
    config = &config(&[zone_rule()]);
    a_mapping_rule_adds_a_condition,
    a_rule_whose_when_is_false_adds_no_condition,
    a_confirmation_moves_its_time_and_not_the_etag,
    lists_show_what_a_read_shows,
);
both_stores!(config = &config(&[zone_rule()]); changed_rules_apply_from_the_next_start);

async fn a_mapping_rule_adds_a_condition(app: &App) {
    let cluster = app.create_cluster("lifted").await;
    let created = text(&cluster["created_time"]).to_owned();
    assert_eq!(condition_states(&cluster), ["Reconciled=False", "LastKnownReconciled=False"]);
    let now = report_and_read(app, &cluster, &zone("False", &at(1))).await;
    assert_eq!(condition_states(&now), ["Reconciled=False", "LastKnownReconciled=False", "ZoneServed=False"]);
    assert_snapshot!(redacted(condition(&now, "ZoneServed")), @r#"
    {
      "type": "ZoneServed",
      "status": "False",
      "reason": "NoReason",
      "message": "lifted: a.example",
      "observed_generation": 1,
      "created_time": "[time 1]",
      "last_updated_time": "[time 2]",
      "last_transition_time": "[time 1]"
    }
    "#);
    assert_eq!(condition_times(&now, "ZoneServed"), [created.clone(), at(1), created.clone()]);

    let mut serving = zone("True", &at(2));
    serving["conditions"][3]["reason"] = "Serving".into();
    let now = report_and_read(app, &cluster, &serving).await;
    assert_eq!(
        condition_summary(&now, "ZoneServed"),
        ("True".to_owned(), "Serving".to_owned(), "lifted: a.example".to_owned(), 1)
    );
    assert_eq!(condition_times(&now, "ZoneServed"), [created.clone(), at(2), at(2)]);

    // Another adapter's report confirms it.
    let now = report_and_read(app, &cluster, &report("validator", 1, "True", &at(3))).await;
    assert_eq!(
        condition_states(&now),
        ["Reconciled=True", "LastKnownReconciled=True", "ValidatorSuccessful=True", "ZoneServed=True"]
    );
    assert_eq!(condition_times(&now, "ZoneServed"), [created.clone(), at(3), at(2)]);

    // So does a change, at its own time and for its own generation. The reports may be of an older one.
    let patched = app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let changed = text(&patched["updated_time"]).to_owned();
    assert_eq!(condition_times(&patched, "ZoneServed"), [created, changed, at(2)]);
    assert_eq!(condition(&patched, "ZoneServed")["observed_generation"], 2);
    assert_eq!(app.read(&cluster).await, patched);
}

async fn a_rule_whose_when_is_false_adds_no_condition(app: &App) {
    let cluster = app.create_cluster("unlifted").await;
    let now = report_and_read(app, &cluster, &report("validator", 1, "True", &at(1))).await;
    assert_eq!(condition_states(&now).len(), 3);
    let now = report_and_read(app, &cluster, &zone("True", &at(2))).await;
    assert_eq!(condition_states(&now)[3], "ZoneServed=True");
    let tag = app.etag(&cluster).await;
    // What cannot tell about anything is not seen by the rules.
    let unsure = with_condition(zone("True", &at(3)), "Other", "Unknown");
    let now = report_and_read(app, &cluster, &unsure).await;
    assert_eq!(condition_states(&now).len(), 3);
    assert_ne!(app.etag(&cluster).await, tag);
    // A condition that comes back is a new one.
    let now = report_and_read(app, &cluster, &zone("True", &at(4))).await;
    let changed = text(&now["updated_time"]).to_owned();
    assert_eq!(condition_times(&now, "ZoneServed"), [changed.clone(), at(4), changed]);
}

async fn a_confirmation_moves_its_time_and_not_the_etag(app: &App) {
    let cluster = app.create_cluster("confirmed").await;
    report_and_read(app, &cluster, &report("validator", 1, "True", &at(1))).await;
    report_and_read(app, &cluster, &zone("True", &at(2))).await;
    let tag = app.etag(&cluster).await;
    let now = report_and_read(app, &cluster, &zone("True", &at(3))).await;
    assert_eq!(condition_times(&now, "ZoneServed")[1], at(3));
    let now = report_and_read(app, &cluster, &report("validator", 1, "True", &at(4))).await;
    assert_eq!(condition_times(&now, "ZoneServed")[1], at(4));
    assert_eq!(condition_times(&now, "Reconciled")[1], at(4));
    assert_eq!(app.etag(&cluster).await, tag);
}

async fn lists_show_what_a_read_shows(app: &App) {
    let cluster = app.create_cluster("listed").await;
    for second in [1, 2] {
        let read = report_and_read(app, &cluster, &zone("True", &at(second))).await;
        assert_eq!(app.get("/clusters").await.expect_status(200).json()["items"], json!([read]));
    }
}

async fn changed_rules_apply_from_the_next_start(app: &mut App) {
    let cluster = app.create_cluster("followed").await;
    let before = report_and_read(app, &cluster, &zone("True", &at(1))).await;
    app.restart_with(&config(&[rule("Named", "true", "resource.name == 'followed'", "'Why'", "")])).await;
    let now = eventually("the other rule", DEADLINE, async || {
        let now = app.read(&cluster).await;
        (now["status"] != before["status"]).then_some(now)
    })
    .await;
    assert_eq!(condition_states(&now)[2..], ["Named=True"]);
    let changed = text(&now["updated_time"]).to_owned();
    assert_eq!(condition_times(&now, "Named"), [changed.clone(), changed.clone(), changed]);
}

/// Rules in no order, of which some always fail.
fn failing_rules() -> Vec<Value> {
    vec![
        rule("Zeta", "true", "true", "'Fine'", "'last of all'"),
        rule("BadStatus", HAS_DNS, "'Maybe'", "", ""),
        rule("BadWhen", "resource.missing == 1", "true", "", ""),
        rule("Divided", HAS_DNS, "1 / (size(statuses) - size(statuses)) == 1", "", ""),
        rule("Long", HAS_DNS, "true", &format!("{DNS}[0].data.reason"), ""),
        rule("Alpha", "true", "'FALSE'", "", ""),
    ]
}

both_stores!(config = &config(&failing_rules()); a_failing_rule_omits_its_own_condition_alone);

async fn a_failing_rule_omits_its_own_condition_alone(app: &App) {
    let failures = async |kind: &str| {
        let labels = format!("resource_type=\"Cluster\",condition=\"{kind}\"");
        app.metric(&format!("hyperfleet_api_condition_mapping_failures_total{{{labels}}}"))
            .await
            .unwrap_or(0.0)
    };
    let cluster = app.create_cluster("failing").await;
    assert_eq!(condition_states(&cluster)[2..], ["Alpha=False", "Zeta=True"]);
    assert_eq!((failures("BadWhen").await, failures("Divided").await), (1.0, 0.0));

    let sent =
        with_members(report("dns", 1, "True", &at(1)), &json!({"data": {"reason": "hunter2".repeat(37)}}));
    let kept = app.report(&cluster, &sent).await.expect_status(201).json();
    assert_eq!(app.reports(&cluster).await, json!([kept]), "the report is kept");
    let now = app.read(&cluster).await;
    assert_eq!(condition_states(&now)[2..], ["Alpha=False", "Zeta=True"]);
    for (kind, times) in
        [("BadStatus", 1.0), ("BadWhen", 2.0), ("Divided", 1.0), ("Long", 1.0), ("Zeta", 0.0)]
    {
        assert_eq!(failures(kind).await, times, "{kind}");
    }

    let told = |line: &Value| line["message"] == "a mapped condition is left out";
    let lines = eventually("five lines", DEADLINE, async || {
        let lines: Vec<Value> = app.server.logs().into_iter().filter(told).collect();
        (lines.len() == 5).then_some(lines)
    })
    .await;
    for line in &lines {
        assert_eq!((&line["level"], &line["resource_type"]), (&json!("warn"), &json!("Cluster")));
        assert_eq!(line["resource_id"], cluster["id"]);
        assert!(!line.to_string().contains("hunter2"), "nothing of what it looked at: {line}");
    }
    let causes: Vec<_> = lines[1..]
        .iter()
        .map(|line| format!("{}: {}", text(&line["condition"]), text(&line["error"])))
        .collect();
    assert_snapshot!(causes.join("\n"), @r#"
    BadStatus: output.status: must be True or False
    BadWhen: when: no such member: missing
    Divided: output.status: division by zero
    Long: output.reason: longer than 256 bytes (259)
    "#);

    // Within its bounds it is a reason like any other.
    let sent = with_members(report("dns", 1, "True", &at(2)), &json!({"data": {"reason": "é".repeat(128)}}));
    let now = report_and_read(app, &cluster, &sent).await;
    assert_eq!(condition_states(&now)[2..], ["Alpha=False", "Long=True", "Zeta=True"]);
    assert_eq!(condition(&now, "Long")["reason"], "é".repeat(128));
}

/// Rules that show what they see.
fn seeing_rules() -> Vec<Value> {
    vec![
        rule("Statuses", "true", "true", "string(size(statuses))", "toJson(statuses)"),
        rule("Resource", "true", "true", "", "toJson(resource)"),
        rule("Data", HAS_DNS, "true", "", &format!("toJson({DNS}[0].data)")),
        rule("Text", HAS_DNS, "true", "", &format!("{DNS}[0].data.?long.orValue('none')")),
    ]
}

both_stores!(
    config = &config(&seeing_rules());
    rules_see_every_adapter_with_a_known_availability,
    rules_see_the_resource_as_the_api_returns_it,
    secrets_are_masked,
    a_long_message_is_cut_at_a_character,
);

fn shown(resource: &Value, kind: &str) -> Value {
    serde_json::from_str(text(&condition(resource, kind)["message"])).unwrap()
}

async fn rules_see_every_adapter_with_a_known_availability(app: &App) {
    let cluster = app.create_cluster("seen").await;
    assert_eq!(shown(&cluster, "Statuses"), json!([]));
    report_and_read(app, &cluster, &with_reason(report("validator", 1, "False", &at(1)), "Why", "Because"))
        .await;
    report_and_read(app, &cluster, &with_condition(report("unsure", 1, "True", &at(1)), "Other", "Unknown"))
        .await;
    report_and_read(app, &cluster, &report("unknown", 1, "Unknown", &at(1))).await;
    app.merge(&cluster, &json!({"spec": {"a": 1}})).await;
    let sent = with_members(
        report("guest", 2, "True", &at(2)),
        &json!({"data": {"n": 1}, "metadata": {"hidden": 1}}),
    );
    let now = report_and_read(app, &cluster, &sent).await;
    let seen = shown(&now, "Statuses");
    let adapters: Vec<_> = seen.as_array().unwrap().iter().map(|s| text(&s["adapter"])).collect();
    assert_eq!(adapters, ["guest", "validator"]);
    let mut members: Vec<_> = seen[0].as_object().unwrap().keys().cloned().collect();
    members.sort();
    assert_eq!(members, ["adapter", "conditions", "data", "observed_generation"]);
    assert_eq!((&seen[0]["data"], &seen[1]["observed_generation"]), (&json!({"n": 1}), &json!(1)));
    let reason = &seen[1]["conditions"][0];
    assert_eq!(
        (&reason["type"], &reason["status"], &reason["reason"]),
        (&json!("Available"), &json!("False"), &json!("Why"))
    );
}

async fn rules_see_the_resource_as_the_api_returns_it(app: &App) {
    let body = json!({"kind": "Cluster", "name": "whole", "spec": {"region": "eu"}, "labels": {"k": "v"}});
    let cluster = app.create("/clusters", &body).await;
    let seen = shown(&cluster, "Resource");
    for member in ["kind", "id", "href", "name", "generation", "spec", "labels", "created_time", "created_by"]
    {
        assert_eq!(seen[member], cluster[member], "{member}");
    }
    app.merge(&cluster, &json!({"spec": {"region": "us"}})).await;
    let seen = shown(&app.read(&cluster).await, "Resource");
    assert_eq!((&seen["spec"], &seen["generation"]), (&json!({"region": "us"}), &json!(2)));
    let deleted = app.remove(&cluster).await;
    assert_eq!(shown(&deleted, "Resource")["deleted_time"], deleted["deleted_time"]);
}

async fn secrets_are_masked(app: &App) {
    let secrets = [
        "password",
        "DB_PASSWORD",
        "clientSecret",
        "access_token",
        "credentials",
        "private_key",
        "authorization",
        "tls_cert",
        "kubeconfig",
        "apiKey",
        "api-key",
    ];
    let mut data = json!({"name": "plain", "nested": [{"token": {"deep": ["hunter2"]}}]});
    for key in secrets {
        data[key] = "hunter2".into();
    }
    let spec =
        json!({"kind": "Cluster", "name": "secret", "spec": {"pull_secret": "hunter2", "region": "eu"}});
    let cluster = app.create("/clusters", &spec).await;
    let now = report_and_read(
        app,
        &cluster,
        &with_members(report("dns", 1, "True", &at(1)), &json!({"data": data})),
    )
    .await;
    assert!(!now["status"].to_string().contains("hunter2"), "{}", now["status"]);
    let seen = shown(&now, "Data");
    for key in secrets {
        assert_eq!(seen[key], "***REDACTED***", "{key}");
    }
    assert_eq!((&seen["name"], &seen["nested"]), (&json!("plain"), &json!([{"token": "***REDACTED***"}])));
    assert_eq!(shown(&now, "Resource")["spec"], json!({"pull_secret": "***REDACTED***", "region": "eu"}));
    // Only the rules are kept from them.
    assert_eq!(app.reports(&cluster).await[0]["data"], data);
    assert_eq!(now["spec"]["pull_secret"], "hunter2");
}

async fn a_long_message_is_cut_at_a_character(app: &App) {
    let cluster = app.create_cluster("long").await;
    for (given, kept) in [
        ("x".repeat(2048), "x".repeat(2048)),
        ("x".repeat(3000), "x".repeat(2048)),
        (format!("x{}", "é".repeat(1024)), format!("x{}", "é".repeat(1023))),
        (format!("xx{}", "\u{1f680}".repeat(600)), format!("xx{}", "\u{1f680}".repeat(511))),
    ] {
        let sent = with_members(report("dns", 1, "True", &at(1)), &json!({"data": {"long": given}}));
        let now = report_and_read(app, &cluster, &sent).await;
        assert_eq!(condition(&now, "Text")["message"], kept);
        assert_eq!(app.reports(&cluster).await[0]["data"]["long"], given);
    }
}

/// A rule that would run for as long as its input makes it.
fn endless_rule() -> Value {
    let all = format!("{DNS}[0].data.list");
    let endless = format!("{all}.all(a, {all}.all(b, {all}.all(c, a + b + c >= 0)))");
    rule("Endless", HAS_DNS, &endless, "", "")
}

both_stores!(config = &config(&[endless_rule()]); an_endless_rule_is_aborted);

async fn an_endless_rule_is_aborted(app: &App) {
    let cluster = app.create_cluster("endless").await;
    let list: Vec<u32> = (0..3_000).collect();
    let sent = with_members(report("dns", 1, "True", &at(1)), &json!({"data": {"list": list}}));
    let now = report_and_read(app, &cluster, &sent).await;
    assert_eq!(condition_states(&now).len(), 2);
    let short = with_members(report("dns", 1, "True", &at(2)), &json!({"data": {"list": [1, 2, 3]}}));
    assert_eq!(condition_states(&report_and_read(app, &cluster, &short).await)[2], "Endless=True");
}

both_stores!(
    config = &format!("{{\"compatibility\":{{\"legacy_conditions\":true}},{}", &config(&[zone_rule()])[1..]);
    mapped_conditions_come_after_the_legacy_ones,
);

async fn mapped_conditions_come_after_the_legacy_ones(app: &App) {
    let cluster = app.create_cluster("last").await;
    report_and_read(app, &cluster, &zone("True", &at(1))).await;
    let now = report_and_read(app, &cluster, &report("validator", 1, "True", &at(1))).await;
    assert_eq!(
        condition_states(&now),
        [
            "Reconciled=True",
            "LastKnownReconciled=True",
            "Available=True",
            "Ready=True",
            "ValidatorSuccessful=True",
            "ZoneServed=True",
        ]
    );
}

#[tokio::test]
async fn a_start_with_bad_rules_lists_every_fault() {
    let rules = [
        rule("Reconciled", "true", "true", "", ""),
        rule("LastKnownReconciled", "true", "true", "", ""),
        rule("Ready", "true", "true", "", ""),
        rule("Available", "true", "true", "", ""),
        rule("OddlySuccessful", "true", "true", "", ""),
        rule("", "true", "true", "", ""),
        rule(&"x".repeat(101), "true", "true", "", ""),
        rule("Twice", "true", "true", "", ""),
        rule("Twice", "true", "true", "", ""),
        rule("Syntax", "statuses[", "true", "'a' +", ""),
        rule("Names", "status.exists(s, true)", "resourze.name == ''", "nothing()", "statuses.lenght()"),
        rule(&"x".repeat(100), "true", "true", "", ""),
    ];
    let refused = launch().config(config(&rules)).start().await.unwrap_err().to_string();
    // Each names its source between the path and the rule.
    let told = |line: &str| {
        let (path, rest) = line.trim().strip_prefix("- entities[0].conditions")?.split_once(" (")?;
        Some(format!("conditions{path}: {}", rest.split_once("): ")?.1))
    };
    let faults: Vec<_> = refused.lines().filter_map(told).collect();
    assert_snapshot!(faults.join("\n"), @r#"
    conditions[0].type: 'Reconciled' is a type of the API's own conditions
    conditions[1].type: 'LastKnownReconciled' is a type of the API's own conditions
    conditions[2].type: 'Ready' is a type of the API's own conditions
    conditions[3].type: 'Available' is a type of the API's own conditions
    conditions[4].type: 'OddlySuccessful' is a type of the API's own conditions
    conditions[5].type: must be 1 to 100 characters, none of them a control character
    conditions[6].type: must be 1 to 100 characters, none of them a control character
    conditions[8].type: 'Twice' is declared twice
    conditions[9].when.expression: line 1, column 10: the expression ends too early
    conditions[9].output.reason.expression: line 1, column 6: the expression ends too early
    conditions[10].when.expression: line 1, column 1: unknown name 'status'; did you mean statuses?
    conditions[10].output.status.expression: line 1, column 1: unknown name 'resourze'; did you mean resource?
    conditions[10].output.reason.expression: line 1, column 1: unknown function 'nothing'
    conditions[10].output.message.expression: line 1, column 10: unknown function 'lenght'
    "#);
}
