//! A request before it is sent, and the answer to it. Both are plain values: what a call would send can be looked at,
//! printed as a `curl` command, or changed, without sending anything.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderName, IF_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Problem};
use crate::path::query_encoded;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What to ask of the API. It holds no token and nothing else of the [`Client`](crate::Client).
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Below `/api/hyperfleet/v1`, or a whole path if it begins with `/api/hyperfleet`; percent-encoded.
    pub path: String,
    /// The parameters, not encoded yet.
    pub query: Vec<(String, String)>,
    /// Headers besides those that every request has.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

impl Request {
    /// A request without parameters and body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: Vec::new(), headers: HeaderMap::new(), body: None }
    }

    /// A GET.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Adds a parameter.
    #[must_use]
    pub fn param(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a parameter if there is a value.
    #[must_use]
    pub fn maybe(self, name: &str, value: Option<&(impl ToString + ?Sized)>) -> Self {
        match value {
            Some(value) => self.param(name, value),
            None => self,
        }
    }

    /// Adds `name=true` if it is so.
    #[must_use]
    pub fn flag(self, name: &str, is_set: bool) -> Self {
        if is_set { self.param(name, "true") } else { self }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &impl Serialize) -> Self {
        self.json_as("application/json", body)
    }

    pub(crate) fn json_as(mut self, media_type: &'static str, body: &impl Serialize) -> Self {
        // What is sent here are JSON values and plain structures, which cannot fail to be JSON.
        self.body = Some(serde_json::to_vec(body).unwrap_or_default().into());
        self.header(CONTENT_TYPE, HeaderValue::from_static(media_type))
    }

    /// Sets `If-Match` to a version.
    pub(crate) fn if_match(self, version: Option<u64>) -> Self {
        match version.map(|version| HeaderValue::try_from(format!("\"{version}\""))) {
            Some(Ok(tag)) => self.header(IF_MATCH, tag),
            _ => self,
        }
    }

    /// Adds a key by which the server recognises a repetition.
    pub(crate) fn key(self, key: &str) -> Result<Self, Error> {
        let fits = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        match HeaderValue::from_str(key) {
            Ok(value) if fits => Ok(self.header(IDEMPOTENCY_KEY, value)),
            _ => Err(Error::Invalid("an idempotency key is 1 to 255 visible ASCII characters".to_owned())),
        }
    }

    /// A new key for a request that must not be carried out twice.
    pub(crate) fn own_key(self) -> Self {
        match HeaderValue::try_from(uuid::Uuid::now_v7().to_string()) {
            Ok(value) => self.header(IDEMPOTENCY_KEY, value),
            Err(_) => self,
        }
    }

    /// The path with its parameters.
    pub(crate) fn target(&self) -> String {
        let mut target = self.path.clone();
        let mut separator = if target.contains('?') { '&' } else { '?' };
        for (name, value) in &self.query {
            target.push(separator);
            target.push_str(&query_encoded(name));
            target.push('=');
            target.push_str(&query_encoded(value));
            separator = '&';
        }
        target
    }
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Response {
    /// Method and URL without parameters, for errors.
    pub(crate) asked: String,
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// The value of a header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The version in the `ETag`.
    pub fn version(&self) -> Option<u64> {
        self.headers.get(ETAG)?.to_str().ok()?.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
    }

    /// This answer if it is a success, else the problem.
    pub fn accepted(self) -> Result<Self, Error> {
        match self.status.is_success() {
            true => Ok(self),
            // Following it would send the token to another origin.
            false if self.status.is_redirection() && self.status != StatusCode::NOT_MODIFIED => {
                Err(self.malformed(format!("a redirect ({}), which is not followed", self.status.as_u16())))
            }
            false => Err(Error::Problem(Box::new(Problem::of(&self)))),
        }
    }

    /// The body, parsed as `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|fault| self.malformed(fault))
    }

    pub(crate) fn malformed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::malformed(self.asked.clone(), source)
    }
}
