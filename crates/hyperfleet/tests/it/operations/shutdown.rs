//! SIGTERM: unready at once, running requests finished, no new ones accepted, exit code 0; the timeout and a second
//! signal end it earlier.

use hyperfleet_testkit::{Server, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::installation::Installation;
use super::program::Program;
use super::{CLUSTERS, DEADLINE, cluster};
use crate::support::both_stores;

/// A POST of which the server has the head and asks for the body.
struct Slow {
    stream: TcpStream,
    body: String,
}

impl Slow {
    async fn begin(server: &Server, name: &str) -> Self {
        let api = server.api();
        let body = cluster(name).to_string();
        let mut stream = TcpStream::connect(api.authority()).await.unwrap();
        let head = format!(
            "POST {CLUSTERS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             expect: 100-continue\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        Self { stream, body }
    }

    /// Sends the body and returns all that comes back.
    async fn finish(mut self) -> String {
        self.stream.write_all(self.body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(DEADLINE, self.stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }
}

async fn draining(server: &Server) {
    let health = server.health();
    let answer = eventually("not ready", DEADLINE, async || {
        let answer = health.get("/readyz").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!(answer.problem_code(), "HYPERFLEET-SVC-001");
    assert_eq!(answer.json()["draining"], true);
}

both_stores!(start = Installation::migrated; a_terminated_server_finishes_running_requests_and_accepts_no_new_ones);

async fn a_terminated_server_finishes_running_requests_and_accepts_no_new_ones(installation: &Installation) {
    let mut server = installation.serve().start().await.unwrap();
    let idle = TcpStream::connect(server.api().authority()).await.unwrap();
    let running = Slow::begin(&server, "last").await;

    server.signal_terminate().unwrap();
    draining(&server).await;
    server.health().get("/healthz").await.expect_status(200);
    server.metrics().get("/metrics").await.expect_status(200);
    eventually("new connections are refused", DEADLINE, async || {
        TcpStream::connect(server.api().authority()).await.err()
    })
    .await;
    let answer = running.finish().await;
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");

    assert_eq!(server.wait().await.unwrap().code(), Some(0));
    drop(idle);
    assert!(server.logs().iter().any(|line| line["message"] == "stopped" && line["connections_cut"] == 0));
    server.restart().await.unwrap();
    assert_eq!(server.api().get(CLUSTERS).await.json()["items"][0]["name"], "last");
}

#[tokio::test]
async fn requests_beyond_the_shutdown_timeout_are_cut() {
    let installation = Installation::sqlite();
    let mut server =
        installation.serve().env("HYPERFLEET_HEALTH_SHUTDOWN_TIMEOUT", "50ms").start().await.unwrap();
    let _running = Slow::begin(&server, "never").await;
    assert_eq!(server.terminate().await.unwrap().code(), Some(0));
    assert!(server.logs().iter().any(|line| line["message"] == "stopped" && line["connections_cut"] == 1));
    server.restart().await.unwrap();
    assert_eq!(server.api().get(CLUSTERS).await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let mut server = Installation::sqlite().serve().start().await.unwrap();
    let _running = Slow::begin(&server, "never").await;
    server.signal_terminate().unwrap();
    draining(&server).await;
    server.signal_terminate().unwrap();
    assert_eq!(server.wait().await.unwrap().code(), Some(143));
    let said = "error: stopped at once by a second SIGTERM";
    assert!(server.logs().iter().any(|line| line == said), "{:?}", server.logs());
}

#[tokio::test]
async fn a_server_that_still_waits_for_its_database_can_be_stopped() {
    let program = Program::new()
        .env("HYPERFLEET_SERVER_JWT_ENABLED", "false")
        .env("HYPERFLEET_DATABASE_URL", "postgres://postgres@/x?host=%2Fnonexistent")
        .env("HYPERFLEET_DATABASE_POOL_CONN_RETRY_INTERVAL", "1h");
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut running = program.start(&["serve", "--server-port=0", "--health-port=0", "--metrics-port=0"]);
        running.logged("the database is not reachable yet").await;
        running.signal(signal).await;
        assert_eq!(running.ended().await, Some(code));
    }
}
