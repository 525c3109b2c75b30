//! What is sent with every request, and what of it is ever shown.

use std::time::Duration;

use hyperfleet_client::{Client, Collection, Context, GetQuery, Secret, Settings, Token};
use serde_json::json;

use crate::fake_server::{FakeServer, answer, json};

#[tokio::test]
async fn a_refused_token_is_read_again_and_retried_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "hush-1").unwrap();
    let refused =
        || answer("401 Unauthorized", "application/problem+json", r#"{"code":"HYPERFLEET-AUT-003"}"#);
    let found = || json(&json!({"id": "1"}));
    let server = FakeServer::replying([found(), refused(), found(), refused()]).await;
    let token = Token::File { path: path.clone(), ttl: Duration::from_secs(3600) };
    let client = Client::new(Settings { token: Some(token), ..server.settings() }).unwrap();
    let item = Collection::of("clusters").item("1");

    client.get(&item, &GetQuery::default()).await.unwrap();
    std::fs::write(&path, "hush-2").unwrap();
    client.get(&item, &GetQuery::default()).await.unwrap();
    let error = client.get(&item, &GetQuery::default()).await.unwrap_err();
    assert!(error.is_denied(), "{error}");
    assert!(!format!("{error} {error:?} {client:?}").contains("hush"));
    let sent: Vec<_> = server.requests().iter().map(|asked| asked.matches("Bearer hush-2").count()).collect();
    assert_eq!(sent, [0, 0, 1, 1], "the same token is not sent twice");
}

#[tokio::test]
async fn every_request_has_user_agent_token_and_context() {
    let server = FakeServer::replying([json(&json!({"id": "1"}))]).await;
    let headers = vec![("X-Org".to_owned(), "acme".to_owned())];
    let client =
        Client::new(Settings { headers, user_agent: "tester/1".into(), ..server.settings() }).unwrap();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let context = Context { traceparent: Some(trace.into()), request_id: Some("order-7".into()) };
    let item = Collection::of("clusters").item("1");
    client.in_context(&context).unwrap().get(&item, &GetQuery::default()).await.unwrap();
    client.get(&item, &GetQuery::default()).await.unwrap();
    let asked = server.requests();
    for line in
        ["x-org: acme", "user-agent: tester/1", "x-request-id: order-7", &format!("traceparent: {trace}")]
    {
        assert!(asked[0].contains(line), "{line}: {}", asked[0]);
    }
    assert!(asked[1].contains("x-org: acme") && !asked[1].contains("order-7"), "{}", asked[1]);
    let split = Context { request_id: Some("a\r\nx-evil: 1".into()), ..Context::default() };
    client.in_context(&split).unwrap_err();
}

#[tokio::test]
async fn an_invalid_header_is_refused_without_its_value() {
    let headers = vec![("X-Token".to_owned(), "hush\n".to_owned())];
    let error = Client::new(Settings { headers, ..Settings::default() }).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
    let token = Token::Fixed(Secret::new("hush hush"));
    let client = Client::new(Settings { token: Some(token), ..Settings::default() }).unwrap();
    let error = client.whoami().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
}
