//! What is sent again and what is not.

use std::time::Duration;

use hyperfleet_client::{Collection, Error, GetQuery, NewReport, PatchKind, Reported, Waited};
use serde_json::json;

use crate::fake_server::{FakeServer, Reply, answer, bytes, json};

fn clusters() -> Collection {
    Collection::of("clusters")
}

fn lost() -> Reply {
    Reply::Once(Vec::new())
}

fn stored() -> Reply {
    Reply::Once(bytes("201 Created", "etag: \"7\"\r\n", r#"{"id":"1","kind":"Cluster"}"#))
}

fn header(request: &str, name: &str) -> Option<String> {
    request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
}

#[tokio::test]
async fn a_create_with_a_lost_answer_is_retried_with_the_same_key() {
    let server = FakeServer::replying([lost(), lost(), stored()]).await;
    let body = json!({"kind": "Cluster", "name": "east", "spec": {"big": 1}});
    let made = server.client().create(&clusters(), &body, false).await.unwrap();
    assert_eq!((made.id(), made.etag()), ("1", Some("\"7\"")));
    let keys: Vec<_> =
        server.requests().iter().map(|asked| header(asked, "idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    server.client().create(&clusters(), &body, false).await.unwrap();
    assert_ne!(
        header(&server.requests()[3], "idempotency-key").unwrap(),
        keys[0],
        "another one is another one"
    );
}

#[tokio::test]
async fn a_report_is_retried_and_a_patch_is_not() {
    let server = FakeServer::replying([lost(), Reply::Once(bytes("204 No Content", "", ""))]).await;
    let report = NewReport {
        adapter: "dns".to_owned(),
        observed_generation: 1,
        observed_time: None,
        conditions: Vec::new(),
        data: None,
        metadata: None,
    };
    let item = clusters().item("1");
    assert_eq!(server.client().report(&item, &report).await.unwrap(), Reported::Discarded);
    assert_eq!(server.requests().len(), 2);

    let server = FakeServer::replying([lost(), stored()]).await;
    let patch =
        server.client().patch(&item, &json!({"spec": {}}), PatchKind::Merge, Some("\"3\""), false).await;
    assert!(matches!(patch, Err(Error::Unreachable { .. })), "{patch:?}");
    assert_eq!(header(&server.requests()[0], "if-match").as_deref(), Some("\"3\""));
    assert_eq!(server.requests().len(), 1, "the client cannot know whether it was carried out");
}

#[tokio::test]
async fn a_rejected_request_is_retried_after_retry_after() {
    for refusal in ["429 Too Many Requests", "503 Service Unavailable"] {
        let body = r#"{"code":"HYPERFLEET-SVC-001"}"#;
        let busy = Reply::Once(bytes(refusal, "retry-after: 0\r\n", body));
        let server = FakeServer::replying([busy.clone(), busy, stored()]).await;
        let item = clusters().item("1");
        // Even a change: it was not begun.
        server.client().patch(&item, &json!({"spec": {}}), PatchKind::Merge, None, false).await.unwrap();
        assert_eq!(server.requests().len(), 3, "{refusal}");
    }
}

#[tokio::test]
async fn a_request_is_not_retried_if_retry_after_exceeds_the_limit() {
    let busy = Reply::Once(bytes("429 Too Many Requests", "retry-after: 3600\r\n", ""));
    let server = FakeServer::replying([busy]).await;
    let error = server.client().get(&clusters().item("1"), &GetQuery::default()).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (Some(429), Some(Duration::from_secs(3600))));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_number_of_attempts_is_limited() {
    let server = FakeServer::replying([answer("503 Service Unavailable", "text/plain", "")]).await;
    let error = server.client().get(&clusters().item("1"), &GetQuery::default()).await.unwrap_err();
    assert_eq!((error.status(), server.requests().len()), (Some(503), 5));
}

#[tokio::test]
async fn a_server_without_wait_for_is_polled_until_the_condition_holds() {
    let state = |status: &str| {
        json(&json!({"id": "1", "status": {"conditions": [{"type": "Reconciled", "status": status}]}}))
    };
    let server = FakeServer::replying([state("False"), state("True")]).await;
    let item = clusters().item("1");
    let minute = Duration::from_secs(60);
    let waited = server.client().get_waiting(&item, "Reconciled=True", minute).await.unwrap();
    assert!(matches!(&waited, Waited::Holds(resource) if resource.id() == "1"), "{waited:?}");
    assert_eq!(server.requests().len(), 2);

    let server = FakeServer::replying([state("False")]).await;
    let waited = server.client().get_waiting(&item, "Reconciled=True", Duration::ZERO).await.unwrap();
    assert!(matches!(waited, Waited::TimedOut(_)), "{waited:?}");
    let unclear = server.client().get_waiting(&item, "Reconciled", minute).await;
    assert!(matches!(unclear, Err(Error::Invalid(_))), "{unclear:?}");
}
