//! The way to the server and back: one attempt bounded in time and bytes, and further ones where that can do no harm.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tokio::time::Instant;

use crate::client::Client;
use crate::connect::Fault;
use crate::error::Error;
use crate::path::BASE;
use crate::request::Request;
use crate::response::Response;
use crate::retry::{Attempt, Repetition, at_least};
use crate::transport::Body;

/// The largest answer that is read.
const MAX_BODY: usize = 64 << 20;

/// Sends a request, with retries where they are safe. One attempt may take this long.
pub(crate) async fn within(client: &Client, request: &Request, timeout: Duration) -> Result<Response, Error> {
    let retry = &client.shared.retry;
    let repetition = Repetition::of(request);
    let started = Instant::now();
    let mut pauses = retry.pauses();
    loop {
        let outcome = attempt(client, request, timeout).await;
        let pause = pauses.next().filter(|_| repetition.allowed_after(&outcome));
        let pause = pause.map(|pause| at_least(outcome.retry_after(), pause));
        match pause.filter(|pause| started.elapsed().saturating_add(*pause) <= retry.within) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return outcome.into_result(),
        }
    }
}

pub(crate) async fn attempt(client: &Client, request: &Request, timeout: Duration) -> Attempt {
    let url = match url(client, request) {
        Ok(url) => url,
        Err(error) => return Attempt::NotSent(error),
    };
    let asked = asked(request, &url);
    let started = Instant::now();
    let attempt = async {
        let response = exchange(client, request).await?;
        let (head, body) = response.into_parts();
        let answer = |body: Bytes| Response {
            asked: asked.clone(),
            status: head.status,
            headers: head.headers.clone(),
            body,
        };
        match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => Ok(answer(body.to_bytes())),
            Err(fault) if fault.is::<LengthLimitError>() => {
                let why = format!("its body is larger than {MAX_BODY} bytes");
                Err(Attempt::Lost(answer(Bytes::new()).malformed(why)))
            }
            Err(fault) => Err(Attempt::Lost(Error::unreachable(asked.clone(), BrokeOff(fault)))),
        }
    };
    let outcome = match tokio::time::timeout(timeout, attempt).await {
        Ok(Ok(answer)) => Attempt::Answered(answer),
        Ok(Err(outcome)) => outcome,
        Err(_) => Attempt::Lost(Error::TimedOut { url: asked.clone(), after: timeout }),
    };
    let took = started.elapsed();
    match &outcome {
        Attempt::Answered(answer) => {
            tracing::debug!(request = asked, status = answer.status.as_u16(), ?took);
        }
        Attempt::NotSent(error) | Attempt::Lost(error) => {
            tracing::debug!(request = asked, %error, ?took);
        }
    }
    outcome
}

/// Sends the request once and returns when the head of the response has arrived. A request that was refused for an
/// expired token was not executed, so it is sent again with a new token.
pub(crate) async fn exchange(client: &Client, request: &Request) -> Result<http::Response<Body>, Attempt> {
    let Some(tokens) = &client.shared.tokens else { return exchange_as(client, request, None).await };
    let token = tokens.header().await.map_err(Attempt::NotSent)?;
    let response = exchange_as(client, request, Some(token.clone())).await?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    match tokens.instead_of(&token).await {
        Some(fresh) => exchange_as(client, request, Some(fresh)).await,
        None => Ok(response),
    }
}

async fn exchange_as(
    client: &Client,
    request: &Request,
    token: Option<HeaderValue>,
) -> Result<http::Response<Body>, Attempt> {
    let url = url(client, request).map_err(Attempt::NotSent)?;
    let asked = asked(request, &url);
    let mut message = http::Request::new(Full::new(request.body.clone().unwrap_or_default()));
    *message.method_mut() = request.method.clone();
    *message.uri_mut() =
        url.parse().map_err(|_| Attempt::NotSent(Error::Invalid(format!("{asked} is no URL"))))?;
    *message.headers_mut() = headers(client, request, token);
    let sent = std::time::Instant::now();
    let response = client.shared.transport.exchange(message).await.map_err(|fault| {
        let was_sent = !fault.is_connect();
        let error = Error::unreachable(asked, fault);
        if was_sent { Attempt::Lost(error) } else { Attempt::NotSent(error) }
    })?;
    client.shared.clock.read(response.headers(), sent);
    Ok(response)
}

/// The headers: the configured ones, those of the call's context, then those of the request.
pub(crate) fn headers(client: &Client, request: &Request, token: Option<HeaderValue>) -> HeaderMap {
    let mut headers = client.shared.headers.clone();
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json, application/problem+json"));
    for (name, value) in client.context.iter().chain(&request.headers) {
        headers.insert(name, value.clone());
    }
    if let Some(token) = token {
        headers.insert(AUTHORIZATION, token);
    }
    headers
}

/// The whole URL.
pub(crate) fn url(client: &Client, request: &Request) -> Result<String, Error> {
    let target = request.target();
    let base = if target.starts_with("/api/hyperfleet") { "" } else { BASE };
    match target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        true => Ok(format!("{}{base}{target}", client.shared.origin.root())),
        false => Err(Error::Invalid(format!("{:?} is no path", request.path))),
    }
}

/// An answer that ended before its body did.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off")]
struct BrokeOff(#[source] Fault);

/// Method and URL for errors and the log, without parameters, because a search may hold more than a log should.
pub(crate) fn asked(request: &Request, url: &str) -> String {
    format!("{} {}", request.method, url.split('?').next().unwrap_or_default())
}
