//! `If-Match` on PATCH, DELETE and force-delete.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    the_present_version_matches,
    another_version_is_a_conflict_that_names_both,
    a_star_matches_an_existing_resource,
    a_list_of_tags_matches_when_one_does,
    a_weak_tag_never_matches,
    a_malformed_list_of_tags_is_refused,
    a_tag_that_is_no_number_is_quoted_as_sent,
    delete_and_force_delete_check_if_match,
);

const PATCH: &str = r#"{"spec": {"a": 1}}"#;

async fn patch(app: &App, resource: &Value, if_match: &str) -> hyperfleet_testkit::Answer {
    app.patch(href(resource)).header("if-match", if_match).body(PATCH).await
}

async fn the_present_version_matches(app: &App) {
    let cluster = app.create_cluster("match").await;
    let tag = app.etag(&cluster).await;
    let patched = patch(app, &cluster, &tag).await.expect_status(200);
    let newer = etag(&patched);
    patch(app, &cluster, &tag).await.expect_status(409);
    patch(app, &cluster, &newer).await.expect_status(200);
}

async fn another_version_is_a_conflict_that_names_both(app: &App) {
    let cluster = app.create_cluster("mismatch").await;
    let tag = app.etag(&cluster).await;
    app.merge(&cluster, &json!({"labels": {"a": "b"}})).await;
    let answer = patch(app, &cluster, &tag).await.expect_status(409);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let old = tag.trim_matches('"');
    let new = app.get(href(&cluster)).await.version().unwrap();
    let mut problem = answer.json();
    assert_eq!(problem["expected_version"].take(), old);
    assert_eq!(problem["actual_version"].take(), new);
    assert_eq!(
        problem["detail"].take(),
        format!(
            "Cluster '{}' was modified by another request. Expected version {old}, found version {new}.",
            id(&cluster)
        )
    );
    assert_snapshot!(redacted(&problem), @r#"
    {
      "type": "https://api.hyperfleet.io/errors/version-conflict",
      "title": "Version Conflict",
      "status": 409,
      "detail": null,
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-CNF-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "expected_version": null,
      "actual_version": null
    }
    "#);
    assert_eq!(app.read(&cluster).await["spec"], json!({}));
}

async fn a_star_matches_an_existing_resource(app: &App) {
    let cluster = app.create_cluster("star").await;
    patch(app, &cluster, "*").await.expect_status(200);
    let answer = app.patch("/clusters/absent").header("if-match", "*").body(PATCH).await.expect_status(404);
    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-002");
}

async fn a_list_of_tags_matches_when_one_does(app: &App) {
    let cluster = app.create_cluster("list").await;
    let tag = app.etag(&cluster).await;
    patch(app, &cluster, "\"1000001\", \"1000002\"").await.expect_status(409);
    patch(app, &cluster, &format!("\"1000001\",{tag} , \"x,y\"")).await.expect_status(200);
    let tag = app.etag(&cluster).await;
    let two = app
        .patch(href(&cluster))
        .header("if-match", "\"1000001\"")
        .header("if-match", &tag)
        .body(PATCH)
        .await;
    two.expect_status(200);
}

async fn a_weak_tag_never_matches(app: &App) {
    let cluster = app.create_cluster("weak").await;
    let tag = app.etag(&cluster).await;
    let answer = patch(app, &cluster, &format!("W/{tag}")).await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-002");
    patch(app, &cluster, &format!("W/{tag}, {tag}")).await.expect_status(200);
}

async fn a_malformed_list_of_tags_is_refused(app: &App) {
    let cluster = app.create_cluster("malformed").await;
    for header in ["1", "\"1", "1\"", "\"1\" \"2\"", "w/\"1\"", "*, \"1\"", "\"a\"b", "", ",", "**"] {
        let answer = patch(app, &cluster, header).await.expect_status(400);
        assert!(answer.problem_code().starts_with("HYPERFLEET-VAL-"), "{header}: {answer}");
    }
    assert_snapshot!(transcript(&patch(app, &cluster, "42").await), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "If-Match must be * or a list of entity tags such as \"42\", not 42",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "If-Match",
          "message": "If-Match must be * or a list of entity tags such as \"42\", not 42",
          "value": "42",
          "constraint": "format",
          "format": "entity-tag"
        }
      ]
    }
    "#);
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn a_tag_that_is_no_number_is_quoted_as_sent(app: &App) {
    let cluster = app.create_cluster("text").await;
    for (sent, expected) in
        [("\"abc\"", json!("abc")), ("\"\"", json!("")), ("\"99999999\"", json!(99_999_999))]
    {
        let answer = patch(app, &cluster, sent).await.expect_status(409);
        assert_eq!(answer.json()["expected_version"], expected);
    }
    let answer = patch(app, &cluster, "\"123456789012345678901234567890\"").await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-002");
}

async fn delete_and_force_delete_check_if_match(app: &App) {
    let cluster = app.create_cluster("removal").await;
    let tag = app.etag(&cluster).await;
    let answer = app.delete(href(&cluster)).header("if-match", "\"999999\"").await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-002");
    app.delete(href(&cluster)).header("if-match", "nonsense").await.expect_status(400);
    assert_eq!(app.read(&cluster).await, cluster);
    app.delete(href(&cluster)).header("if-match", &tag).await.expect_status(202);

    let force = format!("{}/force-delete", href(&cluster));
    let reason = json!({"reason": "stuck"});
    let answer = app.post(&force).header("if-match", &tag).json(&reason).await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-002");
    app.delete(href(&cluster)).header("if-match", &tag).await.expect_status(409);
    app.post(&force).header("if-match", "nonsense").json(&reason).await.expect_status(400);
    let tag = app.etag(&cluster).await;
    app.post(&force).header("if-match", &tag).json(&reason).await.expect_status(204);
    app.post(&force).header("if-match", "*").json(&reason).await.expect_status(404);
    app.delete(href(&cluster)).header("if-match", "*").await.expect_status(404);
}
