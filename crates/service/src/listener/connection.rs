//! One accepted connection, from the TLS handshake to its end. It runs in a task of its own, so its failure ends only
//! this connection. [`Timeouts`] and the listener's drain bound its lifetime.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::CONNECTION;
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::PeerAddr;
use super::body::{RequestBody, ResponseBody, SEND_BUFFER};
use super::frame_limit::FrameLimit;
use super::socket::Socket;
use super::stream_timeout::{StreamExecutor, StreamTimer};
use super::timeouts::{Limits, TimedOut, Timeouts};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest request head: fits a long search and a large token.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
const MAX_CONCURRENT_STREAMS: u32 = 128;
/// How much the system takes of a response before it begins to send it.
const UNSENT_BYTES: u32 = 128 * 1024;
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// What all connections of a listener share.
pub(super) struct Connections {
    pub(super) listener: &'static str,
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: Limits,
    /// Finish what runs and take nothing new.
    pub(super) drain: CancellationToken,
    /// End at once. Comes only after `drain`.
    pub(super) cut: CancellationToken,
}

impl Connections {
    pub(super) async fn run(&self, tcp: std::net::TcpStream, peer: SocketAddr) {
        let tcp = match TcpStream::from_std(tcp) {
            Ok(tcp) => tcp,
            Err(error) => {
                return tracing::error!(listener = self.listener, %error, "cannot serve a connection");
            }
        };
        // Answers are written whole; waiting to fill a packet only delays them.
        let _ = tcp.set_nodelay(true);
        // What a peer does not take waits here, where it is counted and timed, instead of in megabytes of the system's.
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(&tcp).set_tcp_notsent_lowat(UNSENT_BYTES);
        let timeouts = Timeouts::new(self.limits);
        let socket = Socket::new(tcp, Arc::clone(&timeouts));
        let ended = match &self.tls {
            None => self.http1(socket, peer, &timeouts).await,
            Some(acceptor) => self.tls(acceptor, socket, peer, &timeouts).await,
        };
        if let Err(why) = ended {
            tracing::debug!(listener = self.listener, %peer, why, "connection ended early");
        }
    }

    async fn tls(
        &self,
        acceptor: &TlsAcceptor,
        socket: Socket,
        peer: SocketAddr,
        timeouts: &Arc<Timeouts>,
    ) -> Result<(), String> {
        let stream = tokio::select! {
            () = self.drain.cancelled() => return Err("drained in the TLS handshake".to_owned()),
            shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)) => match shaken {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return Err(format!("TLS handshake: {error}")),
                Err(_) => return Err("TLS handshake took too long".to_owned()),
            },
        };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2(stream, peer, timeouts).await
        } else {
            self.http1(stream, peer, timeouts).await
        }
    }

    async fn http1(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        timeouts: &Arc<Timeouts>,
    ) -> Result<(), String> {
        timeouts.opened(false);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(MAX_HEAD_BYTES as usize)
            .serve_connection(TokioIo::new(io), self.service(peer, timeouts));
        self.drive(connection, timeouts).await
    }

    async fn http2(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        timeouts: &Arc<Timeouts>,
    ) -> Result<(), String> {
        timeouts.opened(true);
        let connection = http2::Builder::new(StreamExecutor { limit: self.limits.write })
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(MAX_HEAD_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .serve_connection(TokioIo::new(FrameLimit::new(io)), self.service(peer, timeouts));
        self.drive(connection, timeouts).await
    }

    fn service(
        &self,
        peer: SocketAddr,
        timeouts: &Arc<Timeouts>,
    ) -> impl HttpService<Incoming, ResBody = ResponseBody, Error = Infallible, Future: Send> + use<> {
        let router = self.router.clone();
        let timeouts = Arc::clone(timeouts);
        service_fn(move |request: Request<Incoming>| {
            let running = timeouts.begin_request();
            let mut request = request.map(|body| RequestBody::new(body, Arc::clone(&timeouts)));
            request.extensions_mut().insert(PeerAddr(peer));
            let fits = head_size(&request) <= MAX_HEAD_BYTES as usize;
            let response = fits.then_some(request).map(|request| router.clone().call(request));
            let timeouts = Arc::clone(&timeouts);
            async move {
                let mut response = match response {
                    Some(response) => response.await?,
                    None => too_large(),
                };
                // Without this word a client would send its next request on a connection that is closing.
                if timeouts.body_is_unread() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok(response.map(|body| ResponseBody::new(body, running, StreamTimer::current())))
            }
        })
    }

    async fn drive<C>(&self, connection: C, timeouts: &Timeouts) -> Result<(), String>
    where
        C: GracefulConnection<Error = hyper::Error>,
    {
        let mut connection = pin!(connection);
        let mut expired = pin!(timeouts.expired());
        let mut draining = false;
        loop {
            tokio::select! {
                // The connection first: `Timeouts` sees its progress, and a request that is already here is
                // answered even when the drain begins in the same moment.
                biased;
                ended = connection.as_mut() => return ended.map_err(|error| describe(&error)),
                waited = expired.as_mut() => {
                    if waited != TimedOut::Idle {
                        return Err(format!("waited too long: {waited:?}"));
                    }
                    expired.set(timeouts.expired());
                }
                // One flag at a time, because each costs something whenever the connection wakes.
                () = self.drain.cancelled(), if !draining => draining = true,
                () = self.cut.cancelled(), if draining => {
                    return Err("cut off at the end of the drain".to_owned());
                }
            }
            connection.as_mut().graceful_shutdown();
            timeouts.close();
        }
    }
}

/// About what the head took on the wire. Hyper looks at the size of heads only while they are incomplete, so that one
/// whose end comes with the last bytes may be larger.
fn head_size<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let target = uri.authority().map_or(0, |authority| authority.as_str().len())
        + uri.path_and_query().map_or(0, |path| path.as_str().len());
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    target + fields.sum::<usize>()
}

fn too_large() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response
}

/// Hyper names the step that failed; the reason is one level below.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
