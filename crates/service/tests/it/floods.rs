//! HTTP/2 frames by hand: peers that open no window for what they asked for, and peers that flood a connection with
//! frames. Others are served meanwhile.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use hyperfleet_service::listener::ListenerOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;

use crate::https::{files_in, handshake, issue, large_and_small, options};
use crate::peer::{Server, Wire, within};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// `END_STREAM` and `END_HEADERS`.
const WHOLE: u8 = 0x5;

/// What a flood may come to before the server must have closed the connection.
const FLOOD: usize = 2_000_000;

/// A peer that writes its frames itself.
struct Peer {
    read: ReadHalf<TlsStream<TcpStream>>,
    write: WriteHalf<TlsStream<TcpStream>>,
}

impl Peer {
    /// A connection whose streams begin with this window.
    async fn connect(server: &Server, window: u32) -> Self {
        let (read, write) = tokio::io::split(handshake(server, &[b"h2"]).await);
        let mut peer = Self { read, write };
        peer.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let initial_window = [&[0, 4][..], &window.to_be_bytes()].concat();
        peer.send(&frame(SETTINGS, 0, 0, &initial_window)).await.unwrap();
        peer
    }

    async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        within("a write", self.write.write_all(bytes)).await?;
        within("a write", self.write.flush()).await
    }

    /// Asks for a path on a stream.
    async fn ask(&mut self, stream: u32, path: &str) {
        self.send(&request(stream, path)).await.unwrap();
    }

    /// The next frame: its type, stream and payload; nothing at the end of the connection.
    async fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        within("a frame", self.read.read_exact(&mut head)).await.ok()?;
        let [high, middle, low, kind, _, a, b, c, d] = head;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let mut payload = vec![0; length];
        within("a payload", self.read.read_exact(&mut payload)).await.ok()?;
        Some((kind, u32::from_be_bytes([a, b, c, d]), payload))
    }

    /// Waits for a frame of this type on a stream.
    async fn wait_for(&mut self, kind: u8, stream: u32) {
        loop {
            let (of, on, _) = self.frame().await.expect("the connection goes on");
            assert_ne!(of, GOAWAY, "the connection ends");
            if (of, on) == (kind, stream) {
                return;
            }
        }
    }

    /// Reads whatever comes, so that nothing holds up what the peer sends.
    fn reading(self) -> WriteHalf<TlsStream<TcpStream>> {
        let Self { mut read, write } = self;
        tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
        write
    }
}

async fn is_sent(write: &mut WriteHalf<TlsStream<TcpStream>>, bytes: &[u8]) -> bool {
    within("a write", async { write.write_all(bytes).await.is_ok() && write.flush().await.is_ok() }).await
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// A GET in literal header fields without indexing.
fn request(stream: u32, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
    {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(HEADERS, WHOLE, stream, &block)
}

async fn served(server: &Server) {
    let answer = Wire::new(handshake(server, &[b"http/1.1"]).await).get("/").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_response_for_which_the_peer_opens_no_window_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let (freed, mut free) = mpsc::channel(8);
    let options = ListenerOptions { write_timeout: Duration::from_secs(1), ..options(files) };
    let server = Server::start(large_and_small(freed), options).await;
    let mut peer = Peer::connect(&server, 0).await;
    for (stream, path) in [(1, "/large"), (3, "/"), (5, "/medium")] {
        peer.ask(stream, path).await;
        peer.wait_for(RST_STREAM, stream).await;
    }
    within("the memory to be free", free.recv()).await.unwrap();

    // A window of a few bytes now and then is no window either.
    let mut peer = Peer::connect(&server, 0).await;
    peer.ask(1, "/large").await;
    let Peer { mut write, read } = peer;
    let trickle = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        loop {
            pace.tick().await;
            if !is_sent(&mut write, &frame(WINDOW_UPDATE, 0, 1, &100_u32.to_be_bytes())).await {
                break;
            }
        }
    });
    within("the memory to be free", free.recv()).await.unwrap();
    trickle.abort();
    drop(read);

    // The end of a response does not wait in the connection.
    let mut peer = Peer::connect(&server, 0).await;
    peer.ask(1, "/medium").await;
    peer.send(&frame(WINDOW_UPDATE, 0, 1, &10_u32.to_be_bytes())).await.unwrap();
    peer.wait_for(RST_STREAM, 1).await;
    served(&server).await;
}

#[tokio::test]
async fn a_flood_of_frames_ends_its_connection_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let router = Router::new().route("/", get(async || Bytes::from_static(b"small")));
    let server = Server::start(router, options(files)).await;
    let mut bystander = Peer::connect(&server, 65_535).await;

    let settings = frame(SETTINGS, 0, 0, &[]);
    let ping = frame(PING, 0, 0, b"12345678");
    let window = frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    let priority = frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]);
    let unknown = frame(99, 0, 0, b"what?");
    for (name, flood) in [
        ("ping", ping),
        ("settings", settings),
        ("window", window),
        ("priority", priority),
        ("unknown", unknown),
    ] {
        let mut peer = Peer::connect(&server, 65_535).await.reading();
        let many = flood.repeat(100);
        let mut sent = 0;
        while is_sent(&mut peer, &many).await {
            sent += 100;
            assert!(sent < FLOOD, "the flood of {name} goes on");
        }
        served(&server).await;
    }

    // Requests that are given up at once.
    let mut peer = Peer::connect(&server, 65_535).await.reading();
    let mut stream = 1;
    let given_up =
        |stream: u32| [request(stream, "/"), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat();
    while is_sent(&mut peer, &given_up(stream)).await {
        stream += 2;
        assert!((stream as usize) < FLOOD, "the flood of resets goes on");
    }

    bystander.ask(1, "/").await;
    bystander.wait_for(DATA, 1).await;
    served(&server).await;
}

#[tokio::test]
async fn a_busy_client_is_not_a_flood() {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    issue(&files);
    let (freed, _free) = mpsc::channel(8);
    let server = Server::start(large_and_small(freed), options(files)).await;
    let mut peer = Peer::connect(&server, 16_384).await;
    peer.ask(1, "/large").await;
    let (mut taken, mut updates) = (0, 0);
    while taken < 8 << 20 {
        let (kind, of, payload) = peer.frame().await.expect("the connection goes on");
        if (kind, of) == (DATA, 1) && !payload.is_empty() {
            taken += payload.len();
            updates += 1;
            // A window for every frame, of the stream and of the connection.
            let more = u32::try_from(payload.len()).unwrap().to_be_bytes();
            let update = [frame(WINDOW_UPDATE, 0, 1, &more), frame(WINDOW_UPDATE, 0, 0, &more)].concat();
            peer.send(&update).await.unwrap();
        }
    }
    assert!(updates >= 512, "{updates} updates");
    peer.ask(3, "/").await;
    peer.wait_for(DATA, 3).await;
}
