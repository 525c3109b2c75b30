//! One GET of an issuer's keys, bounded in time, bytes and redirects. It keeps no connection, because keys are fetched
//! once an hour, and it reads the CA certificates each time, because they change too.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use hyperfleet_service::authorities::{self, AuthoritiesError};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::location::{self, MAX_REDIRECTS};

/// The largest set of keys.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Why there are no keys; for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Authorities(#[from] AuthoritiesError),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("the connection broke: {0}")]
    Http(#[from] hyper::Error),
    #[error("the answer cannot be read: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("the answer is {0}")]
    Status(StatusCode),
    #[error("a redirect {0}")]
    Redirect(&'static str),
    #[error("{0}")]
    Request(#[from] http::Error),
}

/// The document at `url`.
pub(crate) async fn fetch(url: &Uri, ca_file: Option<&Path>, limit: Duration) -> Result<Bytes, FetchError> {
    tokio::time::timeout(limit, follow(url, ca_file)).await.map_err(|_| FetchError::Timeout(limit))?
}

async fn follow(url: &Uri, ca_file: Option<&Path>) -> Result<Bytes, FetchError> {
    let mut url = url.clone();
    let mut tls = None;
    for _ in 0..=MAX_REDIRECTS {
        if url.scheme() == Some(&Scheme::HTTPS) && tls.is_none() {
            tls = Some(connector(ca_file).await?);
        }
        let (response, _connection) = get(&url, tls.as_ref()).await?;
        match response.status() {
            StatusCode::OK => {
                let body = Limited::new(response.into_body(), MAX_BYTES);
                return Ok(body.collect().await.map_err(FetchError::Body)?.to_bytes());
            }
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => {
                let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                url =
                    location::redirected(&url, location.unwrap_or_default()).map_err(FetchError::Redirect)?;
            }
            other => return Err(FetchError::Status(other)),
        }
    }
    Err(FetchError::Redirect("too many"))
}

type Connection = AbortOnDropHandle<()>;

async fn get(url: &Uri, tls: Option<&TlsConnector>) -> Result<(Response<Incoming>, Connection), FetchError> {
    let host = location::bare_host(url.host().unwrap_or_default());
    let is_https = url.scheme() == Some(&Scheme::HTTPS);
    let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await.map_err(FetchError::Connect)?;
    match tls {
        Some(tls) if is_https => {
            let name = ServerName::try_from(host.to_owned())
                .map_err(|_| FetchError::Connect(io::ErrorKind::InvalidInput.into()))?;
            send(url, tls.connect(name, stream).await.map_err(FetchError::Connect)?).await
        }
        _ => send(url, stream).await,
    }
}

async fn send<S>(url: &Uri, stream: S) -> Result<(Response<Incoming>, Connection), FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        // Its error reaches the request that it carries.
        let _ = connection.await;
    }));
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, url.authority().map_or("", |authority| authority.as_str()))
        .header(header::ACCEPT, "application/jwk-set+json, application/json")
        .header(header::USER_AGENT, concat!("hyperfleet/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())?;
    Ok((sender.send_request(request).await?, connection))
}

async fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, FetchError> {
    let ca_file = ca_file.map(Path::to_owned);
    let mut config = tokio::task::spawn_blocking(move || authorities::client_config(ca_file.as_deref()))
        .await
        .map_err(|error| FetchError::Body(error.into()))??;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
