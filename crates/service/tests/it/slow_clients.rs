use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use hyperfleet_service::listener::ListenerOptions;
use tokio::sync::mpsc;

use crate::peer::{Server, within};

const BRIEF: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3600);

/// Answers without an end; says through the channel when such an answer begins, and closes it when all
/// are dropped.
fn endless(begun: mpsc::Sender<()>) -> Router {
    let answer = async move || {
        let _ = begun.send(()).await;
        Body::from_stream(stream::repeat_with(move || {
            let _held_until_dropped = &begun;
            Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 16 * 1024]))
        }))
    };
    Router::new().route("/", get(answer))
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off() {
    let options = ListenerOptions { read_timeout: BRIEF, idle_timeout: LONG, ..Default::default() };
    let server = Server::start(Router::new(), options).await;

    let mut silent = server.connect().await;
    silent.closed().await;

    let mut slow = server.connect().await;
    slow.send("GET / HTTP/1.1\r\nhost: te").await;
    slow.closed().await;

    let mut slow_the_second_time = server.connect().await;
    assert_eq!(slow_the_second_time.get("/").await.status, 404);
    slow_the_second_time.send("GET / HTTP/1.1\r\nhost: te").await;
    slow_the_second_time.closed().await;
}

#[tokio::test]
async fn a_connection_without_a_next_request_is_closed() {
    let options = ListenerOptions { read_timeout: LONG, idle_timeout: BRIEF, ..Default::default() };
    let server = Server::start(Router::new(), options).await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/").await.status, 404);
    client.closed().await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_off() {
    let (begun, mut answers) = mpsc::channel(1);
    let options = ListenerOptions { write_timeout: BRIEF, ..Default::default() };
    let server = Server::start(endless(begun), options).await;
    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    within("the answer to begin", answers.recv()).await.unwrap();

    server.shutdown.begin();
    assert_eq!(server.ended().await, 0, "the drain did not have to cut it");
    drop(client);
}
