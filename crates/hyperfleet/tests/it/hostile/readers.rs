//! Clients that ask for much and read little: what waits for them is bounded, and others are served.

use hyperfleet_testkit::eventually;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::still_serves;
use crate::support::*;

const MIB: f64 = 1_048_576.0;
const LARGE: usize = 1_000_000;
/// So many connections ask for all resources and do not read.
const READERS: usize = 8;
/// More than one response holds.
const RESOURCES: usize = 60;
/// What eight responses of 16 MiB need at most, with what a debug build wastes; they would be four times as much.
const BOUND: f64 = 300.0 * MIB;

/// So many different lists are watched, of which each buffer would hold 16 MiB.
const WATCHED_LISTS: usize = 48;
/// What all buffers together may hold, with what a debug build wastes.
const WATCHES_BOUND: f64 = 640.0 * MIB;

both_stores!(
    config = "server: {timeouts: {write: 10m}}";
    clients_that_do_not_read_hold_bounded_memory,
    watches_of_many_lists_hold_bounded_memory,
);
both_stores!(
    config = "server: {timeouts: {write: 10m}, limits: {response_bytes: 4194304, unsent_bytes: 16777216}}";
    large_reads_are_refused_while_the_budget_is_used_and_others_are_served,
    watches_that_are_not_read_count_too,
);
any_store!(config = "server: {timeouts: {write: 1s}}"; a_client_that_reads_slowly_is_disconnected);

async fn fill(app: &App, number: usize) {
    // Hardly compressible.
    let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(LARGE).collect();
    let creates = (0..number).map(|number| {
        let body = json!({"kind": "Cluster", "name": format!("large-{number}"), "spec": {"text": text}});
        app.post("/clusters").json(&body)
    });
    for create in creates {
        create.await.expect_status(201);
    }
}

/// Asks for all resources and reads the status alone.
async fn unread(app: &App, headers: &str) -> (TcpStream, u16) {
    // With small buffers of the system, so that the response waits in the server.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut stream = socket.connect(app.api().authority().parse().unwrap()).await.unwrap();
    let request = format!("GET {BASE}/clusters?pageSize=500 HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.unwrap();
    (stream, std::str::from_utf8(&line[9..]).unwrap().parse().unwrap())
}

async fn resident(app: &App) -> f64 {
    app.metric("process_resident_memory_bytes").await.unwrap()
}

async fn unsent(app: &App) -> f64 {
    app.metric("hyperfleet_api_unsent_bytes").await.unwrap()
}

async fn nothing_waits(app: &App) {
    eventually("all memory given back", DEADLINE, async || (unsent(app).await == 0.0).then_some(())).await;
}

async fn clients_that_do_not_read_hold_bounded_memory(app: &App) {
    fill(app, RESOURCES).await;
    let before = resident(app).await;
    let mut readers = Vec::new();
    for number in 0..READERS {
        let headers = ["", "accept-encoding: gzip\r\n", "accept-encoding: zstd\r\n"][number % 3];
        let (stream, status) = unread(app, headers).await;
        assert_eq!(status, 200);
        readers.push(stream);
    }
    let grown = resident(app).await - before;
    assert!(grown < BOUND, "grew by {} MiB", grown / MIB);
    still_serves(app).await;
    drop(readers);
    nothing_waits(app).await;
}

/// Each list that is watched has a buffer of its newest events.
async fn watches_of_many_lists_hold_bounded_memory(app: &App) {
    let before = resident(app).await;
    let mut watches = Vec::new();
    for number in 0..WATCHED_LISTS {
        watches.push(app.watch(&format!("/clusters?search=generation%20%21%3D%20-{}", number + 1)).await);
    }
    fill(app, 16).await;
    app.create_cluster("last").await;
    // Every event was encoded for a watch that has come to the last one, or has fallen behind.
    for watch in &mut watches {
        while let Ok(Some(event)) = watch.next().await
            && event.json["object"]["name"] != "last"
        {}
    }
    let grown = resident(app).await - before;
    assert!(grown < WATCHES_BOUND, "grew by {} MiB", grown / MIB);
}

async fn large_reads_are_refused_while_the_budget_is_used_and_others_are_served(app: &App) {
    fill(app, 6).await;
    let mut readers = Vec::new();
    let refused = loop {
        assert!(readers.len() < 20, "nothing is refused");
        let (mut stream, status) = unread(app, "connection: close\r\n").await;
        if status == 200 {
            readers.push(stream);
            continue;
        }
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        break (status, rest.to_ascii_lowercase());
    };
    assert!(readers.len() >= 4, "{} had room", readers.len());
    assert_eq!(refused.0, 503);
    assert!(
        refused.1.contains("retry-after: 1\r\n") && refused.1.contains("hyperfleet-svc-001"),
        "{}",
        refused.1
    );

    // Small responses go on, and so do writes, whatever they answer.
    app.get("/clusters?pageSize=500&fields=name&search=name%3D'absent'").await.expect_status(200);
    let text = "x".repeat(LARGE);
    let made =
        app.create("/clusters", &json!({"kind": "Cluster", "name": "another", "spec": {"text": text}})).await;
    app.get(href(&made)).await.expect_status(503);
    app.merge(&made, &json!({"spec": {"text": null}})).await;
    assert_eq!(app.read(&made).await["spec"], json!({}));
    app.create_cluster("small").await;
    app.server.health().get("/readyz").await.expect_status(200);

    drop(readers);
    nothing_waits(app).await;
    app.get("/clusters?pageSize=500").await.expect_status(200);
    nothing_waits(app).await;
}

async fn watches_that_are_not_read_count_too(app: &App) {
    fill(app, 20).await;
    let mut readers = Vec::new();
    eventually("a watch to be ended", DEADLINE, async || {
        let mut stream = app.watch("/clusters?since=0").await;
        match stream.next().await {
            Ok(Some(event)) if event.json["type"] == "ERROR" => {
                assert_eq!(event.json["code"], "HYPERFLEET-SVC-001");
                Some(())
            }
            _ => {
                readers.push(stream);
                assert!(readers.len() < 30, "all are served");
                None
            }
        }
    })
    .await;
    app.create_cluster("small").await;
    app.get("/clusters?pageSize=1").await.expect_status(200);
    drop(readers);
    nothing_waits(app).await;
}

async fn a_client_that_reads_slowly_is_disconnected(app: &App) {
    fill(app, 16).await;
    let (mut stream, status) = unread(app, "").await;
    assert_eq!(status, 200);
    let reading = async {
        let mut pace = tokio::time::interval(std::time::Duration::from_millis(100));
        let mut part = [0; 2048];
        let mut taken = 0;
        loop {
            pace.tick().await;
            match stream.read(&mut part).await {
                Ok(read) if read > 0 => taken += read,
                _ => return taken,
            }
        }
    };
    let taken = tokio::time::timeout(DEADLINE, reading).await.expect("the server must close the connection");
    assert!(taken < 15 * LARGE, "{taken} bytes were taken");
    nothing_waits(app).await;
    still_serves(app).await;
}
