//! The answer to a request.

use bytes::Bytes;
use http::header::ETAG;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::error::{Error, Problem};
use crate::resource::Resource;

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

    /// The entity tag, for `If-Match`.
    pub fn etag(&self) -> Option<&str> {
        self.header(ETAG.as_str())
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

    /// The resource in the body, with its entity tag.
    pub fn resource(&self) -> Result<Resource, Error> {
        Ok(self.json::<Resource>()?.with_etag(self.etag().map(str::to_owned)))
    }

    pub(crate) fn malformed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::malformed(self.asked.clone(), source)
    }
}
