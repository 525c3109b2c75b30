//! A plain HTTP/1.1 client that keeps its connections: no redirects, no decoding, no retries of a request that the
//! server may have seen. A failed expectation prints the whole answer.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stream::Stream;

/// No answer of ours takes longer; a test that meets it has found a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// A client of one listener. Clones share its idle connections.
#[derive(Clone, Debug)]
pub struct Client {
    authority: Arc<str>,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

impl Client {
    /// A client for `http://host:port`; nothing is connected yet.
    pub fn new(base_url: &str) -> Self {
        let authority = base_url.trim_start_matches("http://").trim_end_matches('/');
        Self { authority: authority.into(), idle: Arc::default() }
    }

    /// `host:port` of the listener, for [`raw`].
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Starts a GET of `path` (with its query).
    pub fn get(&self, path: &str) -> Call {
        self.call(Method::GET, path)
    }

    /// Starts a POST to `path`.
    pub fn post(&self, path: &str) -> Call {
        self.call(Method::POST, path)
    }

    /// Starts a PATCH of `path`.
    pub fn patch(&self, path: &str) -> Call {
        self.call(Method::PATCH, path)
    }

    /// Starts a PUT to `path`.
    pub fn put(&self, path: &str) -> Call {
        self.call(Method::PUT, path)
    }

    /// Starts a DELETE of `path`.
    pub fn delete(&self, path: &str) -> Call {
        self.call(Method::DELETE, path)
    }

    /// Starts a call with any method.
    pub fn call(&self, method: Method, path: &str) -> Call {
        let request = Request::builder().method(method).uri(path).header(header::HOST, &*self.authority);
        Call { client: self.clone(), request, body: Bytes::new() }
    }

    /// Sends a request made elsewhere; its URI is the path and query, and `Host` is added when it has none.
    pub async fn send(&self, mut request: Request<Bytes>) -> Result<Answer> {
        if !request.headers().contains_key(header::HOST) {
            request.headers_mut().insert(header::HOST, self.authority.parse()?);
        }
        let what = format!("{} {}", request.method(), request.uri());
        tokio::time::timeout(DEADLINE, self.exchange(request.map(Full::new)))
            .await
            .with_context(|| format!("{what}: no answer within {DEADLINE:?}"))?
            .with_context(|| format!("{what} at {}", self.authority))
    }

    async fn exchange(&self, mut request: Request<Full<Bytes>>) -> Result<Answer> {
        while let Some(mut connection) = self.take_idle() {
            if connection.ready().await.is_err() {
                continue;
            }
            match connection.try_send_request(request).await {
                Ok(response) => return self.finish(connection, response).await,
                // The server had closed the idle connection before it saw the request: another one may carry it.
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failure.into_error().into()),
                },
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(request).await?;
        self.finish(connection, response).await
    }

    async fn finish(
        &self,
        connection: SendRequest<Full<Bytes>>,
        response: Response<Incoming>,
    ) -> Result<Answer> {
        let answer = Answer::read(response).await?;
        self.idle().push(connection);
        Ok(answer)
    }

    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        self.idle().pop()
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&*self.authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Its errors reach the request that it carries.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request being put together. Awaiting it sends it and panics when no answer comes back; where a lost connection
/// is part of the test, use [`Call::send`].
#[derive(Debug)]
#[must_use = "a call is sent when it is awaited"]
pub struct Call {
    client: Client,
    request: http::request::Builder,
    body: Bytes,
}

impl Call {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Display) -> Self {
        self.request = self.request.header(name, value.to_string());
        self
    }

    /// Sets a JSON body, and its media type unless one was given before.
    pub fn json(self, body: &Value) -> Self {
        let typed =
            self.request.headers_ref().is_some_and(|headers| headers.contains_key(header::CONTENT_TYPE));
        let call = if typed { self } else { self.header("content-type", "application/json") };
        call.body(body.to_string())
    }

    /// Sets the body as it is, without a media type.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends it; an error means that no whole answer came back.
    pub async fn send(self) -> Result<Answer> {
        self.client.send(self.request.body(self.body)?).await
    }

    /// Sends it on a connection of its own and reads no more than the head of the answer.
    pub async fn open(self) -> Result<Stream> {
        let request = self.request.body(Full::new(self.body))?;
        let mut connection = self.client.connect().await?;
        let response = tokio::time::timeout(DEADLINE, connection.send_request(request)).await??;
        Ok(Stream::new(connection, response))
    }
}

impl IntoFuture for Call {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.send().await.expect("the server must answer") })
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it came, still compressed if it was.
    pub body: Bytes,
}

impl Answer {
    async fn read(response: Response<Incoming>) -> Result<Self> {
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Self { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// This answer, when it has that status.
    ///
    /// # Panics
    /// When it has another; the message shows the whole answer.
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert!(self.status == status, "expected {status}, got {self}");
        self
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[track_caller]
    #[allow(clippy::panic, reason = "a wrong answer fails the test")]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|fault| panic!("not JSON ({fault}): {self}"))
    }

    /// The first value of a header, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The version in the `ETag`, which carries the epoch beside it.
    pub fn version(&self) -> Option<u64> {
        self.header("etag")?.trim_matches('"').split_once('-')?.0.parse().ok()
    }

    /// The `code` of a problem body.
    ///
    /// # Panics
    /// When the answer is no `application/problem+json` with a code.
    #[track_caller]
    #[allow(clippy::panic, reason = "a wrong answer fails the test")]
    pub fn problem_code(&self) -> String {
        let problem =
            self.header("content-type").is_some_and(|kind| kind.starts_with("application/problem+json"));
        match self.json()["code"].as_str() {
            Some(code) if problem => code.to_owned(),
            _ => panic!("not a problem with a code: {self}"),
        }
    }
}

impl Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.status)?;
        let sorted: BTreeMap<_, _> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value)).collect();
        for (name, value) in sorted {
            writeln!(out, "{name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
        }
        out.write_char('\n')?;
        out.write_str(&String::from_utf8_lossy(&self.body))
    }
}

/// Writes hand-made bytes to a listener and returns all that comes back until the server closes the connection
/// (send `Connection: close` to be answered and left).
///
/// # Panics
/// When the server is not there, or still holds the connection after a minute.
pub async fn raw(address: &str, bytes: &[u8]) -> Vec<u8> {
    let address: SocketAddr = address.parse().expect("the address must be ip:port");
    let stream = TcpStream::connect(address).await.expect("the listener must accept");
    let (mut from, mut to) = stream.into_split();
    let mut answer = Vec::new();
    // A server may answer and close before it has read all: neither that write nor a reset afterwards is a fault.
    let exchange = async { tokio::join!(to.write_all(bytes), from.read_to_end(&mut answer)) };
    let _ = tokio::time::timeout(DEADLINE, exchange).await.expect("the server must close the connection");
    answer
}
