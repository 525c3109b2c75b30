use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use hyperfleet_service::listener::ListenerOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
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

#[tokio::test]
async fn a_client_that_reads_a_little_now_and_then_is_cut_off() {
    let (begun, mut answers) = mpsc::channel(1);
    let options = ListenerOptions { write_timeout: Duration::from_secs(1), ..Default::default() };
    let server = Server::start(endless(begun), options).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut client = socket.connect(server.address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    within("the answer to begin", answers.recv()).await.unwrap();
    let reading = async {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        let mut part = [0; 1024];
        loop {
            pace.tick().await;
            if !matches!(client.read(&mut part).await, Ok(read) if read > 0) {
                break;
            }
        }
    };
    within("the server to close", reading).await;
}

/// A response with nothing to send is not slow. The client that is cut off meanwhile shows that the time has passed.
#[tokio::test]
async fn a_response_that_waits_for_something_to_happen_goes_on() {
    let (begun, _answers) = mpsc::channel(8);
    let (events, listening) = mpsc::channel::<Bytes>(1);
    let listening = std::sync::Arc::new(std::sync::Mutex::new(Some(listening)));
    let answer = async move || {
        let events = listening.lock().unwrap().take().unwrap();
        let events = stream::unfold(events, async |mut events| {
            let event = events.recv().await?;
            Some((Ok::<_, Infallible>(event), events))
        });
        Body::from_stream(events)
    };
    let router = endless(begun).route("/events", get(answer));
    let options = ListenerOptions { write_timeout: BRIEF, idle_timeout: LONG, ..Default::default() };
    let server = Server::start(router, options).await;
    let mut watcher = server.connect().await;
    watcher.send("GET /events HTTP/1.1\r\nhost: test\r\n\r\n").await;
    for text in ["one", "two"] {
        events.send(Bytes::from(text)).await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(format!("{text}\r\n").as_bytes()) {
            let read = within("an event", watcher.stream.read_buf(&mut received)).await.unwrap();
            assert_ne!(read, 0, "the watch was cut off");
        }
        let mut stalled = server.connect().await;
        stalled.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
        let cut = async {
            while stalled.stream.write_all(b"\n").await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        within("the stalled client to be cut off", cut).await;
    }
}
