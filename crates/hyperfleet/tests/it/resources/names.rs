//! Names: their form by kind, and their uniqueness.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_name_fits_the_bounds_of_its_kind,
    a_name_is_lower_case_letters_digits_and_hyphens,
    a_taken_name_is_refused,
    a_finalizing_resource_frees_its_name,
    children_share_a_name_only_below_different_owners,
    a_name_never_changes,
);
both_stores!(config = CATALOG; names_are_unique_by_kind_and_have_default_bounds);

async fn try_name(app: &App, path: &str, kind: &str, name: &Value) -> hyperfleet_testkit::Answer {
    app.post(path).json(&json!({"kind": kind, "name": name, "spec": {}})).await
}

async fn a_name_fits_the_bounds_of_its_kind(app: &App) {
    let cluster = app.create_cluster("abc").await;
    let pools = format!("{}/nodepools", href(&cluster));
    for (path, kind, min, max) in [("/clusters", "Cluster", 3, 53), (&*pools, "NodePool", 3, 15)] {
        for length in [min, max] {
            try_name(app, path, kind, &"x".repeat(length).into()).await.expect_status(201);
        }
        for (length, constraint, bound) in
            [(min - 1, "min_length", "min_value"), (max + 1, "max_length", "max_value")]
        {
            let answer = try_name(app, path, kind, &"x".repeat(length).into()).await.expect_status(400);
            assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002");
            let fault = &answer.json()["errors"][0];
            assert_eq!((&fault["field"], &fault["constraint"]), (&json!("name"), &json!(constraint)));
            assert_eq!(fault[bound], json!(if length < min { min } else { max }));
        }
    }
    assert_snapshot!(transcript(&try_name(app, "/clusters", "Cluster", &"x".repeat(54).into()).await), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "name must have at most 53 characters, not 54",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "name",
          "message": "name must have at most 53 characters, not 54",
          "value": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
          "constraint": "max_length",
          "max_value": 53
        }
      ]
    }
    "#);
}

async fn a_name_is_lower_case_letters_digits_and_hyphens(app: &App) {
    for name in ["Abc", "-abc", "abc-", "a_bc", "a.bc", "a bc", "äbc", "abc\n", "a/c"] {
        let answer = try_name(app, "/clusters", "Cluster", &name.into()).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-002", "{name}");
        assert_eq!(answer.json()["errors"][0]["constraint"], "pattern", "{name}");
    }
    for name in ["0-9", "a--b", "999"] {
        try_name(app, "/clusters", "Cluster", &name.into()).await.expect_status(201);
    }
    let answer = try_name(app, "/clusters", "Cluster", &"Upper".into()).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Field Value",
      "status": 400,
      "detail": "name must consist of lower-case letters, digits and '-', and start and end with a letter or digit",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-VAL-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "name",
          "message": "name must consist of lower-case letters, digits and '-', and start and end with a letter or digit",
          "value": "Upper",
          "constraint": "pattern",
          "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
        }
      ]
    }
    "#);
    for empty in ["", "-"] {
        let answer = try_name(app, "/clusters", "Cluster", &empty.into()).await.expect_status(400);
        assert_eq!(answer.json()["errors"][0]["constraint"], "min_length");
    }
}

async fn a_taken_name_is_refused(app: &App) {
    app.create_cluster("taken").await;
    assert_snapshot!(transcript(&try_name(app, "/clusters", "Cluster", &"taken".into()).await), @r#"
    409
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-conflict",
      "title": "Resource Already Exists",
      "status": 409,
      "detail": "Cluster name 'taken' is already used by '[id 1]'",
      "instance": "/api/hyperfleet/v1/clusters",
      "code": "HYPERFLEET-CNF-001",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "name",
          "message": "Cluster name 'taken' is already used by '[id 1]'",
          "value": "taken",
          "constraint": "unique"
        }
      ]
    }
    "#);
    assert_eq!(app.names("/clusters").await, ["taken"]);
}

async fn a_finalizing_resource_frees_its_name(app: &App) {
    let first = app.create_cluster("again").await;
    app.remove(&first).await;
    let second = app.create_cluster("again").await;
    assert_ne!(first["id"], second["id"]);
    app.remove(&second).await;
    app.create_cluster("again").await;
    let answer = try_name(app, "/clusters", "Cluster", &"again".into()).await.expect_status(409);
    assert_eq!(answer.problem_code(), "HYPERFLEET-CNF-001");
    assert_eq!(app.names("/clusters?showDeleted=true").await, ["again", "again", "again"]);
}

async fn children_share_a_name_only_below_different_owners(app: &App) {
    let (one, other) = (app.create_cluster("one").await, app.create_cluster("other").await);
    app.create_nodepool(&one, "pool").await;
    app.create_nodepool(&other, "pool").await;
    let answer = try_name(app, &format!("{}/nodepools", href(&one)), "NodePool", &"pool".into()).await;
    assert_eq!(answer.expect_status(409).problem_code(), "HYPERFLEET-CNF-001");
}

async fn a_name_never_changes(app: &App) {
    let cluster = app.create_cluster("stays").await;
    let answer = app.patch(href(&cluster)).json(&json!({"name": "goes"})).await.expect_status(400);
    assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-003");
    assert_eq!(app.read(&cluster).await, cluster);
}

async fn names_are_unique_by_kind_and_have_default_bounds(app: &App) {
    app.create_named("/networks", "Network", "x").await;
    app.create_named("/zones", "Zone", "x").await;
    app.create_named("/networks", "Network", &"x".repeat(100)).await;
    for wrong in [0, 101] {
        let answer =
            try_name(app, "/networks", "Network", &"x".repeat(wrong).into()).await.expect_status(400);
        assert_eq!(answer.json()["errors"][0]["field"], "name");
    }
}
