//! PATCH by merging (RFC 7396): changed and unchanged members, and refusals.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::*;

both_stores!(
    members_that_are_sent_change_and_the_others_stay,
    null_removes_a_member_at_any_depth,
    a_changed_spec_is_a_new_generation,
    changed_labels_are_not_a_new_generation,
    labels_and_spec_change_together_in_one_generation,
    a_patch_that_changes_nothing_changes_nothing_at_all,
    specs_are_equal_by_value,
    null_empties_the_labels,
    a_patch_without_members_is_refused,
    a_spec_cannot_be_removed,
    other_members_are_refused,
    merged_labels_are_checked,
    a_finalizing_resource_and_its_children_refuse_changes,
    the_media_type_selects_the_patch_format,
    a_child_is_patched_by_every_path,
);

both_stores!(config = "server: {limits: {body_bytes: 4096}}"; patches_cannot_grow_a_resource_without_end);

async fn patches_cannot_grow_a_resource_without_end(app: &App) {
    let created = app.create_cluster("growing").await;
    for member in ["labels", "spec"] {
        let grow = async |round: usize| {
            let more: serde_json::Map<_, _> =
                (0..150).map(|i| (format!("key-{round}-{i}"), json!("value"))).collect();
            app.patch(href(&created)).json(&json!({member: more})).await
        };
        grow(1).await.expect_status(200);
        let refused = grow(2).await.expect_status(400);
        assert_eq!(refused.json()["errors"][0]["field"], member);
        assert_eq!(refused.json()["errors"][0]["constraint"], "max_length");
    }
}

