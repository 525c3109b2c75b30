//! Answers that the API would not give: each is an error of its own kind, and none takes more than its share.

use hyperfleet_client::{Collection, Error, GetQuery, ItemPath, Request, Retry, Settings};
use serde_json::json;
use tokio::net::TcpListener;

use crate::fake_server::{FakeServer, Reply, answer, bytes, json};

fn cluster() -> ItemPath {
    Collection::of("clusters").item("1")
}

async fn failure(reply: Reply) -> (Error, FakeServer) {
    let server = FakeServer::replying([reply]).await;
    let error = server.client().get(&cluster(), &GetQuery::default()).await.unwrap_err();
    (error, server)
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"id\":\"";
    let (error, server) = failure(Reply::Endless(head.into(), vec![b'x'; 1 << 20])).await;
    assert!(
        matches!(&error, Error::Malformed { source, .. } if source.to_string().contains("larger than")),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1, "asking again would not make it smaller");
}

#[tokio::test]
async fn a_server_that_does_not_speak_http_is_unreachable() {
    for garbage in ["SSH-2.0-OpenSSH_9.6\r\n", "\0\0\0\0", "HTTP/1.1 banana\r\n\r\n", ""] {
        let (error, _) = failure(Reply::Once(garbage.into())).await;
        assert!(matches!(error, Error::Unreachable { .. }), "{garbage:?}: {error}");
    }
}

#[tokio::test]
async fn a_truncated_answer_is_retried_and_then_unreachable() {
    let half =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"id\":\"1\"}";
    let (error, server) = failure(Reply::Once(half.into())).await;
    assert!(
        matches!(&error, Error::Unreachable { source, .. } if source.to_string().contains("broke off")),
        "{error}"
    );
    assert_eq!(server.requests().len(), 5, "a read is repeated");
}

#[tokio::test]
async fn a_success_with_an_unexpected_body_is_malformed() {
    for reply in [
        answer("200 OK", "text/html", "<html>Please log in</html>"),
        answer("200 OK", "application/json", "{\"id\":\"1\""),
        json(&json!({"kind": "ClusterList", "items": []})),
        json(&json!([])),
        json(&json!({"id": 7})),
        json(&json!({"id": ""})),
    ] {
        let (error, _) = failure(reply).await;
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_without_a_problem_body_is_a_problem_by_its_status() {
    let (error, _) = failure(answer("404 Not Found", "text/html", "<h1>nginx</h1>")).await;
    assert!(error.is_not_found(), "{error}");
    assert_eq!(error.to_string(), "404 Not Found");
    let (error, _) = failure(answer("502 Bad Gateway", "text/html", "<h1>nginx</h1>")).await;
    assert_eq!((error.status(), error.is_transient()), (Some(502), true));
    let older = r#"{"kind":"Error","code":"hyperfleet-7","reason":"Cluster not found"}"#;
    let (error, _) = failure(answer("404 Not Found", "application/json", older)).await;
    assert_eq!(error.to_string(), "404 Not Found: Cluster not found (hyperfleet-7)");
}

#[tokio::test]
async fn a_problem_cannot_steer_a_terminal_or_flood_a_log() {
    let body = json!({
        "title": "\u{1b}[2JBad", "detail": "x".repeat(100_000), "code": 7, "trace_id": "a\u{7}b",
        "errors": [{"field": "\u{1b}]0;gotcha\u{7}spec"}, 3, null, "text"],
    });
    let (error, _) = failure(answer("400 Bad Request", "application/problem+json", &body.to_string())).await;
    let problem = error.problem().unwrap();
    assert_eq!((problem.title.as_str(), problem.trace_id.as_deref()), ("[2JBad", Some("ab")));
    assert_eq!((problem.detail.len(), problem.code.as_str()), (4096, ""));
    assert_eq!((problem.errors.len(), problem.errors[0].field.as_str()), (4, "]0;gotchaspec"));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_gets_no_token() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = format!("location: http://{}/\r\n", elsewhere.local_addr().unwrap());
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let server = FakeServer::replying([Reply::Once(bytes(status, &location, ""))]).await;
        let token = hyperfleet_client::Token::Fixed(hyperfleet_client::Secret::new("hush"));
        let settings = Settings { token: Some(token), ..server.settings() };
        let client = hyperfleet_client::Client::new(settings).unwrap();
        let error = client.get(&cluster(), &GetQuery::default()).await.unwrap_err();
        assert!(
            matches!(&error, Error::Malformed { source, .. } if source.to_string().contains("redirect")),
            "{error}"
        );
        let error = client.watch(&Collection::of("clusters"), &Default::default()).next().await.unwrap_err();
        assert!(
            matches!(&error, Error::Malformed { source, .. } if source.to_string().contains("redirect")),
            "{error}"
        );
    }
    // A connection that was opened before would be waiting now.
    let visit = elsewhere.into_std().unwrap().accept();
    assert!(matches!(&visit, Err(none) if none.kind() == std::io::ErrorKind::WouldBlock), "{visit:?}");
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let server = FakeServer::replying([Reply::ThenSilence(Vec::new())]).await;
    let timeout = std::time::Duration::from_millis(50);
    let settings = Settings { timeout, retry: Retry::NEVER, ..server.settings() };
    let client = hyperfleet_client::Client::new(settings).unwrap();
    let error = client.get(&cluster(), &GetQuery::default()).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { after, .. } if after == timeout), "{error}");
}

#[tokio::test]
async fn the_error_for_an_unreachable_server_names_url_and_cause() {
    let url = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let client =
        hyperfleet_client::Client::new(Settings { retry: Retry::NEVER, ..Settings::of(&url) }).unwrap();
    let error = client.get(&cluster(), &GetQuery::default()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&url) && text.contains("refused"), "{text}");
}

#[tokio::test]
async fn an_invalid_path_is_not_sent() {
    let server = FakeServer::replying([json(&json!({}))]).await;
    for path in ["clusters", "", "http://elsewhere.example/", "/clusters#part", "/clusters/a b", "/clüsters"]
    {
        let error = server.client().send(Request::get(path)).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{path}: {error}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}
