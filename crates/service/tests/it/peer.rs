//! The other side of a listener: a running server, and a client that controls every byte it sends.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyperfleet_service::listener::{Listener, ListenerOptions};
use hyperfleet_service::shutdown::Shutdown;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Exceeded only by a failing test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Awaits what must happen.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) serving: JoinHandle<usize>,
}

impl Server {
    pub(crate) async fn start(router: Router, options: ListenerOptions) -> Self {
        let listener = Listener::bind("test", "127.0.0.1", 0, options).await.unwrap();
        let address = listener.addresses()[0];
        let shutdown = Shutdown::new();
        let serving = tokio::spawn(listener.serve(router, shutdown.clone()));
        Self { address, shutdown, serving }
    }

    pub(crate) async fn connect(&self) -> Wire<TcpStream> {
        Wire::new(within("a connection", TcpStream::connect(self.address)).await.unwrap())
    }

    /// The number of connections that were cut off at the end.
    pub(crate) async fn ended(self) -> usize {
        within("the end of the drain", self.serving).await.unwrap()
    }
}

/// HTTP/1 by hand.
pub(crate) struct Wire<S> {
    pub(crate) stream: S,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        within("the send", self.stream.write_all(text.as_ref())).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str) -> Answer {
        self.send(format!("{method} {path} HTTP/1.1\r\nhost: test\r\n\r\n")).await;
        self.answer().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path).await
    }

    /// Reads one answer with a `content-length`.
    pub(crate) async fn answer(&mut self) -> Answer {
        within("an answer", self.read_answer()).await
    }

    async fn read_answer(&mut self) -> Answer {
        let head_end = loop {
            if let Some(end) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await;
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let mut answer = Answer { status: head[9..12].parse().unwrap(), head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            self.read_more().await;
        }
        answer.body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        answer
    }

    async fn read_more(&mut self) {
        let read = self.stream.read_buf(&mut self.unread).await.unwrap();
        assert_ne!(read, 0, "closed in the middle of an answer: {:?}", String::from_utf8_lossy(&self.unread));
    }

    /// Waits until the server closes the connection, in whichever way.
    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = within("the server to close", self.stream.read_to_end(&mut rest)).await;
        assert_eq!(String::from_utf8_lossy(&rest), "", "bytes where only the end was expected");
    }
}
