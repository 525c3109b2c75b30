use std::io::{Read as _, Write as _};

use axum::Router;
use axum::extract::Extension;
use axum::routing::{get, post};
use http::StatusCode;
use hyperfleet_service::listener::{Listener, ListenerOptions, PeerAddr};
use hyperfleet_service::shutdown::Shutdown;
use tokio::net::TcpStream;

use crate::peer::{Server, Wire, within};

fn who() -> Router {
    Router::new().route("/", get(async |Extension(PeerAddr(peer)): Extension<PeerAddr>| peer.to_string()))
}

#[tokio::test]
async fn requests_know_their_peer_and_share_a_connection() {
    let server = Server::start(who(), ListenerOptions::default()).await;
    let mut client = server.connect().await;
    let own_address = client.stream.local_addr().unwrap().to_string();
    for _ in 0..3 {
        let answer = client.get("/").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, own_address.as_str()));
    }
}

#[tokio::test]
async fn localhost_means_every_loopback_address_with_one_port() {
    let listener = Listener::bind("test", "localhost", 0, ListenerOptions::default()).await.unwrap();
    let addresses = listener.addresses().to_vec();
    let serving = tokio::spawn(listener.serve(who(), Shutdown::new()));
    for address in &addresses {
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), addresses[0].port());
        let mut client = Wire::new(TcpStream::connect(address).await.unwrap());
        assert_eq!(client.get("/").await.status, 200);
    }
    serving.abort();
}

#[tokio::test]
async fn an_address_in_use_is_refused_by_name_even_when_another_one_is_free() {
    let first = Listener::bind("first", "127.0.0.1", 0, ListenerOptions::default()).await.unwrap();
    let taken = first.addresses()[0];
    let refused =
        Listener::bind("second", "localhost", taken.port(), ListenerOptions::default()).await.unwrap_err();
    assert_eq!(refused.address_in_use(), Some(taken));
    assert_eq!(
        refused.to_string(),
        format!("cannot listen on {taken} for second: the address is in use by another process")
    );
}

#[tokio::test]
async fn an_address_of_another_machine_and_an_unknown_host_say_so() {
    let elsewhere = Listener::bind("test", "192.0.2.1", 0, ListenerOptions::default()).await.unwrap_err();
    assert_eq!(
        elsewhere.to_string(),
        "cannot listen on 192.0.2.1:0 for test: this machine does not have that address"
    );
    let unknown = Listener::bind("test", "no host", 0, ListenerOptions::default()).await.unwrap_err();
    assert!(unknown.to_string().starts_with("cannot resolve the test host 'no host': "), "{unknown}");
}

#[tokio::test]
async fn a_response_reaches_a_client_whose_large_body_is_not_read() {
    let router = Router::new().route("/", post(async || StatusCode::PAYLOAD_TOO_LARGE));
    let server = Server::start(router, ListenerOptions::default()).await;
    let mut client = server.connect().await;
    let size = 32 << 20;
    client.send(format!("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: {size}\r\n\r\n")).await;
    client.send(vec![b'x'; size]).await;
    assert_eq!(client.answer().await.status, 413);
}

#[tokio::test]
async fn an_answer_ends_the_wait_for_a_body_that_never_comes() {
    let router = Router::new().route("/", post(async || StatusCode::REQUEST_TIMEOUT));
    let server = Server::start(router, ListenerOptions::default()).await;
    let mut client = server.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\nabc").await;
    assert_eq!(client.answer().await.status, 408);
    client.closed().await;
}

#[tokio::test]
async fn malformed_and_oversized_heads_are_refused_with_an_answer() {
    let server = Server::start(who(), ListenerOptions::default()).await;
    let mut client = server.connect().await;
    client.send("this is not HTTP\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 400);
    client.closed().await;

    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: test\r\nx-filler: ").await;
    client.send(vec![b'x'; 1 << 20]).await;
    assert_eq!(client.answer().await.status, 431);

    // Its end is there when its size is looked at.
    for (size, status) in [(60_000, 200), (70_000, 431), (100_000, 431)] {
        let mut client = server.connect().await;
        client.send(format!("GET / HTTP/1.1\r\nhost: test\r\nx-filler: {}\r\n\r\n", "x".repeat(size))).await;
        assert_eq!(client.answer().await.status, status, "{size}");
    }

    let mut client = server.connect().await;
    client.send(format!("GET /{} HTTP/1.1\r\nhost: test\r\n\r\n", "x".repeat(70_000))).await;
    assert_eq!(client.answer().await.status, 414);

    let mut client = server.connect().await;
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    client.send(format!("GET / HTTP/1.1\r\nhost: test\r\n{many}\r\n")).await;
    assert_eq!(client.answer().await.status, 431);
}

#[tokio::test]
async fn a_panic_ends_only_its_connection() {
    let router = who().route("/panic", get(async || -> &'static str { panic!("on purpose, in a test") }));
    let server = Server::start(router, ListenerOptions::default()).await;
    let mut bystander = server.connect().await;
    assert_eq!(bystander.get("/").await.status, 200);

    let mut victim = server.connect().await;
    victim.send("GET /panic HTTP/1.1\r\nhost: test\r\n\r\n").await;
    victim.closed().await;

    assert_eq!(bystander.get("/").await.status, 200);
    assert_eq!(server.connect().await.get("/").await.status, 200);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_until_one_ends() {
    let options = ListenerOptions { max_connections: 1, ..Default::default() };
    let server = Server::start(who(), options).await;
    let mut first = server.connect().await;
    assert_eq!(first.get("/").await.status, 200);

    let mut second = server.connect().await;
    second.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    assert_eq!(first.get("/").await.status, 200);
    let unanswered = second.stream.try_read(&mut [0]).unwrap_err();
    assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock);

    drop(first);
    assert_eq!(within("the slot", second.answer()).await.status, 200);
}

#[tokio::test]
async fn connections_are_shared_out_among_threads_and_drained_by_all_of_them() {
    let thread = || async { std::thread::current().name().unwrap_or_default().to_owned() };
    let router = axum::Router::new().route("/", axum::routing::get(thread));
    let server = Server::start(router, ListenerOptions { threads: 2, ..Default::default() }).await;
    let mut names = Vec::new();
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut connection = server.connect().await;
        for _ in 0..2 {
            names.push(connection.get("/").await.body);
        }
        connections.push(connection);
    }
    let (first, second) = ("test-0", "test-1");
    assert_eq!(names, [first, first, second, second, first, first, second, second]);
    server.shutdown.begin();
    for mut connection in connections {
        connection.closed().await;
    }
}

/// The test's own runtime is busy, as that of a process without free processors is.
#[tokio::test]
async fn a_listener_with_a_thread_of_its_own_answers_while_the_process_is_busy() {
    let options = ListenerOptions { threads: 1, ..Default::default() };
    let server = Server::start(who(), options).await;
    // Until it serves.
    assert_eq!(server.connect().await.get("/").await.status, 200);
    for _ in 0..3 {
        let mut blocking = std::net::TcpStream::connect(server.address).unwrap();
        blocking.set_read_timeout(Some(crate::peer::DEADLINE)).unwrap();
        blocking.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        let mut status = [0; 12];
        blocking.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    server.shutdown.begin();
    assert_eq!(server.ended().await, 0);
}
