use std::sync::Arc;

use hyperfleet_service::health::{self, Health};
use hyperfleet_service::listener::ListenerOptions;
use hyperfleet_service::metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::peer::Server;

#[tokio::test]
async fn readiness_follows_the_checks_and_the_drain_while_liveness_stays() {
    let health = Health::new(["database"]);
    let server = Server::start(health::router(health.clone()), ListenerOptions::default()).await;
    let mut client = server.connect().await;

    let pending = client.get("/readyz").await;
    assert_eq!(pending.status, 503);
    assert_eq!(pending.header("content-type"), Some("application/problem+json"));
    assert_eq!(pending.json()["checks"], json!({"database": {"status": "pending"}}));

    health.set("database", Ok::<_, String>(()));
    let ready = client.get("/readyz").await;
    assert_eq!((ready.status, ready.header("content-type")), (200, Some("application/json")));
    assert_eq!(ready.header("cache-control"), Some("no-store"));
    assert_eq!(ready.json(), json!({"status": "ok", "checks": {"database": {"status": "ok"}}}));

    health.warn("clock", Some("it is wrong".to_owned()));
    let warning = client.get("/readyz").await;
    assert_eq!(warning.status, 200);
    assert_eq!(warning.json()["checks"]["clock"], json!({"status": "warning", "reason": "it is wrong"}));
    health.warn("clock", None);
    assert_eq!(client.get("/readyz").await.json()["checks"]["clock"], json!({"status": "ok"}));

    health.set("database", Err("cannot be reached"));
    let failing = client.get("/readyz").await;
    assert_eq!(failing.status, 503);
    assert!(failing.header("retry-after").is_some());
    assert_eq!(failing.json()["code"], "HYPERFLEET-SVC-002");
    assert_eq!(failing.json()["detail"], "database: cannot be reached");
    assert_eq!(
        failing.json()["checks"],
        json!({"clock": {"status": "ok"}, "database": {"status": "failing", "reason": "cannot be reached"}})
    );

    health.set("database", Ok::<_, String>(()));
    health.drain();
    let draining = client.get("/readyz").await;
    assert_eq!((draining.status, &draining.json()["draining"]), (503, &json!(true)));
    assert_eq!(draining.json()["code"], "HYPERFLEET-SVC-001");

    let alive = client.get("/healthz").await;
    assert_eq!((alive.status, alive.json()), (200, json!({"status": "ok"})));
}

#[tokio::test]
async fn an_unknown_path_is_a_problem_with_the_callers_request_id() {
    let server = Server::start(health::router(Health::new([])), ListenerOptions::default()).await;
    let mut client = server.connect().await;

    client.send("GET /nothing?a=b HTTP/1.1\r\nhost: test\r\nx-request-id: mine-1\r\n\r\n").await;
    let absent = client.answer().await;
    assert_eq!((absent.status, absent.header("x-request-id")), (404, Some("mine-1")));
    assert_eq!(absent.header("content-type"), Some("application/problem+json"));
    let mut problem = absent.json();
    assert!(problem["timestamp"].take().as_str().unwrap().ends_with('Z'));
    assert_eq!(
        problem,
        json!({
            "type": "https://api.hyperfleet.io/errors/resource-not-found",
            "title": "Endpoint Not Found",
            "status": 404,
            "detail": "No such endpoint.",
            "instance": "/nothing",
            "code": "HYPERFLEET-NTF-000",
            "timestamp": null,
            "trace_id": "mine-1",
        })
    );

    let refused = client.ask("DELETE", "/healthz").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET,HEAD")));
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.json()["trace_id"], refused.header("x-request-id").unwrap());
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let mut registry = Registry::default();
    let requests = Counter::<u64>::default();
    registry.register("hyperfleet_api_requests", "Requests", requests.clone());
    metrics::register_process(&mut registry);
    let server = Server::start(metrics::router(Arc::new(registry)), ListenerOptions::default()).await;

    requests.inc_by(3);
    let scraped = server.connect().await.get("/metrics").await;
    assert_eq!(scraped.status, 200);
    assert_eq!(
        scraped.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(scraped.body.contains("\nhyperfleet_api_requests_total 3\n"), "{}", scraped.body);
    assert!(scraped.body.contains("\nprocess_open_fds "), "{}", scraped.body);
    assert!(scraped.body.ends_with("# EOF\n"));
}
