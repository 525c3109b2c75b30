//! A server that follows a script: what it says to each connection in turn, and what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyperfleet_client::{Client, Retry, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What is said to one connection.
#[derive(Clone)]
pub(crate) enum Say {
    /// This, and goodbye.
    This(Vec<u8>),
    /// This, and then nothing, for ever.
    ThenNothing(Vec<u8>),
    /// The first, and then the second again and again.
    Endless(Vec<u8>, Vec<u8>),
}

/// The server. It stops when it is dropped.
pub(crate) struct Stranger {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _listening: JoinSet<()>,
}

impl Stranger {
    /// Says these to its connections, the last of them to all that follow.
    pub(crate) async fn saying(script: impl IntoIterator<Item = Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = asked.clone();
        let script: Vec<Say> = script.into_iter().collect();
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let say = script[number.min(script.len() - 1)].clone();
                connections.spawn(serve(stream, say, record.clone()));
            }
        });
        Self { url, asked, _listening: listening }
    }

    /// The requests so far, head and body.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// A client that does not wait long.
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

async fn serve(mut stream: TcpStream, say: Say, record: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    while !is_whole(&request) {
        match stream.read_buf(&mut request).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
    record.lock().unwrap().push(String::from_utf8(request).unwrap());
    // Whoever has heard enough hangs up.
    let _ = match say {
        Say::This(bytes) => {
            let said = stream.write_all(&bytes).await;
            // Until the other side has read it all, a reset would take it away.
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            said
        }
        Say::ThenNothing(bytes) => {
            let said = stream.write_all(&bytes).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            said
        }
        Say::Endless(first, again) => {
            let mut said = stream.write_all(&first).await;
            while said.is_ok() {
                said = stream.write_all(&again).await;
            }
            said
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
pub(crate) fn answer(status: &str, media_type: &str, body: &str) -> Say {
    Say::This(bytes(status, &format!("content-type: {media_type}\r\n"), body))
}

/// A JSON answer.
pub(crate) fn json(body: &serde_json::Value) -> Say {
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
