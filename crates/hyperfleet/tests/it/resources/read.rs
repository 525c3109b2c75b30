//! GET and HEAD of one resource, on every path.

use insta::assert_snapshot;

use crate::support::*;

both_stores!(
    a_child_is_found_flat_nested_and_among_resources,
    a_wrong_ancestor_is_not_found,
    an_unknown_id_is_not_found_in_any_form,
    an_id_that_is_too_long_or_has_control_characters_is_refused,
    if_none_match_with_the_present_version_answers_304,
    head_is_get_without_the_body,
    one_trailing_slash_is_tolerated,
    a_resource_is_not_found_under_another_kind,
    an_unknown_query_parameter_is_refused,
);
both_stores!(config = CATALOG; the_whole_chain_of_ancestors_is_checked);

async fn a_child_is_found_flat_nested_and_among_resources(app: &App) {
    let cluster = app.create_cluster("parent").await;
    let pool = app.create_nodepool(&cluster, "pool").await;
    let (cluster, id) = (id(&cluster), id(&pool));
    for path in [
        format!("/nodepools/{id}"),
        format!("/clusters/{cluster}/nodepools/{id}"),
        format!("/resources/{id}"),
    ] {
        let answer = app.get(&path).await.expect_status(200);
        assert_eq!(answer.json(), pool);
        assert_eq!(etag(&answer), app.etag(&pool).await);
    }
}

async fn a_wrong_ancestor_is_not_found(app: &App) {
    let (one, other) = (app.create_cluster("one").await, app.create_cluster("other").await);
    let pool = app.create_nodepool(&one, "pool").await;

    let answer = app.get(&format!("/clusters/{}/nodepools/{}", id(&other), id(&pool))).await;
    assert_snapshot!(transcript(&answer), @r#"
    404
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-not-found",
      "title": "NodePool Not Found",
      "status": 404,
      "detail": "NodePool '[id 1]' not found",
      "instance": "/api/hyperfleet/v1/clusters/[id 2]/nodepools/[id 1]",
      "code": "HYPERFLEET-NTF-003",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);

    let answer = app.get(&format!("/clusters/absent/nodepools/{}", id(&pool))).await.expect_status(404);
    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-002");
    assert_eq!(answer.json()["detail"], "Cluster 'absent' not found");

    let wrong = format!("/clusters/{}/nodepools/{}", id(&other), id(&pool));
    app.patch(&wrong).json(&serde_json::json!({"spec": {"a": 1}})).await.expect_status(404);
    app.delete(&wrong).await.expect_status(404);
    app.get("/clusters/absent/nodepools").await.expect_status(404);
    assert_eq!(app.read(&pool).await, pool);
}

async fn the_whole_chain_of_ancestors_is_checked(app: &App) {
    let zones =
        [app.create_named("/zones", "Zone", "a").await, app.create_named("/zones", "Zone", "b").await];
    let rack = app.create_named(&format!("{}/racks", href(&zones[0])), "Rack", "rack").await;
    let host = app.create_named(&format!("{}/hosts", href(&rack)), "Host", "host").await;
    let path = |zone: usize| format!("/zones/{}/racks/{}/hosts/{}", id(&zones[zone]), id(&rack), id(&host));
    assert_eq!(app.get(&path(0)).await.expect_status(200).json(), host);
    let answer = app.get(&path(1)).await.expect_status(404);
    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-001");
    app.delete(&path(1)).await.expect_status(404);
    app.post(&format!("/zones/{}/racks/{}/hosts", id(&zones[1]), id(&rack)))
        .json(&serde_json::json!({"kind": "Host", "name": "lost", "spec": {}}))
        .await
        .expect_status(404);
}

async fn an_unknown_id_is_not_found_in_any_form(app: &App) {
    app.create_cluster("here").await;
    for id in [
        "0198c0de-1111-7abc-8def-000000000001",
        "00000000-0000-0000-0000-000000000000",
        "absent",
        "42",
        "%20",
        "%C3%A9",
        "'%20OR%201=1--",
        "..%2Fclusters",
        &"x".repeat(255),
        "*",
        "{id}".replace('{', "%7B").replace('}', "%7D").as_str(),
    ] {
        let answer = app.get(&format!("/clusters/{id}")).await.expect_status(404);
        assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-002", "{id}");
    }
    let answer = app.get("/clusters/absent").await;
    assert_snapshot!(transcript(&answer), @r#"
    404
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/resource-not-found",
      "title": "Cluster Not Found",
      "status": 404,
      "detail": "Cluster 'absent' not found",
      "instance": "/api/hyperfleet/v1/clusters/absent",
      "code": "HYPERFLEET-NTF-002",
      "timestamp": "[time 1]",
      "trace_id": "[trace]"
    }
    "#);
    assert_eq!(app.get("/nodepools/absent").await.expect_status(404).problem_code(), "HYPERFLEET-NTF-003");
    assert_eq!(app.get("/resources/absent").await.expect_status(404).problem_code(), "HYPERFLEET-NTF-001");
    let patch = serde_json::json!({"spec": {"a": 1}});
    app.patch("/clusters/absent").json(&patch).await.expect_status(404);
    app.delete("/clusters/absent").await.expect_status(404);
    let reason = serde_json::json!({"reason": "gone"});
    app.post("/clusters/absent/force-delete").json(&reason).await.expect_status(404);
}

