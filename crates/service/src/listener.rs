//! A listener: the sockets of one host and port, and the loop that accepts HTTP connections.
//!
//! The loop uses hyper's connection types instead of a ready-made server, so that every wait for a client has a
//! timeout, the number of connections is bounded, and a drain can report the connections that it cut. It does not know
//! what the router serves.

mod backlog;
mod bind;
mod body;
mod connection;
mod frame_limit;
mod socket;
mod sockets;
mod stream_timeout;
mod timeouts;
mod worker_threads;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::shutdown::Shutdown;
use crate::tls::{Certificate, TlsError, TlsFiles};
pub use bind::Bind;
use connection::Connections;
use timeouts::Limits;
use worker_threads::WorkerThreads;

/// After a failed accept, most likely for want of file descriptors: time for a connection to end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of the client at the other end of the connection, in the extensions of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The bounds that a listener holds its clients to.
#[derive(Debug, Clone)]
pub struct ListenerOptions {
    /// From the first byte (on a new connection: from its start) to the end of a request head.
    pub read_timeout: Duration,
    /// How long a client may take less than 64 KiB of the bytes that wait for it; over HTTP/2, of one response.
    pub write_timeout: Duration,
    /// How long a connection may rest between two requests. Longer than load balancers keep theirs, so
    /// that they close first and no request meets a closing connection.
    pub idle_timeout: Duration,
    /// More connections than this wait in the backlog.
    pub max_connections: usize,
    /// How long requests may go on after the shutdown began.
    pub grace: Duration,
    /// Certificate and key; plain text without.
    pub tls: Option<TlsFiles>,
    /// How often the certificate's files are looked at.
    pub tls_reload_interval: Duration,
    /// Threads that accept and serve connections and do nothing else; with none the runtime that listens does.
    pub threads: usize,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            max_connections: 10_000,
            grace: Duration::from_secs(20),
            tls: None,
            tls_reload_interval: Duration::from_secs(5),
            threads: 0,
        }
    }
}

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The host means nothing here.
    #[error("cannot resolve the {listener} host '{host}': {reason}")]
    Resolve {
        /// The listener's name.
        listener: &'static str,
        /// The host as configured.
        host: String,
        /// What the resolver says.
        reason: io::Error,
    },
    /// The operating system refuses the address.
    #[error("cannot listen on {address} for {listener}: {}", explain(reason))]
    Listen {
        /// The listener's name.
        listener: &'static str,
        /// The address refused.
        address: SocketAddr,
        /// What the operating system says.
        reason: io::Error,
    },
    /// There are no threads to be had.
    #[error("cannot start a thread for {listener}: {reason}")]
    Thread {
        /// The listener's name.
        listener: &'static str,
        /// What the operating system says.
        reason: io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("cannot set up TLS for {listener}: {reason}")]
    Tls {
        /// The listener's name.
        listener: &'static str,
        /// What is wrong with them.
        reason: TlsError,
    },
}

impl BindError {
    /// The address, when the reason is that another process listens there.
    pub fn address_in_use(&self) -> Option<SocketAddr> {
        match self {
            Self::Listen { address, reason, .. } if reason.kind() == io::ErrorKind::AddrInUse => {
                Some(*address)
            }
            _ => None,
        }
    }
}

fn explain(reason: &io::Error) -> String {
    match reason.kind() {
        io::ErrorKind::AddrInUse => "the address is in use by another process".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        io::ErrorKind::PermissionDenied => "not permitted; ports below 1024 need special rights".to_owned(),
        _ => reason.to_string(),
    }
}

/// Open sockets that do not serve yet: clients that connect now wait until [`Listener::serve`].
#[derive(Debug)]
pub struct Listener {
    name: &'static str,
    sockets: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    options: ListenerOptions,
    certificate: Option<Arc<Certificate>>,
    tls: Option<Arc<ServerConfig>>,
    workers: WorkerThreads,
}

impl Listener {
    /// Opens every address that `host` stands for. An address that this machine lacks (no IPv6) is passed
    /// over as long as another one works; one that is taken is an error, because a client might end up at
    /// its owner. Port 0 takes a free port, the same on all addresses.
    ///
    /// # Errors
    /// When the host is unknown, an address is taken, or certificate or key cannot be used.
    pub async fn bind(
        name: &'static str,
        host: &str,
        port: u16,
        options: ListenerOptions,
    ) -> Result<Self, BindError> {
        let tls_error = |reason| BindError::Tls { listener: name, reason };
        let certificate = options.tls.clone().map(Certificate::load).transpose().map_err(tls_error)?;
        let tls = certificate
            .as_ref()
            .map(Certificate::server_config)
            .transpose()
            .map_err(tls_error)?
            .map(Arc::new);
        let ips = sockets::resolve(host).await.map_err(|reason| BindError::Resolve {
            listener: name,
            host: host.to_owned(),
            reason,
        })?;
        let workers = WorkerThreads::start(name, options.threads)
            .map_err(|reason| BindError::Thread { listener: name, reason })?;
        let opened = {
            let _of_the_sockets = workers.first().enter();
            sockets::open_all(&ips, port)
        };
        let (sockets, addresses) =
            opened.map_err(|(address, reason)| BindError::Listen { listener: name, address, reason })?;
        Ok(Self { name, sockets, addresses, options, certificate, tls, workers })
    }

