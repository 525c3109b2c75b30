//! The client: server, connections, token, and the context of calls.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use crate::error::Error;
use crate::settings::{Origin, Retry, Settings};
use crate::token::Tokens;
use crate::transport::Transport;

/// A client of one server. Clones are cheap and share connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    /// Headers of the calls made through this value.
    pub(crate) context: Arc<HeaderMap>,
}

pub(crate) struct Shared {
    pub(crate) origin: Origin,
    pub(crate) transport: Transport,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) retry: Retry,
    pub(crate) watch_silence: Duration,
    /// For `curl` commands.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Ties calls to a trace or to the request that caused them.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// The id of the request in the server's log and problems.
    pub request_id: Option<String>,
}

impl Client {
    /// A client that connects at its first call.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let origin = Origin::parse(&settings.base_url)?;
        let transport = Transport::new(&settings, &origin)?;
        let mut headers = HeaderMap::new();
        insert(&mut headers, USER_AGENT.as_str(), &settings.user_agent)?;
        for (name, value) in &settings.headers {
            insert(&mut headers, name, value)?;
        }
        let shared = Shared {
            origin,
            transport,
            tokens: settings.token.map(Tokens::new),
            headers,
            timeout: settings.timeout,
            retry: settings.retry,
            watch_silence: settings.watch_silence,
            ca_file: settings.ca_file,
        };
        Ok(Self { shared: Arc::new(shared), context: Arc::default() })
    }

    /// The same client, for calls in this context.
    pub fn in_context(&self, context: &Context) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in [("traceparent", &context.traceparent), ("x-request-id", &context.request_id)] {
            if let Some(value) = value {
                insert(&mut headers, name, value)?;
            }
        }
        Ok(Self { shared: self.shared.clone(), context: Arc::new(headers) })
    }

    /// The server, without the path of the API.
    pub fn base_url(&self) -> String {
        self.shared.origin.root()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base_url", &self.base_url()).finish_non_exhaustive()
    }
}

/// Adds a configured header. Errors do not show the value, which may be a secret.
fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Error> {
    let wrong = || Error::Configuration(format!("the header {name:?} cannot be sent"));
    let key = HeaderName::try_from(name).map_err(|_| wrong())?;
    let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
    value.set_sensitive(is_secret_name(key.as_str()));
    headers.insert(key, value);
    Ok(())
}

fn is_secret_name(name: &str) -> bool {
    ["auth", "token", "secret", "password", "cookie", "credential", "api-key", "apikey"]
        .iter()
        .any(|word| name.contains(word))
}
