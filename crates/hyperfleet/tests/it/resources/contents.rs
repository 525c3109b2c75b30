//! The values that a spec may hold, returned as they were sent.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    numbers_come_back_as_they_were_written,
    any_json_comes_back,
    a_spec_nests_sixty_four_levels_and_no_more,
    a_string_with_nul_is_refused_with_its_path,
);

fn cluster(name: &str, spec: &str) -> String {
    format!(r#"{{"kind":"Cluster","name":"{name}","spec":{spec}}}"#)
}

async fn numbers_come_back_as_they_were_written(app: &App) {
    let numbers = [
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1.5e400",
        "-1.5e-400",
        "1.0",
        "0",
        "-0",
        "1e2",
    ];
    for (i, number) in numbers.iter().enumerate() {
        let spec = format!(r#"{{"n":{number}}}"#);
        let created =
            app.post("/clusters").body(cluster(&format!("number-{i}"), &spec)).await.expect_status(201);
        let read = app.get(href(&created.json())).await.expect_status(200);
        let patched = app.patch(href(&created.json())).body(r#"{"spec":{"m":1}}"#).await.expect_status(200);
        for answer in [created, read, patched] {
            // As text: a JSON library might read two spellings as one number.
            let body = String::from_utf8(answer.body.to_vec()).unwrap();
            assert!(
                body.contains(&format!(r#""n":{number}}}"#)) || body.contains(&format!(r#""n":{number},"#)),
                "{body}"
            );
        }
    }
}

async fn any_json_comes_back(app: &App) {
    let spec = json!({
        "null": null, "true": true, "list": [1, [], {}, null, "x"], "empty": {}, "": {"": ""},
        "text": "\u{1}\u{7f}\u{e9}\u{2028}\u{fffd}\u{1f680} \" \\ / \n\t", "with.dot": 1, "with'quote": 1, "a/b~c": 1,
        "e\u{301}": "decomposed", "\u{e9}": "composed",
    });
    let created = app.create("/clusters", &json!({"kind": "Cluster", "name": "any", "spec": spec})).await;
    assert_eq!(created["spec"], spec);
    assert_eq!(app.read(&created).await["spec"], spec);
    assert_eq!(app.get("/clusters").await.json()["items"][0]["spec"], spec);
}

/// A spec of that many levels.
fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

async fn a_spec_nests_sixty_four_levels_and_no_more(app: &App) {
    let deep = app.post("/clusters").body(cluster("deep", &nested(64))).await.expect_status(201).json();
    let answer = app.post("/clusters").body(cluster("deeper", &nested(65))).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "spec is nested deeper than 64 levels",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "spec",
          "message": "spec is nested deeper than 64 levels",
          "constraint": "max_depth",
          "max_value": 64
        }
      ]
    }
    "#);

    let lists = format!(r#"{{"a":{}{}}}"#, "[".repeat(63), "]".repeat(63));
    app.post("/clusters").body(cluster("lists", &lists)).await.expect_status(201);
    let lists = format!(r#"{{"a":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    app.post("/clusters").body(cluster("lists-too", &lists)).await.expect_status(400);

    // Each patch is shallow enough; the merged spec would not be.
    let deepest = format!("/spec{}", "/a".repeat(64));
    let patch = json!([{"op": "replace", "path": deepest, "value": {"a": 1}}]);
    let patched =
        app.patch(href(&deep)).header("content-type", "application/json-patch+json").json(&patch).await;
    assert_eq!(patched.expect_status(400).problem_code(), "HYPERFLEET-VAL-002");
    assert_eq!(app.read(&deep).await, deep);
}

async fn a_string_with_nul_is_refused_with_its_path(app: &App) {
    let spec = r#"{"a":{"b c":["x","y\u0000"]},"k\u0000":1}"#;
    let answer = app.post("/clusters").body(cluster("nul", spec)).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Validation Error",
      "status": 400,
      "detail": "Request validation failed with 2 errors",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-000",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "spec.a['b c'][1]",
          "message": "spec.a['b c'][1] contains the character U+0000",
          "constraint": "pattern"
        },
        {
          "field": "spec['k']",
          "message": "spec['k'] contains the character U+0000",
          "constraint": "pattern"
        }
      ]
    }
    "#);

    let labels = json!({"kind": "Cluster", "name": "nul", "spec": {}, "labels": {"key": "a\u{0}"}});
    app.post("/clusters").json(&labels).await.expect_status(400);

    let cluster = app.create_cluster("nul").await;
    let answer = app.patch(href(&cluster)).json(&json!({"spec": {"deep": {"er": "\u{0}"}}})).await;
    assert_eq!(answer.expect_status(400).json()["errors"][0]["field"], "spec.deep.er");
    let patch = json!([{"op": "add", "path": "/spec/x", "value": ["\u{0}"]}]);
    let answer =
        app.patch(href(&cluster)).header("content-type", "application/json-patch+json").json(&patch).await;
    assert_eq!(answer.expect_status(400).json()["errors"][0]["field"], "spec.x[0]");
    assert_eq!(app.read(&cluster).await["spec"], Value::Object(serde_json::Map::new()));
}
