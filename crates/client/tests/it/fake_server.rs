//! A server with scripted replies, which records its requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyperfleet_client::{Client, Retry, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The reply to one connection.
#[derive(Clone)]
pub(crate) enum Reply {
    /// These bytes, then the end.
    Once(Vec<u8>),
    /// These bytes, then nothing.
    ThenSilence(Vec<u8>),
    /// The first, then the second again and again.
    Endless(Vec<u8>, Vec<u8>),
}

/// Stops when it is dropped.
pub(crate) struct FakeServer {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _listening: JoinSet<()>,
}

impl FakeServer {
    /// Sends these to its connections in turn, the last one to all further ones.
    pub(crate) async fn replying(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = asked.clone();
        let script: Vec<Reply> = script.into_iter().collect();
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let reply = script[number.min(script.len() - 1)].clone();
                connections.spawn(serve(stream, reply, record.clone()));
            }
        });
        Self { url, asked, _listening: listening }
    }

    /// The requests so far, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// A client with short pauses.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.settings()).unwrap()
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            timeout: Duration::from_secs(20),
            retry: Retry { first_pause: Duration::from_millis(1), ..Retry::default() },
            ..Settings::of(&self.url)
        }
    }
}

async fn serve(mut stream: TcpStream, reply: Reply, record: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    while !is_whole(&request) {
        match stream.read_buf(&mut request).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
    record.lock().unwrap().push(String::from_utf8(request).unwrap());
    // The client may hang up.
    let _ = match reply {
        Reply::Once(bytes) => {
            let sent = stream.write_all(&bytes).await;
            // A reset could discard bytes that the client has not read.
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            sent
        }
        Reply::ThenSilence(bytes) => {
            let sent = stream.write_all(&bytes).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            sent
        }
        Reply::Endless(first, again) => {
            let mut sent = stream.write_all(&first).await;
            while sent.is_ok() {
                sent = stream.write_all(&again).await;
            }
            sent
        }
    };
}

fn is_whole(request: &[u8]) -> bool {
    let Some(head) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    request.len() >= head + 4 + length.unwrap_or(0)
}

/// An answer with this body.
pub(crate) fn answer(status: &str, media_type: &str, body: &str) -> Reply {
    Reply::Once(bytes(status, &format!("content-type: {media_type}\r\n"), body))
}

/// A JSON answer.
pub(crate) fn json(body: &serde_json::Value) -> Reply {
    answer("200 OK", "application/json", &body.to_string())
}

/// The bytes of an answer with more headers.
pub(crate) fn bytes(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
        .into()
}

/// A stream of lines that ends where the connection does.
pub(crate) fn lines(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n{lines}")
        .into()
}