async fn an_id_that_is_too_long_or_has_control_characters_is_refused(app: &App) {
    for id in [&*"x".repeat(256), "a%00b", "a%0Ab", "%7F", &"%C3%A9".repeat(128)] {
        for path in
            [format!("/clusters/{id}"), format!("/resources/{id}"), format!("/clusters/{id}/nodepools")]
        {
            let answer = app.get(&path).await.expect_status(400);
            assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-005", "{path}");
        }
    }
    let answer = app.delete("/clusters/a%00b").await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Invalid Path Parameter",
      "status": 400,
      "detail": "cluster_id must not contain control characters",
      "instance": "/api/hyperfleet/v1/clusters/a%00b",
      "code": "HYPERFLEET-VAL-005",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "cluster_id",
          "message": "cluster_id must not contain control characters",
          "value": "ab",
          "constraint": "pattern"
        }
      ]
    }
    "#);
}

async fn if_none_match_with_the_present_version_answers_304(app: &App) {
    let cluster = app.create_cluster("known").await;
    let tag = app.etag(&cluster).await;
    for known in [tag.clone(), format!("\"other\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
        let answer = app.get(href(&cluster)).header("if-none-match", &known).await.expect_status(304);
        assert_eq!(etag(&answer), tag, "{known}");
        assert!(answer.body.is_empty());
    }
    let answer = app.get(href(&cluster)).header("if-none-match", "\"other\"").await.expect_status(200);
    assert_eq!(answer.json(), cluster);

    app.merge(&cluster, &serde_json::json!({"labels": {"a": "b"}})).await;
    let answer = app.get(href(&cluster)).header("if-none-match", &tag).await.expect_status(200);
    assert_ne!(etag(&answer), tag);
}

async fn head_is_get_without_the_body(app: &App) {
    let cluster = app.create_cluster("head").await;
    let get = app.get(href(&cluster)).await.expect_status(200);
    let head = app.head(href(&cluster)).await.expect_status(200);
    assert!(head.body.is_empty());
    for name in ["etag", "content-type", "content-length", "vary"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
    app.head(href(&cluster)).header("if-none-match", etag(&get)).await.expect_status(304);
    app.head("/clusters/absent").await.expect_status(404);
    app.head("/clusters").await.expect_status(200);
}

async fn one_trailing_slash_is_tolerated(app: &App) {
    let cluster = app.create_cluster("slash").await;
    let path = format!("{}/", href(&cluster));
    assert_eq!(app.get(&path).await.expect_status(200).json(), cluster);
    app.get("/clusters/").await.expect_status(200);
    app.post("/clusters/")
        .json(&serde_json::json!({"kind": "Cluster", "name": "slash-too", "spec": {}}))
        .await
        .expect_status(201);
    app.patch(&path).json(&serde_json::json!({"spec": {"a": 1}})).await.expect_status(200);
    app.delete(&path).await.expect_status(202);
    let answer = app.get(&format!("{}//", href(&cluster))).await.expect_status(404);
    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-000");
}

async fn a_resource_is_not_found_under_another_kind(app: &App) {
    let cluster = app.create_cluster("cluster").await;
    let answer = app.get(&format!("/nodepools/{}", id(&cluster))).await.expect_status(404);
    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-003");
}

async fn an_unknown_query_parameter_is_refused(app: &App) {
    let cluster = app.create_cluster("query").await;
    let answer = app.delete(&format!("{}?dryrun=true&force=1", href(&cluster))).await;
    assert_snapshot!(transcript(&answer), @r#"
    400
    content-type: application/problem+json

    {
      "type": "https://api.hyperfleet.io/errors/validation-error",
      "title": "Validation Error",
      "status": 400,
      "detail": "Request validation failed with 2 errors",
      "instance": "/api/hyperfleet/v1/clusters/[id 1]",
      "code": "HYPERFLEET-VAL-000",
      "timestamp": "[time 1]",
      "trace_id": "[trace]",
      "errors": [
        {
          "field": "dryrun",
          "message": "dryrun is not a parameter of this endpoint: did you mean dryRun?",
          "constraint": "unknown"
        },
        {
          "field": "force",
          "message": "force is not a parameter of this endpoint",
          "constraint": "unknown"
        }
      ]
    }
    "#);
    assert_eq!(app.read(&cluster).await, cluster);
    for path in ["?fields=name&page=1", "?x", "?search=a"] {
        app.get(&format!("{}{path}", href(&cluster))).await.expect_status(400);
    }
    app.get(&format!("{}?fields=", href(&cluster))).await.expect_status(200);
}
