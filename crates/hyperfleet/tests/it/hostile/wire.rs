//! Below HTTP: bytes that no client library would send, and clients that stop half way.

use hyperfleet_testkit::{eventually, raw};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{reveals_nothing, still_serves};
use crate::support::*;

const LARGE: usize = 10 << 20;
/// `server.limits.connections` where it is tested.
const CONNECTIONS: usize = 4;

/// The statuses of all answers in what came back, after a look for what must not be in it.
fn statuses(answer: &[u8], what: &str) -> Vec<u16> {
    let shown = String::from_utf8_lossy(answer).into_owned();
    reveals_nothing(&shown, what);
    let lines = shown.split("HTTP/1.").skip(1).map(|rest| rest[2..5].parse().unwrap());
    let statuses: Vec<u16> = lines.collect();
    assert!(statuses.iter().all(|status| *status < 500 || [503, 504].contains(status)), "{what}: {shown}");
    statuses
}

async fn sent(app: &App, bytes: &[u8]) -> Vec<u16> {
    let answer = raw(app.api().authority(), bytes).await;
    statuses(&answer, &String::from_utf8_lossy(&bytes[..bytes.len().min(120)]))
}

/// Sends, closes the sending side, and reads what still comes.
async fn sent_and_shut(app: &App, bytes: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect(app.api().authority()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // A reset is as good an end as any.
    let _ = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer))
        .await
        .expect("the server must let go");
    statuses(&answer, &String::from_utf8_lossy(&bytes[..bytes.len().min(120)]))
}

