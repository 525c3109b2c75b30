//! `Idempotency-Key`: a POST that is sent again is executed once.

mod cut_connections;

use hyperfleet_testkit::Answer;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::*;

const KEY: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";

both_stores!(
    a_repeated_post_gets_the_first_answer,
    a_key_with_another_body_is_refused,
    an_error_does_not_use_up_the_key,
    a_dry_run_ignores_the_key,
    a_key_belongs_to_its_path,
    a_malformed_key_is_refused,
    a_first_answer_outlives_its_resource,
    concurrent_posts_with_one_key_create_one_resource,
    a_repeated_force_delete_gets_the_first_answer,
    a_key_with_another_precondition_is_refused,
);
both_stores!(config = TENANTS; a_key_belongs_to_its_tenant);

const TENANTS: &str =
    "server: {tenant: {enabled: true, dimensions: [{header: X-Org, key: org, required: true}]}}";

fn cluster(name: &str) -> Value {
    json!({"kind": "Cluster", "name": name, "spec": {"size": 3}, "labels": {"a": "b"}})
}

fn is_replayed(answer: &Answer) -> bool {
    answer.header(REPLAYED) == Some("true")
}

async fn a_repeated_post_gets_the_first_answer(app: &App) {
    let post = || app.post("/clusters").header(KEY, "order-1").json(&cluster("first"));
    let first = post().await.expect_status(201);
    assert_eq!(first.header(REPLAYED), None);
    app.merge(&first.json(), &json!({"spec": {"size": 5}})).await;

    let again = post().await.expect_status(201);
    assert!(is_replayed(&again));
    assert_eq!(again.json(), first.json(), "as it was answered, not as it is");
    assert_eq!((etag(&again), again.header("location")), (etag(&first), first.header("location")));
    assert_eq!(app.names("/clusters").await, ["first"]);
}

async fn a_key_with_another_body_is_refused(app: &App) {
    app.post("/clusters").header(KEY, "k").json(&cluster("one")).await.expect_status(201);
    let other = app.post("/clusters").header(KEY, "k").json(&cluster("two")).await.expect_status(422);
    assert_eq!(other.problem_code(), "HYPERFLEET-VAL-002");
    assert_eq!(faults(&other), "Idempotency-Key: Idempotency-Key was used for a request with another body");
    assert_eq!(app.names("/clusters").await, ["one"]);
}

async fn an_error_does_not_use_up_the_key(app: &App) {
    app.create_cluster("taken").await;
    app.post("/clusters").header(KEY, "k").json(&cluster("taken")).await.expect_status(409);
    app.post("/clusters").header(KEY, "k").json(&cluster("x")).await.expect_status(400);
    let made = app.post("/clusters").header(KEY, "k").json(&cluster("free")).await.expect_status(201);
    assert!(!is_replayed(&made));
}

async fn a_dry_run_ignores_the_key(app: &App) {
    for name in ["tried", "also-tried"] {
        let tried = app.post("/clusters?dryRun=true").header(KEY, "k").json(&cluster(name)).await;
        assert!(!is_replayed(&tried.expect_status(201)));
    }
    let made = app.post("/clusters").header(KEY, "k").json(&cluster("made")).await.expect_status(201);
    assert!(!is_replayed(&made));
    let tried = app.post("/clusters?dryRun=true").header(KEY, "k").json(&cluster("made")).await;
    assert_eq!(tried.expect_status(409).problem_code(), "HYPERFLEET-CNF-001");
}

async fn a_key_belongs_to_its_path(app: &App) {
    let made = app.post("/clusters").header(KEY, "k").json(&cluster("made")).await.expect_status(201);
    let elsewhere = app.post("/resources").header(KEY, "k").json(&cluster("other")).await.expect_status(201);
    assert!(!is_replayed(&elsewhere));
    let pools = format!("{}/nodepools", href(&made.json()));
    let pool = json!({"kind": "NodePool", "name": "pool", "spec": {}});
    assert!(!is_replayed(&app.post(&pools).header(KEY, "k").json(&pool).await.expect_status(201)));
    assert!(is_replayed(
        &app.post(&format!("{pools}/")).header(KEY, "k").json(&pool).await.expect_status(201)
    ));
}

