//! Bodies: too large, too deep, too many, not JSON, almost JSON.

use hyperfleet_testkit::Call;
use serde_json::{Value, json};

use super::{harmless, still_serves};
use crate::support::*;

const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

/// A body with this raw text as its spec.
fn with_spec(spec: &str) -> String {
    format!(r#"{{"kind": "Cluster", "name": "{}", "spec": {spec}}}"#, unique("raw"))
}

/// The body sent to every operation that takes one.
fn everywhere(app: &App, target: &Value, body: &[u8]) -> Vec<Call> {
    let api = app.api();
    let path = href(target);
    let call = |call: Call, media_type: &str| call.header("content-type", media_type).body(body.to_vec());
    vec![
        call(api.post(&format!("{BASE}/clusters")), "application/json"),
        call(api.post(&format!("{BASE}/resources")), "application/json"),
        call(api.post(&format!("{path}/nodepools")), "application/json"),
        call(api.patch(path), "application/json"),
        call(api.patch(path), MERGE),
        call(api.patch(path), OPERATIONS),
        call(api.post(&format!("{path}/force-delete")), "application/json"),
    ]
}

async fn a_body_that_is_no_json_is_refused_everywhere(app: &App) {
    let cluster = app.create_cluster("target").await;
    let deep =
        |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let bodies: Vec<Vec<u8>> = [
        "",
        " \n\t ",
        "{",
        "}",
        "nul",
        "\u{feff}{}",
        "{}{}",
        "{} x",
        "{'a': 1}",
        "{\"a\": 01}",
        "{\"a\": .5}",
        "{\"a\": +1}",
        "{\"a\": NaN}",
        "{\"a\": Infinity}",
        "{\"a\": 1e}",
        "{\"a\": \"\t\"}",
        "{\"a\": \"\\x41\"}",
        "{\"a\": \"\\ud800\"}",
        "{\"a\": \"\\udc00\\ud800\"}",
        "{\"\\ud800\": 1}",
        "{\"a\": 1,}",
        "{\"a\" 1}",
        "{a: 1}",
        "// comment\n{}",
        "<a/>",
        "a=b&c=d",
        r#"{"$serde_json::private::Number": "1"}"#,
        r#"{"spec": {"$serde_json::private::RawValue": "{\"a\": 1}"}}"#,
        r#"{"spec": {"\u0024serde_json::private::Number": "x"}}"#,
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .chain([
        b"\xff\xfe{}".to_vec(),
        b"{\"a\": \"\xc0\x80\"}".to_vec(),
        b"{\"a\": \"\xed\xa0\x80\"}".to_vec(),
        b"{\"\xff\": 1}".to_vec(),
        vec![0; 1000],
        "[".repeat(100_000).into_bytes(),
        "{\"a\":".repeat(100_000).into_bytes(),
        deep("[", "]", 400_000).into_bytes(),
        // Escapes are looked at more closely than other text.
        deep("[", "]", 400_000).replace('1', "\"\\u0041\"").into_bytes(),
        deep("{\"\\u0061\":", "}", 70_000).into_bytes(),
        deep("[", "]", 128).into_bytes(),
    ])
    .collect();
    for body in bodies {
        for call in everywhere(app, &cluster, &body) {
            let answer = call.await;
            let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            harmless(&answer, &shown);
            assert_eq!(
                (answer.status, answer.problem_code().as_str()),
                (400, "HYPERFLEET-VAL-003"),
                "{shown}"
            );
        }
    }
    assert_eq!(app.read(&cluster).await, cluster);
    still_serves(app).await;
}

async fn a_json_body_that_is_no_object_is_refused(app: &App) {
    let cluster = app.create_cluster("target").await;
    for body in ["null", "true", "1", "1e999999999", "\"text\"", "[]", "[{}]", "[[[]]]", "{}", r#"{"": {}}"#]
    {
        for call in everywhere(app, &cluster, body.as_bytes()) {
            let answer = call.await;
            harmless(&answer, body);
            assert_eq!(answer.status, 400, "{body}");
        }
    }
    assert_eq!(app.read(&cluster).await, cluster);
    still_serves(app).await;
}

async fn a_spec_is_at_most_64_levels_deep(app: &App) {
    let cluster = app.create_cluster("target").await;
    // The spec itself is the first level.
    let nested = |levels: usize| {
        let lists = levels.saturating_sub(1);
        format!("{{\"a\": {}1{}}}", "[".repeat(lists), "]".repeat(lists))
    };
    for levels in [1, 2, 63, 64] {
        let made =
            app.post("/clusters").header("content-type", "application/json").body(with_spec(&nested(levels)));
        let made = made.await.expect_status(201).json();
        assert_eq!(app.read(&made).await["spec"], serde_json::from_str::<Value>(&nested(levels)).unwrap());
        let patch = format!("{{\"spec\": {}}}", nested(levels));
        app.patch(href(&cluster)).header("content-type", MERGE).body(patch).await.expect_status(200);
    }
    let kept = app.read(&cluster).await;
    for levels in [65, 66, 100, 120, 127, 128, 129, 200, 1000, 10_000] {
        let refused =
            app.post("/clusters").header("content-type", "application/json").body(with_spec(&nested(levels)));
        harmless(&refused.await.expect_status(400), "too deep");
        for (media_type, patch) in [
            (MERGE, format!("{{\"spec\": {}}}", nested(levels))),
            (OPERATIONS, format!(r#"[{{"op": "add", "path": "/spec", "value": {}}}]"#, nested(levels))),
            (OPERATIONS, format!(r#"[{{"op": "add", "path": "/spec/a", "value": {}}}]"#, nested(levels))),
        ] {
            let refused = app.patch(href(&cluster)).header("content-type", media_type).body(patch).await;
            harmless(&refused.expect_status(400), "too deep");
        }
    }
    assert_eq!(app.read(&cluster).await, kept);
    still_serves(app).await;
}

async fn numbers_of_any_size_are_kept_or_refused(app: &App) {
    let digits = "7".repeat(10_000);
    for number in [
        "1e999999999",
        "-1e-999999999",
        "1e99999999999999999999999999",
        "0e99999999999999999999",
        "123456789012345678901234567890.123456789",
        "-0",
        "-0.0",
        "1E+5",
        &digits,
        &format!("0.{digits}"),
        &format!("-{digits}e{digits}"),
    ] {
        let body = with_spec(&format!("{{\"n\": {number}, \"m\": 1}}"));
        let made = app
            .api()
            .post(&format!("{BASE}/clusters"))
            .header("content-type", "application/json")
            .body(body)
            .await;
        harmless(&made, number);
        let made = made.expect_status(201);
        let path = href(&made.json()).to_owned();
        // The same again, another one, and the first one back: each is compared with what is stored.
        for other in [number, "1", number, "1e999999998"] {
            let body = format!("{{\"spec\": {{\"n\": {other}}}}}");
            harmless(
                &app.api().patch(&path).header("content-type", MERGE).body(body).await.expect_status(200),
                number,
            );
            let test = format!(r#"[{{"op": "test", "path": "/spec/n", "value": {other}}}]"#);
            let tested = app.api().patch(&path).header("content-type", OPERATIONS).body(test).await;
            harmless(&tested.expect_status(200), number);
        }
        for (member, value) in
            [("generation", number), ("name", number), ("labels", number), ("kind", number)]
        {
            let body = format!(
                "{{\"kind\": \"Cluster\", \"name\": \"abc\", \"spec\": {number}, \"{member}\": {value}}}"
            );
            let refused = app.api().post(&format!("{BASE}/clusters")).body(body).await;
            harmless(&refused.expect_status(400), number);
        }
    }
    still_serves(app).await;
}

async fn the_last_of_duplicate_members_counts(app: &App) {
    let body = r#"{"kind": "Zone", "kind": "Cluster", "name": "UPPER", "name": "twice", "spec": {"a": 1},
        "spec": {"b": 2, "b": 3}, "labels": {"x": "-"}, "labels": {"x": "y", "x": "z"}}"#;
    let made = app
        .post("/clusters")
        .header("content-type", "application/json")
        .body(body)
        .await
        .expect_status(201)
        .json();
    assert_eq!(
        (&made["name"], &made["spec"], &made["labels"]),
        (&json!("twice"), &json!({"b": 3}), &json!({"x": "z"}))
    );
    assert_eq!(app.read(&made).await, made);
    for body in [
        r#"{"spec": {"a": {"$serde_json::private::Number": "1"}, "a": 1}}"#,
        r#"{"spec": {"a": {"\u0024serde_json::private::RawValue": "]"}}, "spec": {}}"#,
    ] {
        let refused = app.patch(href(&made)).header("content-type", MERGE).body(body).await;
        assert_eq!(refused.expect_status(400).problem_code(), "HYPERFLEET-VAL-003", "{body}");
    }
    still_serves(app).await;
}

/// An object with members `<prefix>0`, `<prefix>1` and so on.
fn many(count: usize, prefix: &str, value: &Value) -> Value {
    let members = (0..count).map(|n| (format!("{prefix}{n}"), value.clone()));
    members.collect::<serde_json::Map<_, _>>().into()
}

async fn bodies_with_many_members_and_faults_are_answered(app: &App) {
    let labels = many(1_000, "label-", &json!("v"));
    let made = app
        .create("/clusters", &json!({"kind": "Cluster", "name": "labelled", "spec": {}, "labels": labels}))
        .await;
    assert_eq!(app.read(&made).await["labels"], labels);

    let bad = many(1_000, "-", &json!("-"));
    let refused = app
        .post("/clusters")
        .json(&json!({"kind": "Cluster", "name": "abc", "spec": {}, "labels": bad}))
        .await;
    harmless(&refused, "labels");
    let refused = refused.expect_status(400).json();
    assert_eq!(refused["errors"].as_array().unwrap().len(), 1_000);
    assert!(text(&refused["detail"]).contains("2000 errors, of which the first 1000 are listed"));

    let unknown = many(20_000, "member-", &json!(1));
    for call in [app.api().post(&format!("{BASE}/clusters")), app.api().patch(href(&made))] {
        harmless(&call.json(&unknown).await.expect_status(400), "members");
    }
    let spec = many(40_000, "k", &json!(1));
    let path = format!("{BASE}/clusters");
    let wide = app.api().post(&path).json(&json!({"kind": "Cluster", "name": "wide", "spec": spec})).await;
    let wide = wide.expect_status(201).json();
    let emptied = app.merge(&wide, &json!({"spec": many(40_000, "k", &Value::Null)})).await;
    assert_eq!((&emptied["spec"], &emptied["generation"]), (&json!({}), &json!(2)));
    still_serves(app).await;
}

/// Whatever is noted of each value by its path would be the size of the body times their number.
async fn a_long_key_above_many_values_costs_no_more_than_its_length(app: &App) {
    let key = "k".repeat(400_000);
    let spec = |value: u8| {
        let members: Vec<_> = (0..40_000).map(|n| format!("\"a{n}\": {value}")).collect();
        format!("{{\"{key}\": {{{}}}}}", members.join(","))
    };
    let made =
        app.api().post(&format!("{BASE}/clusters")).body(with_spec(&spec(1))).await.expect_status(201).json();
    let patch = format!("{{\"spec\": {}}}", spec(2));
    let patched = app.api().patch(href(&made)).body(patch).await.expect_status(200);
    assert_eq!(patched.json()["generation"], 2);
    let body = json!({"kind": "Cluster", "name": "nul", "spec": {&key: vec!["\0"; 1_000]}});
    let refused = app.api().post(&format!("{BASE}/clusters")).json(&body).await.expect_status(400);
    assert_eq!(refused.json()["errors"].as_array().unwrap().len(), 1_000);
    still_serves(app).await;
}

async fn json_patches_are_bounded(app: &App) {
    let body = json!({"kind": "Cluster", "name": "patched", "spec": {"l": [1, 2, 3], "n": 0}});
    let cluster = app.create("/clusters", &body).await;
    let send = async |operations: Vec<Value>| {
        let answer =
            app.patch(href(&cluster)).header("content-type", OPERATIONS).json(&operations.into()).await;
        harmless(&answer, "operations");
        answer
    };
    let adds = |count: usize| {
        (0..count).map(|n| json!({"op": "add", "path": format!("/spec/k{n}"), "value": n})).collect()
    };
    assert_eq!(send(adds(1_000)).await.expect_status(200).json()["generation"], 2);
    send(adds(1_001)).await.expect_status(400);
    let kept = app.read(&cluster).await;

    let double: Vec<_> =
        (0..60).map(|n| json!({"op": "copy", "from": "/spec/l", "path": format!("/spec/l/{n}")})).collect();
    send(double).await.expect_status(400);
    let nest: Vec<_> = (0..200).map(|_| json!({"op": "copy", "from": "/spec", "path": "/spec/l"})).collect();
    send(nest).await.expect_status(400);
    let wrap: Vec<_> = (0..100)
        .flat_map(|_| {
            [
                json!({"op": "move", "from": "/spec", "path": "/labels"}),
                json!({"op": "add", "path": "/spec", "value": {}}),
                json!({"op": "move", "from": "/labels", "path": "/spec/a"}),
            ]
        })
        .collect();
    send(wrap).await.expect_status(400);
    let large = "x".repeat(900_000);
    let grow: Vec<_> =
        (0..3).map(|n| json!({"op": "copy", "from": "/spec/a", "path": format!("/spec/b{n}")})).collect();
    send([vec![json!({"op": "add", "path": "/spec/a", "value": large})], grow].concat())
        .await
        .expect_status(400);
    for path in [
        "",
        "/",
        "spec",
        "/spec/",
        "/spec/l/-1",
        "/spec/l/99999999999999999999",
        "/spec/l/01",
        "/~",
        "/spec/~2",
    ] {
        for op in ["add", "remove", "replace", "move", "copy", "test"] {
            let answer =
                send(vec![json!({"op": op, "path": path, "from": path, "value": {"a": [path]}})]).await;
            assert!([200, 400, 409].contains(&answer.status), "{op} {path}: {answer}");
        }
    }
    assert_eq!(app.read(&cluster).await["spec"]["l"], kept["spec"]["l"]);
    still_serves(app).await;
}

async fn media_types_decide_before_the_body_is_read(app: &App) {
    let cluster = app.create_cluster("typed").await;
    let body = || with_spec("{}");
    for media_type in
        ["text/plain", "application/xml", "application/x-www-form-urlencoded", "*/*", "json", "a", "\"", ";"]
    {
        for (path, call) in [
            (format!("{BASE}/clusters"), app.api().post(&format!("{BASE}/clusters"))),
            (href(&cluster).to_owned(), app.api().patch(href(&cluster))),
            ("force-delete".to_owned(), app.api().post(&format!("{}/force-delete", href(&cluster)))),
        ] {
            let answer = call.header("content-type", media_type).body(body()).await;
            harmless(&answer, media_type);
            if media_type != ";" {
                assert_eq!(
                    (answer.status, answer.problem_code().as_str()),
                    (415, "HYPERFLEET-VAL-003"),
                    "{media_type} {path}"
                );
            }
        }
    }
    for media_type in [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json;x=\"",
        "",
    ] {
        let made = app.post("/clusters").header("content-type", media_type).body(body()).await;
        made.expect_status(201);
    }
    app.post("/clusters").body(body()).await.expect_status(201);
    still_serves(app).await;
}

both_stores!(
    a_body_that_is_no_json_is_refused_everywhere,
    a_json_body_that_is_no_object_is_refused,
    a_spec_is_at_most_64_levels_deep,
    numbers_of_any_size_are_kept_or_refused,
    the_last_of_duplicate_members_counts,
    bodies_with_many_members_and_faults_are_answered,
    a_long_key_above_many_values_costs_no_more_than_its_length,
    json_patches_are_bounded,
    media_types_decide_before_the_body_is_read,
);
