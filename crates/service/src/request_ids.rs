//! The ids of a request: the request id that the response carries, and the trace id.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const MAX_REQUEST_ID: usize = 128;

/// The ids of a request, in its extensions.
#[derive(Debug, Clone)]
pub struct RequestIds {
    /// The caller's `X-Request-Id`, or a new one.
    pub request_id: Arc<str>,
    /// The trace that the request belongs to.
    pub trace_id: Arc<str>,
    /// Whether the request id is the caller's.
    given: bool,
}

impl RequestIds {
    /// Reads them off a request, or makes them.
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok()).filter(|id| {
            (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
        });
        let trace_id: Arc<str> =
            match headers.get(TRACEPARENT).and_then(|value| trace_of(value.to_str().ok()?)) {
                Some(trace) => trace.into(),
                None => (*Uuid::now_v7().simple().encode_lower(&mut Uuid::encode_buffer())).into(),
            };
        let request_id = given.map_or_else(|| trace_id.clone(), Into::into);
        Self { request_id, trace_id, given: given.is_some() }
    }

    /// What a problem body calls `trace_id`: the caller's request id, or else the trace.
    pub fn trace(&self) -> &str {
        if self.given { &self.request_id } else { &self.trace_id }
    }

    /// Puts the request id on an answer.
    pub fn set_header(&self, response: &mut Response) {
        if let Ok(id) = HeaderValue::from_str(&self.request_id) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
    }
}

/// The trace id of a W3C `traceparent`: `00-<32 hex>-<16 hex>-<2 hex>`.
fn trace_of(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let (_version, trace) = (parts.next()?, parts.next()?);
    let hex = trace.len() == 32 && trace.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    (hex && trace.bytes().any(|b| b != b'0') && parts.next().is_some_and(|span| span.len() == 16))
        .then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_from_a_good_traceparent_only() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(trace_of(good), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        for bad in [
            "",
            "00",
            "00-4bf9-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        ] {
            assert_eq!(trace_of(bad), None, "{bad}");
        }
    }
}