    /// Where the listener can be reached, with the port that port 0 turned into.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves `router` until `shutdown` begins, then drains: no new connection, idle ones closed, running
    /// requests finished for as long as the options' `grace`. Returns the number of connections that had
    /// to be cut off. Dropping the future cuts all of them at once.
    pub async fn serve(self, router: Router, shutdown: Shutdown) -> usize {
        let Self { name, sockets, options, certificate, tls, workers, .. } = self;
        let _reload = certificate.map(|certificate| {
            AbortOnDropHandle::new(tokio::spawn(certificate.keep_fresh(name, options.tls_reload_interval)))
        });
        let (drain, cut) = (shutdown.child(), CancellationToken::new());
        let _when_dropped = (drain.clone().drop_guard(), cut.clone().drop_guard());
        let tasks = TaskTracker::new();
        let connections = Arc::new(Connections {
            listener: name,
            // Resolves the routes' state once here instead of with every request.
            router: router.with_state(()),
            tls: tls.map(TlsAcceptor::from),
            limits: Limits {
                head: options.read_timeout,
                write: options.write_timeout,
                idle: options.idle_timeout,
            },
            drain: drain.clone(),
            cut: cut.clone(),
        });

        let workers = Arc::new(workers);
        let serve = {
            let (tasks, workers) = (tasks.clone(), Arc::clone(&workers));
            move |tcp, peer, slot| {
                let connections = Arc::clone(&connections);
                let serve = async move {
                    connections.run(tcp, peer).await;
                    drop(slot);
                };
                tasks.spawn_on(serve, &workers.next());
            }
        };
        // On the runtime of the sockets, so that no other work delays it.
        let accepting = accept(name, sockets, options.max_connections, serve);
        let accepting = AbortOnDropHandle::new(workers.first().spawn(accepting));
        drain.cancelled().await;
        accepting.abort();
        let _ = accepting.await;

        tasks.close();
        if tokio::time::timeout(options.grace, tasks.wait()).await.is_ok() {
            return 0;
        }
        let left = tasks.len();
        cut.cancel();
        tasks.wait().await;
        left
    }
}

/// Accepts for as long as it is polled. Nothing is accepted that has no slot: clients beyond the limit
/// wait in the backlog, where they cost next to nothing.
async fn accept(
    name: &'static str,
    sockets: Vec<TcpListener>,
    limit: usize,
    serve: impl Fn(std::net::TcpStream, SocketAddr, OwnedSemaphorePermit) + Send,
) {
    let slots = Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)));
    let mut turn = 0;
    let mut full = false;
    loop {
        if slots.available_permits() == 0 {
            if !full {
                tracing::warn!(listener = name, limit, "all connections are in use; further clients wait");
            }
            full = true;
        } else if slots.available_permits() > limit / 10 {
            full = false;
        }
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        // The connection is registered with the runtime that serves it, so this runtime releases it.
        let accepted = accept_any(&sockets, &mut turn).await;
        match accepted.and_then(|(tcp, peer)| Ok((tcp.into_std()?, peer))) {
            Ok((tcp, peer)) => serve(tcp, SocketAddr::new(peer.ip().to_canonical(), peer.port()), slot),
            Err(error) if client_left(&error) => {}
            Err(error) => {
                tracing::error!(listener = name, %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The client went away while it waited, which says nothing about the next one.
fn client_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

/// Takes a connection from whichever socket has one, starting with another socket each time so that none
/// starves.
async fn accept_any(sockets: &[TcpListener], turn: &mut usize) -> io::Result<(TcpStream, SocketAddr)> {
    *turn = turn.wrapping_add(1);
    let (before, after) = sockets.split_at(*turn % sockets.len());
    poll_fn(|cx| {
        after
            .iter()
            .chain(before)
            .map(|socket| socket.poll_accept(cx))
            .find(Poll::is_ready)
            .unwrap_or(Poll::Pending)
    })
    .await
}
