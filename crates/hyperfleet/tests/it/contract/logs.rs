//! Log lines of requests: one for each, one more for an error, and no secrets.

use hyperfleet_testkit::{eventually, raw};
use serde_json::{Value, json};

use crate::support::*;

/// The lines of one request, once its own line is there: it is written last.
async fn lines_of(app: &App, request_id: &str) -> Vec<Value> {
    eventually("the line of the request", DEADLINE, async || {
        let lines: Vec<Value> = app
            .server
            .logs()
            .into_iter()
            .filter(|line| line["request_id"] == request_id || line["trace_id"] == request_id)
            .collect();
        lines.iter().any(|line| line["message"] == "request").then_some(lines)
    })
    .await
}

async fn a_request_leaves_one_line_with_method_route_status_and_duration(app: &App) {
    let cluster = app.create_cluster("logged").await;
    app.get(&format!("{}?fields=name", href(&cluster)))
        .header("x-request-id", "read-1")
        .await
        .expect_status(200);
    let lines = lines_of(app, "read-1").await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(line["level"], "info");
    assert_eq!(line["method"], "GET");
    assert_eq!(line["route"], "/api/hyperfleet/v1/clusters/{cluster_id}");
    assert_eq!(line["status"], 200);
    assert!(line["duration_ms"].is_number(), "{line}");
    for member in ["timestamp", "component", "version", "hostname", "trace_id"] {
        assert!(line[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {line}");
    }

    app.get("/no/such/place").header("x-request-id", "lost-1").await.expect_status(404);
    let lines = lines_of(app, "lost-1").await;
    let line = lines.iter().find(|line| line["message"] == "request").unwrap();
    assert_eq!(line["route"], "unmatched");
}

async fn an_error_is_logged_once_with_its_code_type_cause_and_context(app: &App) {
    let body = json!({"kind": "Cluster", "name": "A", "spec": {}});
    app.post("/clusters").header("x-request-id", "bad-1").json(&body).await.expect_status(400);
    let lines = lines_of(app, "bad-1").await;
    let errors: Vec<_> = lines.iter().filter(|line| line.get("error_code").is_some()).collect();
    assert_eq!(errors.len(), 1, "{lines:?}");
    let line = errors[0];
    assert_eq!(line["level"], "info");
    assert_eq!(line["error_code"], "HYPERFLEET-VAL-000");
    assert_eq!(line["error_type"], "https://api.hyperfleet.io/errors/validation-error");
    assert_eq!(line["trace_id"], "bad-1");
    assert!(text(&line["error"]).contains("2 errors"), "{line}");
    let context = json!({"method": "POST", "path": "/api/hyperfleet/v1/clusters", "field": "name"});
    assert_eq!(line["request_context"], context);

    app.get("/nowhere?q=1").header("x-request-id", "bad-2").await.expect_status(404);
    let lines = lines_of(app, "bad-2").await;
    let line = lines.iter().find(|line| line.get("error_code").is_some()).unwrap();
    assert_eq!(line["error_code"], "HYPERFLEET-NTF-000");
    assert_eq!(line["request_context"], json!({"method": "GET", "path": "/api/hyperfleet/v1/nowhere"}));
}

async fn a_server_error_is_logged_at_level_error(app: &App) {
    let head = "POST /api/hyperfleet/v1/clusters HTTP/1.1\r\nhost: localhost\r\nx-request-id: slow-1\r\n";
    let request = format!("{head}connection: close\r\ncontent-length: 100\r\n\r\n{{\"kind\":");
    let answer = raw(app.api().authority(), request.as_bytes()).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("HYPERFLEET-SVC-003"), "{answer}");
    assert!(answer.contains("Upstream Timeout") && answer.contains("/errors/upstream-error"), "{answer}");
    let lines = lines_of(app, "slow-1").await;
    let errors: Vec<_> = lines.iter().filter(|line| line.get("error_code").is_some()).collect();
    assert_eq!(errors.len(), 1, "{lines:?}");
    assert_eq!(errors[0]["level"], "error");
    assert_eq!(errors[0]["error_code"], "HYPERFLEET-SVC-003");
}

async fn neither_secrets_nor_bodies_are_logged(app: &App) {
    let secret = "fnord-4711";
    let body = json!({"kind": "Cluster", "name": "abc", "spec": {"password": secret, "list": [secret]}});
    let guarded = |asked: Asked| {
        asked
            .header("authorization", format!("Bearer {secret}"))
            .header("cookie", format!("session={secret}"))
            .header("x-api-key", secret)
    };
    let made = guarded(app.post("/clusters").json(&body)).await.expect_status(201).json();
    guarded(app.post("/clusters").json(&body)).await.expect_status(409);
    guarded(app.post("/clusters").json(&json!({"spec": secret, "name": {"token": secret}}))).await;
    guarded(app.post("/clusters").body(format!("{{\"password\": \"{secret}"))).await.expect_status(400);
    guarded(app.patch(href(&made)).json(&json!({"spec": {"more": secret}}))).await.expect_status(200);
    guarded(app.patch(href(&made)).json(&json!({"labels": {"token": format!("-{secret}")}}))).await;
    guarded(app.get(&format!("/clusters?token={secret}"))).await.expect_status(400);
    guarded(app.get(&format!("/clusters?fields=name&access_token={secret}"))).await.expect_status(400);
    app.get("/clusters").header("x-request-id", "last").await.expect_status(200);
    lines_of(app, "last").await;
    for line in app.server.logs() {
        assert!(!line.to_string().contains(secret), "{line}");
    }
}

async fn a_force_delete_logs_caller_reason_and_each_resource(app: &App) {
    let cluster = app.create_cluster("doomed").await;
    let pool = app.create_nodepool(&cluster, "doomed").await;
    app.remove(&cluster).await;
    let path = format!("{}/force-delete", href(&cluster));
    let body = json!({"reason": "the adapter is gone"});
    app.post(&format!("{path}?dryRun=true"))
        .header("x-request-id", "try-1")
        .json(&body)
        .await
        .expect_status(204);
    app.post(&path).header("x-request-id", "force-1").json(&body).await.expect_status(204);

    let lines = lines_of(app, "force-1").await;
    let audit: Vec<_> = lines.iter().filter(|line| line["message"] == "force-delete").collect();
    assert_eq!(audit.len(), 2, "{lines:?}");
    for line in &audit {
        assert_eq!(line["actor"], "system@hyperfleet.local");
        assert_eq!(line["reason"], "the adapter is gone");
    }
    assert_eq!(audit[0]["resource_id"], id(&pool));
    assert_eq!(audit[1]["resource_type"], "Cluster");
    assert_eq!(audit[1]["resource_id"], id(&cluster));
    assert_eq!(audit[1]["removed"], id(&pool));
    assert!(lines_of(app, "try-1").await.iter().all(|line| line["message"] != "force-delete"));
}

any_store!(
    a_request_leaves_one_line_with_method_route_status_and_duration,
    an_error_is_logged_once_with_its_code_type_cause_and_context,
    neither_secrets_nor_bodies_are_logged,
    a_force_delete_logs_caller_reason_and_each_resource,
);
any_store!(config = "server: {timeouts: {read: 300ms}}"; a_server_error_is_logged_at_level_error);
