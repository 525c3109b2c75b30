//! `waitFor`: a read that is answered when a condition is met.

use hyperfleet_testkit::{Answer, eventually};
use serde_json::{Value, json};

use crate::support::*;

both_stores!(
    a_met_condition_is_answered_at_once,
    a_met_condition_is_answered_with_any_timeout,
    a_wait_ends_when_the_condition_turns,
    a_wait_for_a_deletion_ends_with_the_resource,
    the_removal_of_a_resource_ends_every_wait,
    a_timed_out_wait_shows_the_present_state,
    a_wait_on_a_missing_resource_is_not_found,
    malformed_waits_are_refused,
    a_stopping_server_ends_waits,
);

/// Starts a wait, and comes back when the server has it.
async fn waiting(app: &App, resource: &Value, query: &str) -> tokio::task::JoinHandle<Answer> {
    let asked = app.get(&format!("{}?{query}", href(resource)));
    let before = app.metric(FEED).await.unwrap_or_default();
    let wait = tokio::spawn(async move { asked.await });
    // Once it knows from where to follow, it misses nothing.
    eventually("the wait has begun", DEADLINE, async || {
        (app.metric(FEED).await.unwrap_or_default() >= before + 1.0).then_some(())
    })
    .await;
    wait
}

const FEED: &str = r#"hyperfleet_db_query_duration_seconds_count{operation="bounds"}"#;

async fn a_met_condition_is_answered_at_once(app: &App) {
    let cluster = app.create_cluster("there").await;
    let answer = app.get(&format!("{}?waitFor=Reconciled=False", href(&cluster))).await.expect_status(200);
    assert_eq!(answer.json(), cluster);
    assert_eq!(answer.header("x-hyperfleet-wait"), None);
    assert!(answer.header("etag").is_some());
    let partial = app.get(&format!("{}?waitFor=Reconciled=False&fields=name", href(&cluster))).await;
    assert_eq!(partial.json(), json!({"id": id(&cluster), "name": "there"}));
}

async fn a_met_condition_is_answered_with_any_timeout(app: &App) {
    let cluster = app.create_cluster("hasty").await;
    let gone = format!("/clusters/{}?waitFor=deleted&timeout=0s", uuid::Uuid::now_v7());
    for _ in 0..10 {
        let held = app.get(&format!("{}?waitFor=Reconciled=False&timeout=0s", href(&cluster))).await;
        assert_eq!(held.expect_status(200).header("x-hyperfleet-wait"), None);
        app.get(&gone).await.expect_status(204);
        let not_yet = app.get(&format!("{}?waitFor=Reconciled=True&timeout=0s", href(&cluster))).await;
        assert_eq!(not_yet.expect_status(200).header("x-hyperfleet-wait"), Some("timeout"));
    }
}

async fn a_wait_ends_when_the_condition_turns(app: &App) {
    let cluster = app.create_cluster("awaited").await;
    let wait = waiting(app, &cluster, "waitFor=Reconciled=True&timeout=10m").await;
    app.report(&cluster, &report_now("validator", 1, "False")).await.expect_status(201);
    app.report(&cluster, &report_now("validator", 1, "True")).await.expect_status(201);
    let answer = wait.await.unwrap().expect_status(200);
    assert_eq!(answer.json(), app.read(&cluster).await);
    assert_eq!(etag(&answer), app.etag(&cluster).await);
}

async fn a_wait_for_a_deletion_ends_with_the_resource(app: &App) {
    let cluster = app.create_cluster("leaving").await;
    let wait = waiting(app, &cluster, "waitFor=deleted&timeout=10m").await;
    app.remove(&cluster).await;
    assert!(!wait.is_finished(), "it is not gone yet");
    app.force_delete(&cluster).await;
    let answer = wait.await.unwrap().expect_status(204);
    assert!(answer.body.is_empty());
    app.get(&format!("{}?waitFor=deleted", href(&cluster))).await.expect_status(204);
}

async fn the_removal_of_a_resource_ends_every_wait(app: &App) {
    let cluster = app.create_cluster("leaving").await;
    let wait = waiting(app, &cluster, "waitFor=Reconciled=True&timeout=10m").await;
    app.remove(&cluster).await;
    app.force_delete(&cluster).await;
    assert_eq!(wait.await.unwrap().expect_status(404).problem_code(), "HYPERFLEET-NTF-002");
}

async fn a_timed_out_wait_shows_the_present_state(app: &App) {
    let cluster = app.create_cluster("slow").await;
    let answer = app.get(&format!("{}?waitFor=Reconciled=True&timeout=50ms", href(&cluster))).await;
    assert_eq!(answer.header("x-hyperfleet-wait"), Some("timeout"));
    assert_eq!(answer.expect_status(200).json(), cluster);
    let answer = app.get(&format!("{}?waitFor=Nonsense=True&timeout=1ms", href(&cluster))).await;
    assert_eq!(answer.header("x-hyperfleet-wait"), Some("timeout"));
}

async fn a_wait_on_a_missing_resource_is_not_found(app: &App) {
    let unknown = "/clusters/019a0000-0000-7000-8000-000000000000";
    let answer = app.get(&format!("{unknown}?waitFor=Reconciled=True")).await.expect_status(404);
    assert_eq!(answer.problem_code(), "HYPERFLEET-NTF-002");
    app.get(&format!("{unknown}?waitFor=deleted")).await.expect_status(204);
}

async fn malformed_waits_are_refused(app: &App) {
    let cluster = app.create_cluster("asked").await;
    let mut said = String::new();
    for query in [
        "waitFor=Reconciled",
        "waitFor=Reconciled=Maybe",
        "waitFor==True",
        "waitFor=gone",
        "waitFor=deleted&timeout=soon",
        "waitFor=deleted&timeout=11m",
        "waitFor=x&timeout=x",
    ] {
        let answer = app.get(&format!("{}?{query}", href(&cluster))).await.expect_status(400);
        said += &format!("{query}\n  {}\n", faults(&answer).replace('\n', "\n  "));
    }
    insta::assert_snapshot!(said, @r#"
    waitFor=Reconciled
      waitFor: waitFor must be a condition with its status such as Reconciled=True, or deleted, not 'Reconciled'
    waitFor=Reconciled=Maybe
      waitFor: waitFor must be a condition with its status such as Reconciled=True, or deleted, not 'Reconciled=Maybe'
    waitFor==True
      waitFor: waitFor must be a condition with its status such as Reconciled=True, or deleted, not '=True'
    waitFor=gone
      waitFor: waitFor must be a condition with its status such as Reconciled=True, or deleted, not 'gone'
    waitFor=deleted&timeout=soon
      timeout: timeout must be a duration such as 30s, up to 10m, not 'soon'
    waitFor=deleted&timeout=11m
      timeout: timeout must be a duration such as 30s, up to 10m, not '11m'
    waitFor=x&timeout=x
      waitFor: waitFor must be a condition with its status such as Reconciled=True, or deleted, not 'x'
      timeout: timeout must be a duration such as 30s, up to 10m, not 'x'
    "#);
}

async fn a_stopping_server_ends_waits(app: &App) {
    let cluster = app.create_cluster("asked").await;
    let wait = waiting(app, &cluster, "waitFor=Reconciled=True&timeout=10m").await;
    app.server.signal_terminate().unwrap();
    let answer = wait.await.unwrap().expect_status(200);
    assert_eq!(answer.header("x-hyperfleet-wait"), Some("timeout"));
}
