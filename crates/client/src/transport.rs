//! How requests reach the server: over the network, or by a call within the process. Both make the same checks.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body as HttpBody;
use hyper_util::client::legacy::{Client as Pool, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyperfleet_service::authorities;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use crate::connect::{Connector, Fault};
use crate::settings::{Origin, Settings};

/// Shorter than the idle timeout of servers.
const IDLE: Duration = Duration::from_secs(50);
const MAX_IDLE: usize = 64;
/// The interval of HTTP/2 keep-alive pings.
const PING: Duration = Duration::from_secs(15);

/// The streamed body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;

/// A truncated answer.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Broken(Fault);

/// The router of a server in this process, called without a socket. A request runs in the task of its caller, and is
/// cancelled with it.
#[derive(Debug, Clone)]
pub struct InProcess(BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, Infallible>);

impl InProcess {
    /// Calls this service, such as the router of a server.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: HttpBody<Data = Bytes, Error: Into<Fault>> + Send + 'static,
    {
        Self(BoxCloneSyncService::new(service.map_response(|answer: Response<B>| answer.map(boxed))))
    }
}

/// How requests reach the server.
pub(crate) enum Transport {
    Network(Box<Pool<Connector, Full<Bytes>>>),
    InProcess(InProcess),
}

impl Transport {
    pub(crate) fn new(settings: &Settings, origin: &Origin) -> Result<Self, crate::Error> {
        if let Some(in_process) = &settings.in_process {
            return Ok(Self::InProcess(in_process.clone()));
        }
        let tls = match origin.scheme == Scheme::HTTPS {
            true => Some(
                authorities::client_config(settings.ca_file.as_deref())
                    .map_err(|error| crate::Error::Configuration(error.to_string()))?,
            ),
            false => None,
        };
        let pool = Pool::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .http2_keep_alive_interval(PING)
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .build(Connector::new(tls, settings.timeout));
        Ok(Self::Network(Box::new(pool)))
    }

    /// Sends a request, and returns at the head of the answer.
    pub(crate) async fn exchange(&self, mut message: Request<Full<Bytes>>) -> Result<Response<Body>, Error> {
        match self {
            Self::Network(pool) => Ok(pool.request(message).await?.map(boxed)),
            Self::InProcess(InProcess(service)) => {
                // On a connection a server sees path and query only.
                if let Some(target) = message.uri().path_and_query().cloned() {
                    *message.uri_mut() = Uri::from(target);
                }
                service.clone().oneshot(message).await.map_err(|never| match never {})
            }
        }
    }
}

fn boxed<B: HttpBody<Data = Bytes, Error: Into<Fault>> + Send + 'static>(body: B) -> Body {
    body.map_err(|fault| Broken(fault.into())).boxed_unsync()
}