async fn a_malformed_key_is_refused(app: &App) {
    for key in ["", "a b", "tab\there", "grüße", &"k".repeat(256)] {
        let refused = app.post("/clusters").header(KEY, key).json(&cluster("never")).await.expect_status(400);
        assert_eq!(refused.problem_code(), "HYPERFLEET-VAL-002", "{key}");
        assert!(faults(&refused).starts_with("Idempotency-Key: "), "{key}");
    }
    let twice = app.post("/clusters").header(KEY, "a").header(KEY, "b").json(&cluster("never"));
    assert_eq!(
        faults(&twice.await.expect_status(400)),
        "Idempotency-Key: Idempotency-Key is given more than once"
    );
    assert_eq!(app.names("/clusters").await, [""; 0]);
    app.post("/clusters").header(KEY, "!~".repeat(127)).json(&cluster("longest")).await.expect_status(201);
}

async fn a_first_answer_outlives_its_resource(app: &App) {
    let post = || app.post("/clusters").header(KEY, "k").json(&cluster("short-lived"));
    let made = post().await.expect_status(201).json();
    app.remove(&made).await;
    app.force_delete(&made).await;
    let again = post().await.expect_status(201);
    assert!(is_replayed(&again));
    assert_eq!(again.json(), made);
    app.get(href(&made)).await.expect_status(404);
}

async fn concurrent_posts_with_one_key_create_one_resource(app: &App) {
    for round in 0..20 {
        let name = format!("twin-{round}");
        let mut twins = JoinSet::new();
        for _ in 0..8 {
            twins.spawn(app.post("/clusters").header(KEY, &name).json(&cluster(&name)).into_future());
        }
        let answers = twins.join_all().await;
        let first: Vec<_> = answers.iter().filter(|answer| !is_replayed(answer)).collect();
        assert_eq!(first.len(), 1);
        assert!(answers.iter().all(|answer| answer.status == 201 && answer.json() == first[0].json()));
    }
    assert_eq!(app.names("/clusters").await.len(), 20);
}

async fn a_repeated_force_delete_gets_the_first_answer(app: &App) {
    let cluster = app.create_cluster("stuck").await;
    app.remove(&cluster).await;
    let path = format!("{}/force-delete", href(&cluster));
    let post = |reason: &str| app.post(&path).header(KEY, "k").json(&json!({"reason": reason}));
    assert!(!is_replayed(&post("the cloud is gone").await.expect_status(204)));
    assert!(is_replayed(&post("the cloud is gone").await.expect_status(204)));
    post("another reason").await.expect_status(422);
    app.post(&path).json(&json!({"reason": "without a key"})).await.expect_status(404);
}

async fn a_key_with_another_precondition_is_refused(app: &App) {
    let cluster = app.create_cluster("stuck").await;
    let tag = etag(&app.delete(href(&cluster)).await.expect_status(202));
    let path = format!("{}/force-delete", href(&cluster));
    let post = || app.post(&path).header(KEY, "k").json(&json!({"reason": "the cloud is gone"}));
    post().header("if-match", &tag).await.expect_status(204);
    post().header("if-match", "\"1\"").await.expect_status(422);
    post().await.expect_status(422);
    assert!(is_replayed(&post().header("if-match", &tag).await.expect_status(204)));
}

#[tokio::test]
async fn every_replica_knows_the_key() {
    let app = App::postgres(DEFAULT).await;
    let other = App::on_database(launch().config(DEFAULT), app.database.clone().unwrap()).await;
    let made = app.post("/clusters").header(KEY, "k").json(&cluster("made")).await.expect_status(201);
    let again = other.post("/clusters").header(KEY, "k").json(&cluster("made")).await.expect_status(201);
    assert!(is_replayed(&again));
    assert_eq!(again.json(), made.json());
}

async fn a_key_belongs_to_its_tenant(app: &App) {
    let post = |org: &str| app.post("/clusters").header("x-org", org).header(KEY, "k").json(&cluster("same"));
    let ours = post("ours").await.expect_status(201);
    let theirs = post("theirs").await.expect_status(201);
    assert!(!is_replayed(&theirs));
    assert_ne!(id(&ours.json()), id(&theirs.json()));
    assert!(is_replayed(&post("ours").await.expect_status(201)));
}
