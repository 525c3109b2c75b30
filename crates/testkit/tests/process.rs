//! Client and server process against what is on every machine: a socket and a shell.

#![allow(clippy::unwrap_used, reason = "a fault fails the test")]

use hyperfleet_testkit::{Client, Launch, raw};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

/// Answers each request with its own body, and closes every connection after `requests` of them.
async fn echo(requests: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            for _ in 0..requests {
                let (mut line, mut length) = (String::new(), 0);
                while stream.read_line(&mut line).await.unwrap() > 2 {
                    if let Some(value) = line.strip_prefix("content-length: ") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await.unwrap();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nx-first: yes\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(&body).await.unwrap();
            }
        }
    });
    address.to_string()
}

#[tokio::test]
async fn the_client_outlives_connections_that_the_server_closes() {
    let client = Client::new(&format!("http://{}", echo(2).await));
    for number in 0..7 {
        let answer = client.post("/").json(&json!({"number": number})).await.expect_status(200);
        assert_eq!(answer.json(), json!({"number": number}));
        assert_eq!(answer.header("X-First"), Some("yes"));
    }
}

#[tokio::test]
async fn raw_bytes_come_back_whole() {
    let answer = raw(&echo(1).await, b"GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(answer, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-first: yes\r\n\r\n");
}

#[tokio::test]
#[should_panic(expected = "expected 201, got 200")]
async fn a_wrong_status_shows_the_answer() {
    Client::new(&echo(1).await).get("/").await.expect_status(201);
}

#[tokio::test]
async fn a_server_that_gives_up_says_why() {
    let fault = Launch::new("/bin/ls").start().await.unwrap_err();
    let text = format!("{fault:#}");
    assert!(text.contains("gave up") && text.contains("serve"), "{text}");
}
