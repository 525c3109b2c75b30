//! PATCH by operations (RFC 6902) on a document of `spec`, `labels` and `references`.

use hyperfleet_testkit::Answer;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    every_json_patch_operation_works,
    a_failed_test_is_a_conflict_and_changes_nothing,
    a_missing_path_is_refused,
    malformed_operations_are_refused,
    operations_touch_nothing_but_the_three_members,
    labels_and_references_can_be_removed_and_a_spec_cannot,
    an_outcome_equal_to_the_present_changes_nothing,
    numbers_in_a_test_are_compared_by_value,
);

async fn apply(app: &App, resource: &Value, operations: &Value) -> Answer {
    app.patch(href(resource)).header("content-type", "application/json-patch+json").json(operations).await
}

async fn with_spec(app: &App, spec: Value) -> Value {
    app.create(
        "/clusters",
        &json!({"kind": "Cluster", "name": unique("cluster"), "spec": spec, "labels": {"k": "v"}}),
    )
    .await
}

async fn every_json_patch_operation_works(app: &App) {
    let cluster =
        with_spec(app, json!({"a": 1, "list": [1, 2, 3], "o": {"x": {"y": 1}}, "a/b": {"m~n": 1}, "": 0}))
            .await;
    let operations = json!([
        {"op": "test", "path": "/spec/o", "value": {"x": {"y": 1}}},
        {"op": "test", "path": "/labels/k", "value": "v"},
        {"op": "add", "path": "/spec/new", "value": {"deep": [null]}},
        {"op": "add", "path": "/spec/list/0", "value": 0},
        {"op": "add", "path": "/spec/list/-", "value": 4},
        {"op": "remove", "path": "/spec/list/1"},
        {"op": "remove", "path": "/spec/"},
        {"op": "replace", "path": "/spec/a", "value": "one"},
        {"op": "replace", "path": "/spec/a~1b/m~0n", "value": 2},
        {"op": "move", "from": "/spec/o/x", "path": "/spec/moved"},
        {"op": "copy", "from": "/spec/moved", "path": "/spec/copied"},
        {"op": "replace", "path": "/spec/copied/y", "value": 9},
        {"op": "copy", "from": "/spec/list/0", "path": "/spec/list/2"},
        {"op": "add", "path": "/labels/example.com~1name", "value": "w"},
        {"op": "test", "path": "/spec/moved/y", "value": 1},
    ]);
    let patched = apply(app, &cluster, &operations).await.expect_status(200).json();
    assert_eq!(
        patched["spec"],
        json!({"a": "one", "list": [0, 2, 0, 3, 4], "o": {}, "a/b": {"m~n": 2}, "new": {"deep": [null]},
               "moved": {"y": 1}, "copied": {"y": 9}})
    );
    assert_eq!(patched["labels"], json!({"k": "v", "example.com/name": "w"}));
    assert_eq!(patched["generation"], 2);
    assert_eq!(app.read(&cluster).await, patched);

    let whole = json!([{"op": "replace", "path": "/spec", "value": {"only": true}}]);
    assert_eq!(apply(app, &cluster, &whole).await.expect_status(200).json()["spec"], json!({"only": true}));
}

