//! Requests to the API server: in their turn, within a deadline, with bounded answers.

use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure;
use super::rate::Bucket;
use crate::targets::{ErrorClass, TargetError};

/// Longest answer. The server itself holds no object of more than about 1.5 MiB.
const LONGEST: usize = 64 << 20;

const READY: &str = "/readyz";
/// A server that is ready says so at once.
const READY_DEADLINE: Duration = Duration::from_secs(5);

/// The way to one API server.
pub(super) struct Transport {
    client: Client,
    bucket: Bucket,
    timeout: Duration,
}

/// What is sent.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) accept: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

pub(super) const JSON: &str = "application/json";

impl<'a> Call<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, accept: JSON, content_type: JSON, body: Vec::new() }
    }

    pub(super) fn with_body(method: Method, path: &'a str, content_type: &'static str, body: &Value) -> Self {
        Self { method, path, accept: JSON, content_type, body: body.to_string().into_bytes() }
    }
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON; null when it is none.
    pub(super) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The object in a good answer, else why there is none.
    pub(super) fn object(&self, what: &str) -> Result<Value, TargetError> {
        let value: Value = self.parsed(what)?;
        if value.is_object() { Ok(value) } else { Err(failure::malformed(what)) }
    }

    /// What a good answer says, else why there is none.
    pub(super) fn parsed<T: DeserializeOwned>(&self, what: &str) -> Result<T, TargetError> {
        if !self.is_success() {
            return Err(self.refused(what));
        }
        serde_json::from_slice(&self.body).map_err(|_| failure::malformed(what))
    }

    /// A server that says that it is not ready is not there.
    pub(super) fn unready(&self) -> TargetError {
        let retry_after = self.retry_after;
        let message = format!("the API server is not ready: {}", self.status);
        failure::error(ErrorClass::Outage { retry_after }, "NotReady", message)
    }

    pub(super) fn refused(&self, what: &str) -> TargetError {
        failure::refused(what, self.status, self.retry_after, &self.body)
    }
}

impl Transport {
    pub(super) fn new(client: Client, bucket: Bucket, timeout: Duration) -> Self {
        Self { client, bucket, timeout }
    }

    /// Sends, and reads the whole answer.
    ///
    /// A server that is not ready answers late or with an error of its own, as one does that has lost its storage. That
    /// is an outage, and no fault of this one request.
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Answer, TargetError> {
        self.bucket.turn().await;
        match self.attempt(call, self.timeout).await {
            Err(error) if error.class == ErrorClass::Transient && self.probe().await.is_err() => {
                Err(TargetError { class: ErrorClass::Outage { retry_after: None }, ..error })
            }
            Ok(answer) if answer.status >= 500 && self.probe().await.is_err() => Err(answer.unready()),
            answered => answered,
        }
    }

    /// Whether the server is there and ready. One that refuses to tell is there.
    pub(super) async fn probe(&self) -> Result<(), TargetError> {
        let answer = self.attempt(Call::get(READY), self.timeout.min(READY_DEADLINE)).await;
        let outage = |error| TargetError { class: ErrorClass::Outage { retry_after: None }, ..error };
        let answer = answer.map_err(outage)?;
        if answer.is_success() || answer.status == 403 { Ok(()) } else { Err(answer.unready()) }
    }

    async fn attempt(&self, call: Call<'_>, deadline: Duration) -> Result<Answer, TargetError> {
        let answered = async {
            let answer =
                self.client.send(request(call)?).await.map_err(|error| failure::no_connection(&error))?;
            let (status, retry_after) = (answer.status(), retry_after(answer.headers()));
            let body = Limited::new(answer.into_body(), LONGEST).collect().await;
            let body = body.map_err(|_| failure::broken_off())?.to_bytes().to_vec();
            Ok(Answer { status: status.as_u16(), retry_after, body })
        };
        tokio::time::timeout(deadline, answered).await.unwrap_or_else(|_| Err(failure::timeout(deadline)))
    }

    /// Sends, and gives the body of a good answer as it comes.
    pub(super) async fn stream(&self, what: &str, call: Call<'_>) -> Result<Body, TargetError> {
        self.bucket.turn().await;
        let begun = async {
            let answer =
                self.client.send(request(call)?).await.map_err(|error| failure::no_connection(&error))?;
            if answer.status() == StatusCode::OK {
                return Ok(answer.into_body());
            }
            let (status, retry_after) = (answer.status(), retry_after(answer.headers()));
            let body = Limited::new(answer.into_body(), LONGEST).collect().await;
            let body = body.map_err(|_| failure::broken_off())?.to_bytes();
            Err(failure::refused(what, status.as_u16(), retry_after, &body))
        };
        tokio::time::timeout(self.timeout, begun)
            .await
            .unwrap_or_else(|_| Err(failure::timeout(self.timeout)))
    }
}

fn request(call: Call<'_>) -> Result<Request<Body>, TargetError> {
    Request::builder()
        .method(call.method)
        .uri(call.path)
        .header(header::ACCEPT, call.accept)
        .header(header::CONTENT_TYPE, call.content_type)
        .body(Body::from(call.body))
        .map_err(|error| failure::manifest(format!("no address can be made for it: {error}")))
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