async fn members_that_are_sent_change_and_the_others_stay(app: &App) {
    let body = json!({
        "kind": "Cluster", "name": "merge", "labels": {"a": "1", "b": "2"},
        "spec": {"keep": 1, "object": {"x": 1, "y": [1, 2]}, "list": [1, 2, 3], "text": "old"},
    });
    let created = app.create("/clusters", &body).await;
    let patch = json!({"spec": {"object": {"y": [3]}, "list": {"now": "an object"}, "text": {"a": {"b": null}}, "new": []},
                       "labels": {"b": "3", "c": ""}});
    let answer = app.patch(href(&created)).json(&patch).await.expect_status(200);
    let patched = answer.json();
    assert_eq!(
        patched["spec"],
        json!({"keep": 1, "object": {"x": 1, "y": [3]}, "list": {"now": "an object"}, "text": {"a": {}}, "new": []})
    );
    assert_eq!(patched["labels"], json!({"a": "1", "b": "3", "c": ""}));
    assert_snapshot!(transcript(&answer), @r#"
    200
    content-type: application/json
    etag: "[version]"

    {
      "kind": "Cluster",
      "id": "[id 1]",
      "href": "/api/hyperfleet/v1/clusters/[id 1]",
      "name": "merge",
      "generation": 2,
      "spec": {
        "keep": 1,
        "object": {
          "x": 1,
          "y": [
            3
          ]
        },
        "list": {
          "now": "an object"
        },
        "text": {
          "a": {}
        },
        "new": []
      },
      "labels": {
        "a": "1",
        "b": "3",
        "c": ""
      },
      "created_time": "[time 1]",
      "updated_time": "[time 2]",
      "created_by": "system@hyperfleet.local",
      "updated_by": "system@hyperfleet.local",
      "status": {
        "conditions": [
          {
            "type": "Reconciled",
            "status": "False",
            "reason": "ReconciledMissingAdapters",
            "message": "Required adapters have not yet reported status at generation 2: validator",
            "observed_generation": 2,
            "created_time": "[time 1]",
            "last_updated_time": "[time 2]",
            "last_transition_time": "[time 1]"
          },
          {
            "type": "LastKnownReconciled",
            "status": "False",
            "reason": "AdaptersMissingReports",
            "message": "Required adapters have not yet reported status",
            "observed_generation": 1,
            "created_time": "[time 1]",
            "last_updated_time": "[time 1]",
            "last_transition_time": "[time 1]"
          }
        ]
      }
    }
    "#);
    assert_eq!(app.read(&created).await, patched);
    assert_eq!(app.etag(&created).await, etag(&answer));
}

async fn null_removes_a_member_at_any_depth(app: &App) {
    let spec = json!({"a": {"b": {"c": 1, "d": 2}}, "e": 3, "f": null});
    let created = app.create("/clusters", &json!({"kind": "Cluster", "name": "nulls", "spec": spec})).await;
    assert_eq!(created["spec"], spec);
    let patched =
        app.merge(&created, &json!({"spec": {"a": {"b": {"c": null}}, "e": null, "unknown": null}})).await;
    assert_eq!(patched["spec"], json!({"a": {"b": {"d": 2}}, "f": null}));
    let patched = app.merge(&created, &json!({"spec": {"f": null, "a": null}})).await;
    assert_eq!(patched["spec"], json!({}));
    assert_eq!(patched["generation"], 3);
}

async fn a_changed_spec_is_a_new_generation(app: &App) {
    let mut before = app.create_cluster("generation").await;
    for generation in 2..5 {
        let after = app.merge(&before, &json!({"spec": {"n": generation}})).await;
        assert_eq!(after["generation"], generation);
        assert!(text(&after["updated_time"]) > text(&before["updated_time"]));
        assert_eq!(after["created_time"], before["created_time"]);
        before = after;
    }
}

async fn changed_labels_are_not_a_new_generation(app: &App) {
    let before = app.create_cluster("labels").await;
    let tag = app.etag(&before).await;
    let answer = app.patch(href(&before)).json(&json!({"labels": {"a": "b"}})).await.expect_status(200);
    let after = answer.json();
    assert_eq!((&after["generation"], &after["labels"]), (&json!(1), &json!({"a": "b"})));
    assert!(text(&after["updated_time"]) > text(&before["updated_time"]));
    assert_ne!(etag(&answer), tag);
}

async fn labels_and_spec_change_together_in_one_generation(app: &App) {
    let before = app.create_cluster("both").await;
    let after = app.merge(&before, &json!({"labels": {"a": "b"}, "spec": {"a": 1}})).await;
    assert_eq!(after["generation"], 2);
}

async fn a_patch_that_changes_nothing_changes_nothing_at_all(app: &App) {
    let body = json!({"kind": "Cluster", "name": "same", "spec": {"a": {"b": 1}}, "labels": {"k": "v"}});
    let before = app.create("/clusters", &body).await;
    let tag = app.etag(&before).await;
    let version = app.get("/clusters").await.json()["version"].clone();
    for patch in [
        json!({"spec": {}}),
        json!({"labels": {}}),
        json!({"references": {}}),
        json!({"spec": {"a": {"b": 1}}}),
        json!({"spec": {"absent": null}, "labels": {"absent": null, "k": "v"}}),
        json!({"references": null}),
    ] {
        let answer = app.patch(href(&before)).json(&patch).await.expect_status(200);
        assert_eq!(answer.json(), before, "{patch}");
        assert_eq!(etag(&answer), tag);
    }
    assert_eq!(app.etag(&before).await, tag);
    assert_eq!(app.get("/clusters").await.json()["version"], version);
}

async fn specs_are_equal_by_value(app: &App) {
    let body = r#"{"kind":"Cluster","name":"numbers","spec":{"n":1,"list":[100,{"x":0.50}]}}"#;
    let before = app.post("/clusters").body(body).await.expect_status(201);
    let tag = etag(&before);
    let patch = r#"{"spec":{"list":[1e2,{"x":5E-1}],"n":1.0}}"#;
    let answer = app.patch(href(&before.json())).body(patch).await.expect_status(200);
    assert_eq!(answer.body, before.body);
    assert_eq!(etag(&answer), tag);

    let patch = r#"{"spec":{"n":1.0000000000000000000000001}}"#;
    let answer = app.patch(href(&before.json())).body(patch).await.expect_status(200);
    assert_eq!(answer.json()["generation"], 2);
}

async fn null_empties_the_labels(app: &App) {
    let body = json!({"kind": "Cluster", "name": "labels", "spec": {}, "labels": {"a": "1", "b": "2"}});
    let before = app.create("/clusters", &body).await;
    assert_eq!(app.merge(&before, &json!({"labels": {"a": null}})).await["labels"], json!({"b": "2"}));
    let after = app.merge(&before, &json!({"labels": null})).await;
    assert_eq!((&after["labels"], &after["generation"]), (&json!({}), &json!(1)));
}

async fn a_patch_without_members_is_refused(app: &App) {
    let cluster = app.create_cluster("empty").await;
    let answer = app.patch(href(&cluster)).json(&json!({})).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Required Field Missing",
      "status": 400,
      "detail": "At least one of spec, labels, references is required",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-VAL-001",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "spec",
          "message": "At least one of spec, labels, references is required",
          "constraint": "required"
        }
      ]
    }
    "#);
    for body in ["", "[]", "null", "5"] {
        let answer = app.patch(href(&cluster)).body(body).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003", "{body}");
    }
}