async fn a_failed_test_is_a_conflict_and_changes_nothing(app: &App) {
    let cluster = with_spec(app, json!({"a": 1})).await;
    let operations = json!([
        {"op": "add", "path": "/spec/b", "value": 1},
        {"op": "test", "path": "/spec/a", "value": "1"},
        {"op": "add", "path": "/spec/c", "value": 1},
    ]);
    assert_snapshot!(transcript(&apply(app, &cluster, &operations).await), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "State Conflict",
      "status": 409,
      "detail": "The test of '/spec/a' in operation 1 failed: the value is another one",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-CNF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn a_missing_path_is_refused(app: &App) {
    let cluster = with_spec(app, json!({"a": 1, "list": [1]})).await;
    for operation in [
        json!({"op": "remove", "path": "/spec/absent"}),
        json!({"op": "replace", "path": "/spec/absent", "value": 1}),
        json!({"op": "add", "path": "/spec/absent/below", "value": 1}),
        json!({"op": "add", "path": "/spec/list/2", "value": 1}),
        json!({"op": "add", "path": "/spec/list/01", "value": 1}),
        json!({"op": "add", "path": "/spec/list/x", "value": 1}),
        json!({"op": "remove", "path": "/spec/list/1"}),
        json!({"op": "remove", "path": "/spec/list/-"}),
        json!({"op": "add", "path": "/spec/a/below", "value": 1}),
        json!({"op": "move", "from": "/spec/absent", "path": "/spec/b"}),
        json!({"op": "copy", "from": "/spec/absent", "path": "/spec/b"}),
        json!({"op": "move", "from": "/spec/list", "path": "/spec/list/0"}),
        json!({"op": "remove", "path": "/labels/absent"}),
    ] {
        let answer = apply(app, &cluster, &json!([operation])).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002", "{operation}");
    }
    let operations = json!([
        {"op": "add", "path": "/spec/b", "value": 1},
        {"op": "remove", "path": "/spec/absent"},
    ]);
    assert_snapshot!(transcript(&apply(app, &cluster, &operations).await), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "[1].path: nothing is at '/spec/absent'",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "[1].path",
          "message": "[1].path: nothing is at '/spec/absent'",
          "value": "/spec/absent",
          "constraint": "path"
        }
      ]
    }
    "#);
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn malformed_operations_are_refused(app: &App) {
    let cluster = with_spec(app, json!({"a": 1})).await;
    let operations = json!([
        {"path": "/spec/a"}, {"op": "increment", "path": "/spec/a"}, {"op": "add", "path": "/spec/a"}, 5,
        {"op": "remove"}, {"op": "move", "path": "/spec/b"}, {"op": "remove", "path": "spec/a"},
        {"op": "remove", "path": "/spec/~2"}, {"op": 5, "path": "/spec/a"}, {"op": "test", "path": "/spec/a"},
    ]);
    let answer = apply(app, &cluster, &operations).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    assert_snapshot!(faults(&answer), @"
    [0].op: [0].op is required
    [1].op: [1].op must be one of add, remove, replace, move, copy, test
    [2].value: [2].value is required
    [3]: [3] must be an object, not a number
    [4].path: [4].path is required
    [5].from: [5].from is required
    [6].path: [6].path must be a JSON Pointer such as /spec/region
    [7].path: [7].path must be a JSON Pointer such as /spec/region
    [8].op: [8].op must be one of add, remove, replace, move, copy, test
    [9].value: [9].value is required
    ");

    let answer = apply(app, &cluster, &json!([])).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-001");

    // Members that an operation does not know are ignored, and null is a value.
    let operations = json!([{"op": "add", "path": "/spec/null", "value": null, "comment": "why not"}]);
    let patched = apply(app, &cluster, &operations).await.expect_status(200).json();
    assert_eq!(patched["spec"], json!({"a": 1, "null": null}));
}

async fn operations_touch_nothing_but_the_three_members(app: &App) {
    let cluster = with_spec(app, json!({"a": 1})).await;
    for operation in [
        json!({"op": "add", "path": "/colour", "value": 1}),
        json!({"op": "replace", "path": "/name", "value": "other"}),
        json!({"op": "add", "path": "/generation", "value": 1}),
        json!({"op": "copy", "from": "/spec", "path": "/status"}),
        json!({"op": "replace", "path": "", "value": 5}),
    ] {
        apply(app, &cluster, &json!([operation])).await.expect_status(400);
    }
    let answer = apply(app, &cluster, &json!([{"op": "add", "path": "/colour", "value": 1}])).await;
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003");
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn labels_and_references_can_be_removed_and_a_spec_cannot(app: &App) {
    let cluster = with_spec(app, json!({"a": 1})).await;
    for operation in
        [json!({"op": "remove", "path": "/spec"}), json!({"op": "replace", "path": "/spec", "value": []})]
    {
        let answer = apply(app, &cluster, &json!([operation])).await.expect_status(400);
        assert_eq!(answer.json()["errors"][0]["field"], "spec");
    }
    let bad = json!([{"op": "add", "path": "/labels/a b", "value": 1}]);
    let answer = apply(app, &cluster, &bad).await.expect_status(400);
    assert_eq!(answer.json()["errors"][0]["field"], "labels['a b']");

    let operations = json!([{"op": "remove", "path": "/labels"}, {"op": "remove", "path": "/references"}]);
    let patched = apply(app, &cluster, &operations).await.expect_status(200).json();
    assert_eq!((&patched["labels"], &patched["generation"]), (&json!({}), &json!(1)));
}

async fn an_outcome_equal_to_the_present_changes_nothing(app: &App) {
    let cluster = with_spec(app, json!({"a": 1})).await;
    let operations = json!([
        {"op": "add", "path": "/spec/b", "value": 1},
        {"op": "remove", "path": "/spec/b"},
        {"op": "replace", "path": "/spec/a", "value": 1.0},
        {"op": "move", "from": "/spec/a", "path": "/spec/a"},
    ]);
    let tag = app.etag(&cluster).await;
    let answer = apply(app, &cluster, &operations).await.expect_status(200);
    assert_eq!(answer.json(), cluster);
    assert_eq!(etag(&answer), tag);
}

async fn numbers_in_a_test_are_compared_by_value(app: &App) {
    let cluster = with_spec(app, json!({"a": 1, "o": {"x": 1, "y": [2]}})).await;
    let operations = json!([
        {"op": "test", "path": "/spec/a", "value": 1.0},
        {"op": "test", "path": "/spec/o", "value": {"y": [2.0], "x": 1}},
        {"op": "test", "path": "/spec", "value": {"o": {"x": 1, "y": [2]}, "a": 1}},
    ]);
    apply(app, &cluster, &operations).await.expect_status(200);
}
