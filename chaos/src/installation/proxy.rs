//! A proxy in this process, in front of a replica or between a replica and PostgreSQL. While it does not forward, both
//! sides see a network that loses everything: connections stay open, and nothing comes.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Where connections lead.
#[derive(Clone, Debug)]
pub(crate) enum Upstream {
    Tcp(String),
    Unix(PathBuf),
    /// Connections are closed at once, as by a machine without the program.
    Nowhere,
}

#[derive(Clone, Debug)]
struct Route {
    upstream: Upstream,
    is_forwarding: bool,
    /// Connections of before the last cut are closed.
    cuts: u64,
}

/// A running proxy, which ends with this value.
#[derive(Debug)]
pub(crate) struct Proxy {
    route: watch::Sender<Route>,
    _accepting: JoinSet<()>,
}

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Proxy {
    /// Listens on a free port of loopback, and returns its address too.
    pub(crate) async fn tcp() -> Result<(Self, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        Ok((Self::serve(Listener::Tcp(listener), Upstream::Nowhere), address))
    }

    /// Listens on a Unix socket.
    pub(crate) fn unix(path: &Path, upstream: Upstream) -> Result<Self> {
        Ok(Self::serve(Listener::Unix(UnixListener::bind(path)?), upstream))
    }

    fn serve(listener: Listener, upstream: Upstream) -> Self {
        let route = watch::Sender::new(Route { upstream, is_forwarding: true, cuts: 0 });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, route.subscribe()));
        Self { route, _accepting: accepting }
    }

    /// Where further connections lead.
    pub(crate) fn lead_to(&self, upstream: Upstream) {
        self.route.send_modify(|route| route.upstream = upstream);
    }

    /// Stops forwarding, or goes on with what has been sent meanwhile.
    pub(crate) fn forward(&self, yes: bool) {
        self.route.send_modify(|route| route.is_forwarding = yes);
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.route.send_modify(|route| route.cuts += 1);
    }
}

async fn accept(listener: Listener, route: watch::Receiver<Route>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted: std::io::Result<Box<dyn Connection>> = match &listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| without_delay(stream)),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
        };
        // A client that is gone again before it was accepted is no concern of the others.
        let Ok(client) = accepted else { continue };
        connections.spawn(connection(client, route.clone()));
        while connections.try_join_next().is_some() {}
    }
}

fn without_delay(stream: TcpStream) -> Box<dyn Connection> {
    // It only costs time when it fails.
    let _ = stream.set_nodelay(true);
    Box::new(stream)
}

/// Carries one connection to its end. What breaks on one side is closed on the other.
async fn connection(client: Box<dyn Connection>, mut route: watch::Receiver<Route>) {
    let cuts = route.borrow().cuts;
    let mut pause = route.clone();
    let exchange = async {
        forwarding(&mut pause).await;
        let upstream = pause.borrow().upstream.clone();
        let server: Box<dyn Connection> = match upstream {
            Upstream::Tcp(address) => without_delay(TcpStream::connect(address).await?),
            Upstream::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Upstream::Nowhere => return Ok(()),
        };
        let (client_reads, client_writes) = tokio::io::split(client);
        let (server_reads, server_writes) = tokio::io::split(server);
        let there = pump(client_reads, server_writes, pause.clone());
        tokio::try_join!(there, pump(server_reads, client_writes, pause)).map(drop)
    };
    tokio::select! {
        _ = exchange => {}
        _ = route.wait_for(|route| route.cuts != cuts) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut route: watch::Receiver<Route>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        forwarding(&mut route).await;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

/// Waits until the proxy forwards; without the proxy, for ever, until the task is cancelled with it.
async fn forwarding(route: &mut watch::Receiver<Route>) {
    if route.wait_for(|route| route.is_forwarding).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that returns what it receives, behind a proxy.
    async fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut from, mut to) = stream.split();
            tokio::io::copy(&mut from, &mut to).await
        });
        let (proxy, address) = Proxy::tcp().await.unwrap();
        proxy.lead_to(Upstream::Tcp(upstream));
        (proxy, TcpStream::connect(address).await.unwrap())
    }

    #[tokio::test]
    async fn what_is_sent_during_a_partition_arrives_after_it() {
        let (proxy, mut client) = echo().await;
        let mut answer = [0; 3];
        client.write_all(b"one").await.unwrap();
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"one");

        proxy.forward(false);
        client.write_all(b"two").await.unwrap();
        // The single thread of this test lets every task of the proxy run until it waits.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.try_read(&mut answer).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);

        proxy.forward(true);
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"two");
    }

    #[tokio::test]
    async fn a_cut_closes_connections_and_the_end_of_the_server_too() {
        let (proxy, mut client) = echo().await;
        client.write_all(b"one").await.unwrap();
        client.read_exact(&mut [0; 3]).await.unwrap();
        proxy.forward(false);
        proxy.cut();
        assert!(matches!(client.read(&mut [0; 3]).await, Ok(0) | Err(_)));

        let (proxy, address) = Proxy::tcp().await.unwrap();
        let mut refused = TcpStream::connect(address).await.unwrap();
        assert!(matches!(refused.read(&mut [0; 3]).await, Ok(0) | Err(_)));
        drop(proxy);
    }
}