async fn a_spec_cannot_be_removed(app: &App) {
    let cluster = app.create_cluster("spec").await;
    for spec in [json!(null), json!([]), json!("text"), json!(5)] {
        let answer = app.patch(href(&cluster)).json(&json!({"spec": spec})).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002", "{spec}");
    }
    let answer = app.patch(href(&cluster)).json(&json!({"spec": null})).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "spec must be an object, not null",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "spec",
          "message": "spec must be an object, not null",
          "value": null,
          "constraint": "type"
        }
      ]
    }
    "#);
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn other_members_are_refused(app: &App) {
    let cluster = app.create_cluster("others").await;
    for member in ["name", "kind", "id", "generation", "status", "colour", "Spec"] {
        let patch = json!({"spec": {"a": 1}, member: cluster["name"]});
        let answer = app.patch(href(&cluster)).json(&patch).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003", "{member}");
        assert_eq!(answer.json()["errors"][0]["field"], member);
    }
    let answer = app
        .patch(href(&cluster))
        .json(&json!({"colour": 1, "labels": 5, "spec": 6}))
        .await
        .expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-000");
    assert_snapshot!(faults(&answer), @"
    colour: colour is not a known member
    labels: labels must be an object, not a number
    spec: spec must be an object, not a number
    ");
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn merged_labels_are_checked(app: &App) {
    let cluster = app.create_cluster("labels").await;
    let answer = app
        .patch(href(&cluster))
        .json(&json!({"labels": {"a b": "1", "c": 5, "d": "-"}}))
        .await
        .expect_status(400);
    assert_snapshot!(faults(&answer), @"
    labels['a b']: labels['a b']: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
    labels.c: labels.c must be a string, not a number
    labels.d: labels.d: the value must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'
    ");
    // What is removed need not have been allowed.
    app.patch(href(&cluster)).json(&json!({"labels": {"a b": null}})).await.expect_status(200);
}

async fn a_finalizing_resource_and_its_children_refuse_changes(app: &App) {
    let cluster = app.create_cluster("parent").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    app.remove(&cluster).await;
    let answer = app.patch(href(&cluster)).json(&json!({"labels": {"a": "b"}})).await;
    assert_snapshot!(transcript(&answer), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "State Conflict",
      "status": 409,
      "detail": "Cluster '[id 1]' is being deleted and cannot be changed",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-CNF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
    let answer = app.patch(href(&pool)).json(&json!({"spec": {"a": 1}})).await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-003");
}

async fn the_media_type_selects_the_patch_format(app: &App) {
    let cluster = app.create_cluster("types").await;
    let merge = r#"{"spec": {"a": 1}}"#;
    for media_type in ["application/merge-patch+json", "application/json", "application/json; charset=utf-8"]
    {
        app.patch(href(&cluster)).header("content-type", media_type).body(merge).await.expect_status(200);
    }
    let operations = r#"[{"op": "add", "path": "/spec/b", "value": 2}]"#;
    let json_patch = "application/json-patch+json";
    app.patch(href(&cluster)).header("content-type", json_patch).body(operations).await.expect_status(200);
    assert_eq!(app.read(&cluster).await["spec"], json!({"a": 1, "b": 2}));

    for (media_type, body) in [(json_patch, merge), ("application/json", operations)] {
        let answer =
            app.patch(href(&cluster)).header("content-type", media_type).body(body).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003", "{media_type}");
    }
    for media_type in ["text/plain", "application/strategic-merge-patch+json", "application/yaml"] {
        app.patch(href(&cluster)).header("content-type", media_type).body(merge).await.expect_status(415);
    }
    let answer = app.patch(href(&cluster)).header("content-type", "application/yaml").body("spec: {}").await;
    assert_snapshot!(transcript(&answer), @r#"
    415
    content-type: application/problem+json
    accept-patch: application/merge-patch+json, application/json-patch+json, application/json

    {
      "type": "https://api.hyperfleet.io/errors/invalid-request",
      "title": "Invalid Request Body",
      "status": 415,
      "detail": "The media type 'application/yaml' is not supported. Send application/merge-patch+json, application/json-patch+json, application/json.",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-VAL-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
}

async fn a_child_is_patched_by_every_path(app: &App) {
    let cluster = app.create_cluster("parent").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let paths = [
        format!("/nodepools/{}", id(&pool)),
        format!("/clusters/{}/nodepools/{}", id(&cluster), id(&pool)),
        format!("/resources/{}", id(&pool)),
    ];
    for (i, path) in paths.iter().enumerate() {
        let answer = app.patch(path).json(&json!({"spec": {"n": i}})).await.expect_status(200);
        assert_eq!(answer.json()["generation"], i + 2);
    }
    assert_eq!(app.read(&cluster).await, cluster, "a child's change leaves its owner alone");
}
