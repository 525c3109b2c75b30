//! A router in the same process, called without a socket.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use hyperfleet_client::{
    Client, Collection, Error, InProcess, ListQuery, Secret, Settings, Token, Watch, WatchEvent, WatchQuery,
};
use tokio::sync::{Notify, mpsc};

fn settings(router: Router) -> Settings {
    // Neither the address nor the file exists.
    let nowhere = Settings::of("https://localhost:1/fleet");
    Settings { in_process: Some(InProcess::new(router)), ca_file: Some("/no/such/file".into()), ..nowhere }
}

fn client(router: Router) -> Client {
    Client::new(settings(router)).unwrap()
}

fn clusters() -> Collection {
    Collection::of("clusters")
}

/// Sends a message when it is dropped.
struct Goodbye(mpsc::Sender<()>);

impl Drop for Goodbye {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

#[tokio::test]
async fn an_in_process_request_arrives_as_over_a_connection() {
    let echo = async |request: Request| -> Response {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1_000).await.unwrap();
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
        let told = format!("{} {} {}", head.method, head.uri, header("authorization"));
        let sent = String::from_utf8_lossy(&body);
        axum::Json(serde_json::json!({"id": told, "name": sent, "kind": header("user-agent")}))
            .into_response()
    };
    let router = Router::new().route("/fleet/api/hyperfleet/v1/clusters", axum::routing::post(echo));
    let token = Some(Token::Fixed(Secret::new("of-ours")));
    let client = Client::new(Settings { token, user_agent: "us".to_owned(), ..settings(router) }).unwrap();
    let made = client.create(&clusters(), &serde_json::json!({"a": 1}), true).await.unwrap();
    assert_eq!(made.id(), "POST /fleet/api/hyperfleet/v1/clusters?dryRun=true Bearer of-ours");
    assert_eq!((made.name(), made.kind()), ("{\"a\":1}", "us"));
    let missing = client.list(&Collection::of("nothing"), &ListQuery::default()).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[tokio::test]
async fn an_in_process_watch_delivers_each_event_at_once_and_ends_when_it_is_dropped() {
    let (tell, told) = mpsc::channel::<String>(1);
    let (gone, mut goodbye) = mpsc::channel(1);
    let told = Arc::new(std::sync::Mutex::new(Some((told, Goodbye(gone)))));
    let router = Router::new().route(
        "/fleet/api/hyperfleet/v1/clusters",
        get(async move || -> Response {
            let told = told.lock().unwrap().take().unwrap();
            let lines = stream::unfold(told, async |(mut told, goodbye)| {
                Some((Ok::<_, io::Error>(told.recv().await?), (told, goodbye)))
            });
            ([("content-type", "application/x-ndjson")], Body::from_stream(lines)).into_response()
        }),
    );
    let mut watch: Watch = client(router).watch(&clusters(), &WatchQuery::default());
    for version in 1..=3 {
        tell.send(format!("{{\"type\":\"BOOKMARK\",\"version\":{version}}}\n")).await.unwrap();
        let event = watch.next().await.unwrap();
        assert_eq!(event, WatchEvent::Bookmark { version });
        assert!(watch.is_connected() && goodbye.try_recv().is_err());
    }
    drop(watch);
    goodbye.recv().await.unwrap();
}

#[tokio::test]
async fn a_watch_resumes_after_the_server_panicked() {
    let router = Router::new().route(
        "/fleet/api/hyperfleet/v1/clusters",
        get(async |request: Request| -> Response {
            let resumed = request.headers().get("last-event-id").map(|id| id.to_str().unwrap().to_owned());
            let lines = stream::iter(0..).map(move |line| match (line, resumed.as_deref()) {
                (0, None) => Ok::<_, io::Error>("{\"type\":\"BOOKMARK\",\"version\":1}\n"),
                (0, Some("1")) => Ok("{\"type\":\"BOOKMARK\",\"version\":2}\n"),
                _ => panic!("a fault of the server"),
            });
            ([("content-type", "application/x-ndjson")], Body::from_stream(lines)).into_response()
        }),
    );
    let mut watch = client(router).watch(&clusters(), &WatchQuery::default());
    for version in [1, 2] {
        assert_eq!(watch.next().await.unwrap(), WatchEvent::Bookmark { version });
    }
}

#[tokio::test]
async fn a_dropped_call_cancels_its_in_process_request() {
    let (begun, (gone, mut goodbye)) = (Arc::new(Notify::new()), mpsc::channel(1));
    let begins = begun.clone();
    let router = Router::new().route(
        "/fleet/api/hyperfleet/v1/clusters",
        get(async move || {
            let _goodbye = Goodbye(gone);
            begins.notify_one();
            std::future::pending::<()>().await;
        }),
    );
    let client = client(router);
    let asking = tokio::spawn(async move { client.list(&clusters(), &ListQuery::default()).await });
    begun.notified().await;
    assert!(goodbye.try_recv().is_err());
    asking.abort();
    goodbye.recv().await.unwrap();
}

#[tokio::test]
async fn a_truncated_in_process_answer_is_unreachable() {
    let router = Router::new().route(
        "/fleet/api/hyperfleet/v1/clusters",
        get(async || {
            let half = [Ok("{\"items\":["), Err(io::Error::other("a wire was cut"))];
            Body::from_stream(stream::iter(half))
        }),
    );
    let once = Settings { retry: hyperfleet_client::Retry::NEVER, ..settings(router) };
    let error = Client::new(once).unwrap().list(&clusters(), &ListQuery::default()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { .. } if error.to_string().contains("a wire was cut")),
        "{error}"
    );
}
