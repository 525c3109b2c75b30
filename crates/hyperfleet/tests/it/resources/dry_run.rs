//! `dryRun=true`: every check, the answer of the real call, and nothing written.

use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_dry_create_answers_like_a_real_one_and_creates_nothing,
    a_dry_patch_answers_like_a_real_one_and_changes_nothing,
    a_dry_delete_answers_like_a_real_one_and_deletes_nothing,
    a_dry_force_delete_answers_like_a_real_one_and_removes_nothing,
    a_dry_run_makes_every_check,
    dry_run_false_executes_and_other_values_are_refused,
);

/// All there is, and the counter that every write moves.
async fn world(app: &App) -> Value {
    app.get("/resources?showDeleted=true").await.expect_status(200).json()
}

async fn a_dry_create_answers_like_a_real_one_and_creates_nothing(app: &App) {
    app.create_cluster("other").await;
    let before = world(app).await;
    let body = json!({"kind": "Cluster", "name": "dry", "spec": {"a": 1}, "labels": {"k": "v"}});
    let dry = app.post("/clusters?dryRun=true").json(&body).await.expect_status(201);
    assert_eq!(world(app).await, before);
    app.get(href(&dry.json())).await.expect_status(404);

    let real = app.post("/clusters?dryRun=false").json(&body).await.expect_status(201);
    assert_eq!(transcript(&dry), transcript(&real));
}

async fn a_dry_patch_answers_like_a_real_one_and_changes_nothing(app: &App) {
    let cluster = app.create_cluster("dry").await;
    let before = world(app).await;
    let path = format!("{}?dryRun=true", href(&cluster));
    let patch = json!({"spec": {"a": 1}, "labels": {"k": "v"}});
    let dry = app.patch(&path).json(&patch).await.expect_status(200);
    assert_eq!(dry.json()["generation"], 2);
    assert_eq!(world(app).await, before);

    let real = app.patch(href(&cluster)).json(&patch).await.expect_status(200);
    assert_eq!(transcript(&dry), transcript(&real));
}

async fn a_dry_delete_answers_like_a_real_one_and_deletes_nothing(app: &App) {
    let cluster = app.create_cluster("dry").await;
    app.create_nodepool(&cluster, "pool").await;
    let before = world(app).await;
    let dry = app.delete(&format!("{}?dryRun=true", href(&cluster))).await.expect_status(202);
    assert_eq!(world(app).await, before);

    let real = app.delete(href(&cluster)).await.expect_status(202);
    assert_eq!(transcript(&dry), transcript(&real));
}

async fn a_dry_force_delete_answers_like_a_real_one_and_removes_nothing(app: &App) {
    let cluster = app.create_cluster("dry").await;
    app.create_nodepool(&cluster, "pool").await;
    let path = format!("{}/force-delete?dryRun=true", href(&cluster));
    let reason = json!({"reason": "to see what happens"});
    app.post(&path).json(&reason).await.expect_status(409);
    app.remove(&cluster).await;
    let before = world(app).await;
    app.post(&path).json(&reason).await.expect_status(204);
    assert_eq!(world(app).await, before);
}

async fn a_dry_run_makes_every_check(app: &App) {
    let cluster = app.create_cluster("taken").await;
    let before = world(app).await;
    let body = json!({"kind": "Cluster", "name": "taken", "spec": {}});
    app.post("/clusters?dryRun=true").json(&body).await.expect_status(409);
    app.post("/clusters?dryRun=true").json(&json!({})).await.expect_status(400);
    app.post("/clusters/absent/nodepools?dryRun=true")
        .json(&json!({"kind": "NodePool", "name": "pool", "spec": {}}))
        .await
        .expect_status(404);
    let dry = format!("{}?dryRun=true", href(&cluster));
    app.patch(&dry).json(&json!({"spec": null})).await.expect_status(400);
    app.patch(&dry).header("if-match", "\"999999\"").json(&json!({"spec": {}})).await.expect_status(409);
    app.delete(&dry).header("if-match", "\"999999\"").await.expect_status(409);
    app.delete("/clusters/absent?dryRun=true").await.expect_status(404);
    app.post(&format!("{}/force-delete?dryRun=true", href(&cluster)))
        .json(&json!({}))
        .await
        .expect_status(400);
    assert_eq!(world(app).await, before);
}

async fn dry_run_false_executes_and_other_values_are_refused(app: &App) {
    let cluster = app.create_cluster("values").await;
    for value in ["yes", "1", "TRUE", "true&dryRun=false"] {
        let answer = app.delete(&format!("{}?dryRun={value}", href(&cluster))).await.expect_status(400);
        assert_eq!(answer.problem_code(), "HYPERFLEET-VAL-004", "{value}");
    }
    assert_eq!(app.read(&cluster).await, cluster);
    app.delete(&format!("{}?dryRun=false", href(&cluster))).await.expect_status(202);
    assert!(app.read(&cluster).await.get("deleted_time").is_some());
}
