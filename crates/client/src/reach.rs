//! The two ways to a server: over the network, and straight into it for whoever is in its process. Nothing above knows
//! which of them it is, and nothing that the server checks is left out on either.

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

/// Servers close idle connections too; whoever closes first wins nothing.
const IDLE: Duration = Duration::from_secs(50);
const MAX_IDLE: usize = 64;
/// How often a silent HTTP/2 connection is asked whether it is alive.
const PING: Duration = Duration::from_secs(15);

/// The body of an answer, as it comes.
pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;

/// An answer that broke off.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Broken(Fault);

/// What the server of this process serves with: a way to it without a socket. A request is answered by the task that
/// asks, and ends when nobody waits for it any more.
#[derive(Debug, Clone)]
pub struct Inside(BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, Infallible>);

impl Inside {
    /// The way into this service, such as the whole router of a server.
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

/// How requests get there.
pub(crate) enum Reach {
    Network(Box<Pool<Connector, Full<Bytes>>>),
    Inside(Inside),
}

impl Reach {
    /// The way that these settings name.
    pub(crate) fn new(settings: &Settings, origin: &Origin) -> Result<Self, crate::Error> {
        if let Some(inside) = &settings.inside {
            return Ok(Self::Inside(inside.clone()));
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

    /// Sends a request and returns when the head of the answer is there.
    pub(crate) async fn exchange(&self, mut message: Request<Full<Bytes>>) -> Result<Response<Body>, Error> {
        match self {
            Self::Network(pool) => Ok(pool.request(message).await?.map(boxed)),
            Self::Inside(Inside(service)) => {
                // As a server sees it on a connection.
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
