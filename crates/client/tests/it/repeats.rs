//! What is sent again and what is not.

use std::time::Duration;

use hyperfleet_client::{Collection, Error, GetQuery, NewReport, PatchKind, Reported, Waited};
use serde_json::json;

use crate::stranger::{Say, Stranger, answer, bytes, json};

fn clusters() -> Collection {
    Collection::of("clusters")
}

fn lost() -> Say {
    Say::This(Vec::new())
}

fn stored() -> Say {
    Say::This(bytes("201 Created", "etag: \"7\"\r\n", r#"{"id":"1","kind":"Cluster"}"#))
}

fn header(request: &str, name: &str) -> Option<String> {
    request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
}

#[tokio::test]
async fn a_creation_whose_answer_is_lost_is_sent_again_by_the_same_key() {
    let stranger = Stranger::saying([lost(), lost(), stored()]).await;
    let body = json!({"kind": "Cluster", "name": "east", "spec": {"big": 1}});
    let made = stranger.client().create(&clusters(), &body, false).await.unwrap();
    assert_eq!((made.id(), made.version()), ("1", Some(7)));
    let keys: Vec<_> =
        stranger.asked().iter().map(|asked| header(asked, "idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    stranger.client().create(&clusters(), &body, false).await.unwrap();
    assert_ne!(
        header(&stranger.asked()[3], "idempotency-key").unwrap(),
        keys[0],
        "another one is another one"
    );
}

#[tokio::test]
async fn a_report_is_sent_again_and_a_change_is_not() {
    let stranger = Stranger::saying([lost(), Say::This(bytes("204 No Content", "", ""))]).await;
    let report = NewReport {
        adapter: "dns".to_owned(),
        observed_generation: 1,
        observed_time: None,
        conditions: Vec::new(),
        data: None,
        metadata: None,
    };
    let item = clusters().item("1");
    assert_eq!(stranger.client().report(&item, &report).await.unwrap(), Reported::Discarded);
    assert_eq!(stranger.asked().len(), 2);

    let stranger = Stranger::saying([lost(), stored()]).await;
    let patch = stranger.client().patch(&item, &json!({"spec": {}}), PatchKind::Merge, Some(3), false).await;
    assert!(matches!(patch, Err(Error::Unreachable { .. })), "{patch:?}");
    assert_eq!(header(&stranger.asked()[0], "if-match").as_deref(), Some("\"3\""));
    assert_eq!(stranger.asked().len(), 1, "nobody knows whether it was carried out");
}

#[tokio::test]
async fn whoever_is_turned_away_comes_again_when_the_server_says() {
    for refusal in ["429 Too Many Requests", "503 Service Unavailable"] {
        let body = r#"{"code":"HYPERFLEET-SVC-001"}"#;
        let busy = Say::This(bytes(refusal, "retry-after: 0\r\n", body));
        let stranger = Stranger::saying([busy.clone(), busy, stored()]).await;
        let item = clusters().item("1");
        // Even a change: it was not begun.
        stranger.client().patch(&item, &json!({"spec": {}}), PatchKind::Merge, None, false).await.unwrap();
        assert_eq!(stranger.asked().len(), 3, "{refusal}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_more_time_than_there_is_gets_no_second_visit() {
    let busy = Say::This(bytes("429 Too Many Requests", "retry-after: 3600\r\n", ""));
    let stranger = Stranger::saying([busy]).await;
    let error = stranger.client().get(&clusters().item("1"), &GetQuery::default()).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (Some(429), Some(Duration::from_secs(3600))));
    assert_eq!(stranger.asked().len(), 1);
}

#[tokio::test]
async fn attempts_are_counted() {
    let stranger = Stranger::saying([answer("503 Service Unavailable", "text/plain", "")]).await;
    let error = stranger.client().get(&clusters().item("1"), &GetQuery::default()).await.unwrap_err();
    assert_eq!((error.status(), stranger.asked().len()), (Some(503), 5));
}

#[tokio::test]
async fn a_server_that_cannot_wait_is_asked_until_it_holds() {
    let state = |status: &str| {
        json(&json!({"id": "1", "status": {"conditions": [{"type": "Reconciled", "status": status}]}}))
    };
    let stranger = Stranger::saying([state("False"), state("True")]).await;
    let item = clusters().item("1");
    let minute = Duration::from_secs(60);
    let waited = stranger.client().get_waiting(&item, "Reconciled=True", minute).await.unwrap();
    assert!(matches!(&waited, Waited::Holds(resource) if resource.id() == "1"), "{waited:?}");
    assert_eq!(stranger.asked().len(), 2);

    let stranger = Stranger::saying([state("False")]).await;
    let waited = stranger.client().get_waiting(&item, "Reconciled=True", Duration::ZERO).await.unwrap();
    assert!(matches!(waited, Waited::TimedOut(_)), "{waited:?}");
    let unclear = stranger.client().get_waiting(&item, "Reconciled", minute).await;
    assert!(matches!(unclear, Err(Error::Invalid(_))), "{unclear:?}");
}
