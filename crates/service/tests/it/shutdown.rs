use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hyperfleet_service::listener::ListenerOptions;
use hyperfleet_testkit::eventually;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::peer::{DEADLINE, Server, within};

/// `/` answers when it is released.
#[derive(Clone)]
pub(crate) struct Gate {
    begun: Arc<Semaphore>,
    released: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), released: Arc::new(Semaphore::new(0)) }
    }

    pub(crate) fn router(&self) -> Router {
        let Self { begun, released } = self.clone();
        let wait = async move || {
            begun.add_permits(1);
            released.acquire().await.unwrap().forget();
            "done"
        };
        Router::new().route("/", get(wait)).route("/quick", get(async || "quick"))
    }

    pub(crate) async fn one_request_runs(&self) {
        within("the request to begin", self.begun.acquire()).await.unwrap().forget();
    }

    pub(crate) fn release_one(&self) {
        self.released.add_permits(1);
    }
}

#[tokio::test]
async fn a_drain_finishes_running_requests_closes_idle_connections_and_accepts_none() {
    let gate = Gate::new();
    let server = Server::start(gate.router(), ListenerOptions::default()).await;
    let mut resting = server.connect().await;
    assert_eq!(resting.get("/quick").await.status, 200);
    let mut unused = server.connect().await;
    let mut running = server.connect().await;
    running.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    gate.one_request_runs().await;

    server.shutdown.begin();
    resting.closed().await;
    unused.closed().await;
    let address = server.address;
    eventually("new connections are refused", DEADLINE, async || TcpStream::connect(address).await.err())
        .await;

    gate.release_one();
    let answer = running.answer().await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "done"));
    assert_eq!(answer.header("connection"), Some("close"));
    running.closed().await;
    assert_eq!(server.ended().await, 0);
}

#[tokio::test]
async fn dropping_the_server_cuts_everything_at_once() {
    let gate = Gate::new();
    let server = Server::start(gate.router(), ListenerOptions::default()).await;
    let mut running = server.connect().await;
    running.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    gate.one_request_runs().await;

    server.serving.abort();
    running.closed().await;
}

#[tokio::test]
async fn requests_that_run_past_the_grace_period_are_cut_and_counted() {
    let gate = Gate::new();
    let options = ListenerOptions { grace: Duration::from_millis(50), ..Default::default() };
    let server = Server::start(gate.router(), options).await;
    let mut running = server.connect().await;
    running.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    gate.one_request_runs().await;

    server.shutdown.begin();
    running.closed().await;
    assert_eq!(server.ended().await, 1);
}