fn post(headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("POST {BASE}/clusters HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

async fn a_body_of_ten_megabytes_is_refused_in_every_encoding(app: &App) {
    let body = vec![b' '; LARGE];
    let announced = format!("content-length: {LARGE}\r\n");
    assert_eq!(sent(app, &post(&announced, &body)).await, [413]);

    // Who asks first is not told to go on.
    let asking = format!("{announced}expect: 100-continue\r\n");
    assert_eq!(sent(app, &post(&asking, b"")).await, [413]);
    assert_eq!(sent(app, &post("content-length: 1\r\nexpect: 100-continue\r\n", b"{")).await, [100, 400]);

    let mut chunked = Vec::with_capacity(LARGE + (LARGE >> 10));
    for chunk in body.chunks(64 << 10) {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(sent(app, &post("transfer-encoding: chunked\r\n", &chunked)).await, [413]);

    for (method, path) in
        [("PATCH", "clusters/absent"), ("POST", "resources"), ("POST", "clusters/absent/force-delete")]
    {
        let head = format!(
            "{method} {BASE}/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{announced}\r\n"
        );
        assert_eq!(sent(app, &[head.as_bytes(), &body].concat()).await, [413], "{method} {path}");
    }
    for (method, path, status) in
        [("GET", "clusters", 200), ("PUT", "clusters", 405), ("POST", "nowhere", 404)]
    {
        let head = format!(
            "{method} {BASE}/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{announced}\r\n"
        );
        assert_eq!(sent(app, &[head.as_bytes(), &body].concat()).await, [status], "{method} {path}");
    }
    still_serves(app).await;
}

async fn a_refusal_that_closes_the_connection_announces_it(app: &App) {
    let large = " ".repeat((1 << 20) + 1);
    let refused = app.post("/clusters").body(large).await.expect_status(413);
    assert_eq!(refused.header("connection"), Some("close"));
    let read = app.post("/clusters").body("{}").await.expect_status(400);
    assert_eq!(read.header("connection"), None);
    let limit = format!("{}{{}}", " ".repeat((1 << 20) - 2));
    app.post("/clusters").body(limit).await.expect_status(400);
    still_serves(app).await;
}

async fn requests_that_are_no_http_are_answered_or_closed(app: &App) {
    let many: String = (0..5_000).map(|n| format!("x-{n}: y\r\n")).collect();
    let line = |bytes: &str| format!("{bytes}\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes();
    let get = format!("GET {BASE}/clusters HTTP/1.1");
    let headers = |headers: &str| {
        format!("{get}\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n\r\n").into_bytes()
    };
    let mut random = vec![0; 4096];
    fastrand::Rng::with_seed(0x5eed).fill(&mut random);
    for bytes in [
        b"\r\n\r\n\r\n".to_vec(),
        b"this is not HTTP\r\n\r\n".to_vec(),
        vec![0; 4096],
        random,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET /\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH_9\r\n".to_vec(),
        line("GET / HTTP/9.9"),
        line("GET / HTTP/1.1 HTTP/1.1"),
        line("GET  / HTTP/1.1"),
        line("G\u{0}T / HTTP/1.1"),
        line("GET /\u{7} HTTP/1.1"),
        line("GET /a b HTTP/1.1"),
        line(&format!("GET {BASE}/clusters/é HTTP/1.1")),
        line(&format!("GET /{} HTTP/1.1", "x".repeat(200_000))),
        line(&format!("{} / HTTP/1.1", "M".repeat(200_000))),
        headers("no colon here"),
        headers(": empty name"),
        headers("bad name: x"),
        headers("x-nul: a\u{0}b"),
        headers("x-fold: a\r\n  b"),
        headers(&format!("x-long: {}", "x".repeat(1 << 20))),
        headers(many.trim_end()),
        headers("content-length: -1"),
        headers("content-length: 1e3"),
        headers("content-length: 99999999999999999999999"),
        headers("content-length: 3\r\ncontent-length: 4"),
        headers("transfer-encoding: gzip"),
        headers("transfer-encoding: chunked, gzip"),
        headers("upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__"),
        post("transfer-encoding: chunked\r\n", b"ffffffffffffffffff\r\nx"),
        post("transfer-encoding: chunked\r\n", b"-1\r\nx\r\n"),
        post("transfer-encoding: chunked\r\n", b"zz\r\nx\r\n"),
        post("transfer-encoding: chunked\r\n", b"2\r\n{}0\r\n\r\n"),
        post(
            "transfer-encoding: chunked\r\n",
            format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(1 << 20)).as_bytes(),
        ),
    ] {
        sent_and_shut(app, &bytes).await;
    }
    still_serves(app).await;
}

async fn unusual_but_valid_requests_are_answered(app: &App) {
    let close = "connection: close\r\n\r\n";
    for (request, expected) in [
        (format!("GET {BASE}/clusters HTTP/1.0\r\n\r\n"), vec![200]),
        (format!("GET {BASE}/clusters HTTP/1.0\r\nhost: localhost\r\n\r\n"), vec![200]),
        (format!("GET http://localhost{BASE}/clusters HTTP/1.1\r\nhost: localhost\r\n{close}"), vec![200]),
        (format!("GET http://localhost HTTP/1.1\r\nhost: localhost\r\n{close}"), vec![404]),
        (format!("OPTIONS * HTTP/1.1\r\nhost: localhost\r\n{close}"), vec![404]),
        (format!("CONNECT localhost:443 HTTP/1.1\r\nhost: localhost\r\n{close}"), vec![404]),
        (format!("GET {BASE}/clusters#fragment HTTP/1.1\r\nhost: localhost\r\n{close}"), vec![200]),
        (format!("get {BASE}/clusters HTTP/1.1\r\nhost: localhost\r\n{close}"), vec![405]),
        (format!("\r\nGET {BASE}/clusters HTTP/1.1\r\nhost: localhost\r\n{close}"), vec![200]),
        (
            format!(
                "GET {BASE}/clusters HTTP/1.1\r\nhost: localhost\r\n\r\nGET {BASE}/nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n\
                 GET {BASE}/clusters HTTP/1.1\r\nhost: localhost\r\n{close}"
            ),
            vec![200, 404, 200],
        ),
    ] {
        assert_eq!(sent(app, request.as_bytes()).await, expected, "{request}");
    }
    still_serves(app).await;
}

/// A browser can be made to send requests here by the name of a foreign page.
async fn a_request_names_an_allowed_host_once(app: &App) {
    let status = async |target: &str, hosts: &str| {
        let request = format!("GET {target} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        let answer = sent(app, request.as_bytes()).await;
        assert_eq!(answer.len(), 1, "{request}");
        answer[0]
    };
    let list = format!("{BASE}/clusters");
    for (hosts, expected) in [
        ("", 400),
        ("host: localhost\r\nhost: localhost\r\n", 400),
        ("host: ' or 1=1\r\n", 400),
        ("host: a:b:c\r\n", 400),
        ("host: LOCALHOST:8000\r\n", 200),
        ("host: 127.1.2.3\r\n", 200),
        ("host: [::1]:8000\r\n", 200),
        ("host: fleet.example:8000\r\n", 200),
        ("host: machine.example\r\n", 200),
        ("host: evil.example\r\n", 421),
        ("host: 192.0.2.7\r\n", 421),
        ("host: localhost.evil.example\r\n", 421),
    ] {
        assert_eq!(status(&list, hosts).await, expected, "{hosts}");
        assert_eq!(status("/api/hyperfleet/metadata", hosts).await, expected, "{hosts}");
    }
    assert_eq!(status(&format!("http://evil.example{list}"), "host: localhost\r\n").await, 421);

    let foreign =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
    let refused = raw(app.api().authority(), foreign(&list).as_bytes()).await;
    let refused = String::from_utf8(refused).unwrap();
    let problem: Value = serde_json::from_str(refused.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(
        (&problem["title"], &problem["code"]),
        (&json!("Misdirected Request"), &json!("HYPERFLEET-VAL-002"))
    );
    for told in ["evil.example", "server.allowed_hosts"] {
        assert!(text(&problem["detail"]).contains(told), "{problem}");
    }
    let logged = app.server.logs().into_iter().find(|line| line["hosts"].is_string()).unwrap();
    let hosts = text(&logged["hosts"]);
    assert!(hosts.contains("localhost") && hosts.contains("fleet.example"), "{hosts}");

    // Health and metrics tell nothing that a foreign page could use, and probes name any host.
    for (listener, path) in [(app.server.health(), "/readyz"), (app.server.metrics(), "/metrics")] {
        assert!(raw(listener.authority(), foreign(path).as_bytes()).await.starts_with(b"HTTP/1.1 200"));
    }
    still_serves(app).await;
}

async fn every_host_can_be_allowed(app: &App) {
    let foreign = format!("GET {BASE}/clusters HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
    assert_eq!(sent(app, foreign.as_bytes()).await, [200]);
    let twice = format!("GET {BASE}/clusters HTTP/1.1\r\nhost: a\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(sent(app, twice.as_bytes()).await, [400]);
}

async fn a_request_smuggled_in_a_body_is_not_executed(app: &App) {
    let cluster = app.create_cluster("kept").await;
    let inner = format!("DELETE {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", href(&cluster));
    for (headers, body) in [
        (
            format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", inner.len() + 5),
            format!("0\r\n\r\n{inner}"),
        ),
        (format!("content-length: {}\r\n", inner.len()), inner.clone()),
        (format!("content-length: {}\r\ncontent-length: 0\r\n", inner.len()), inner.clone()),
        ("content-length: 0\r\n".to_owned(), inner.clone()),
    ] {
        sent(app, &post(&headers, body.as_bytes())).await;
    }
    assert_eq!(app.read(&cluster).await, cluster);
    still_serves(app).await;
}

async fn a_truncated_request_changes_nothing(app: &App) {
    let whole = r#"{"kind": "Cluster", "name": "half-way", "spec": {}}"#;
    for (headers, body) in [
        ("content-length: 1000\r\n", whole.to_owned()),
        ("transfer-encoding: chunked\r\n", format!("{:x}\r\n{whole}", whole.len())),
        ("transfer-encoding: chunked\r\n", format!("{:x}\r\n{whole}\r\n", whole.len())),
        ("transfer-encoding: chunked\r\n", format!("{:x}\r\n{whole}\r\n0\r\n", whole.len())),
        ("transfer-encoding: chunked\r\n", format!("fff\r\n{whole}")),
    ] {
        let answer = sent_and_shut(app, &post(headers, body.as_bytes())).await;
        assert!(answer.is_empty() || answer == [400], "{answer:?}");
    }
    for bytes in ["", "G", "GET /api", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nhost: x\r\nx-a"] {
        let answer = sent_and_shut(app, bytes.as_bytes()).await;
        assert!(answer.is_empty() || answer == [400], "{answer:?}");
    }
    assert_eq!(app.names("/clusters").await, Vec::<String>::new());
    still_serves(app).await;
}

async fn a_stalled_request_times_out(app: &App) {
    assert_eq!(sent(app, &post("content-length: 1000\r\n", b"{\"kind\":")).await, [504]);
    assert_eq!(sent(app, &post("transfer-encoding: chunked\r\n", b"5\r\n{\"ki")).await, [504]);
    assert_eq!(sent(app, &post("content-length: 10\r\nexpect: 100-continue\r\n", b"")).await, [100, 504]);
    for bytes in ["", "GET /api", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        let answer = sent(app, bytes.as_bytes()).await;
        assert!(answer.is_empty() || answer == [408], "{answer:?}");
    }
    still_serves(app).await;
}

async fn many_stalled_clients_do_not_block_others(app: &App) {
    let mut waiting = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(app.api().authority()).await.unwrap();
        let part =
            if number % 2 == 0 { post("content-length: 1000\r\n", b"{") } else { b"GET /api".to_vec() };
        stream.write_all(&part).await.unwrap();
        waiting.push(stream);
    }
    still_serves(app).await;
    drop(waiting);
    still_serves(app).await;
}

async fn a_client_that_never_reads_is_disconnected(app: &App) {
    let mut stream = TcpStream::connect(app.api().authority()).await.unwrap();
    // More answers than all buffers between the two can hold.
    let request = format!("GET {BASE}/openapi HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.repeat(1_000).as_bytes()).await.unwrap();
    eventually("the server to close", DEADLINE, async || stream.write_all(b"\n").await.err()).await;
    still_serves(app).await;
}

async fn connections_beyond_the_limit_wait_for_one_to_end(app: &App) {
    let request = format!("GET {BASE}/clusters HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS + 1 {
        let mut stream = TcpStream::connect(app.api().authority()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        open.push(stream);
    }
    eventually("all connections in use", DEADLINE, async || {
        app.server.logs().into_iter().find(|line| line["limit"] == CONNECTIONS)
    })
    .await;
    let mut last = open.pop().unwrap();
    drop(open);
    let mut status = [0; 12];
    last.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    drop(last);
    still_serves(app).await;
}

any_store!(
    a_body_of_ten_megabytes_is_refused_in_every_encoding,
    a_refusal_that_closes_the_connection_announces_it,
    requests_that_are_no_http_are_answered_or_closed,
    unusual_but_valid_requests_are_answered,
    a_request_smuggled_in_a_body_is_not_executed,
    a_truncated_request_changes_nothing,
    many_stalled_clients_do_not_block_others,
);
any_store!(
    config = "server: {hostname: machine.example, allowed_hosts: [fleet.example]}";
    a_request_names_an_allowed_host_once,
);
any_store!(config = "server: {allowed_hosts: ['*']}"; every_host_can_be_allowed);
any_store!(config = "server: {timeouts: {read: 300ms}}"; a_stalled_request_times_out);
any_store!(config = "server: {timeouts: {write: 300ms}}"; a_client_that_never_reads_is_disconnected);
any_store!(config = "server: {limits: {connections: 4}}"; connections_beyond_the_limit_wait_for_one_to_end);
