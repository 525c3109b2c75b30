//! The outermost layer: gives every request its id, turns panics and errors into problem bodies,
//! and leaves one log line and one metric sample per request.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{HeaderName, VARY};
use http::{HeaderMap, HeaderValue};
use hyperfleet_core::{Error, ResourceId};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use uuid::Uuid;

use crate::problem::{self, Failed, Occasion};
use hyperfleet_service::build_info::BuildInfo;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const MAX_REQUEST_ID: usize = 128;

/// The ids of a request, in its extensions.
#[derive(Debug, Clone)]
pub(crate) struct RequestIds {
    /// The caller's `X-Request-Id`, or a new one.
    pub(crate) request_id: Arc<str>,
    /// The trace that the request belongs to.
    pub(crate) trace_id: Arc<str>,
    /// Whether the request id is the caller's.
    given: bool,
}

/// The one resource that an answer is about, in its extensions.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Its kind.
    pub(crate) kind: Arc<str>,
    /// Its id.
    pub(crate) id: ResourceId,
}

/// What is measured of requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Observer {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    path: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    path: String,
}

impl Observer {
    /// Makes the metrics visible under their public names.
    pub(crate) fn register(registry: &mut Registry, build: &BuildInfo) -> Self {
        let observer = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.000_25, 2.5, 14))
            }),
        };
        let api = registry.sub_registry_with_prefix("hyperfleet_api");
        api.register("requests", "Requests by method, route and status", observer.requests.clone());
        api.register_with_unit(
            "request_duration",
            "Time from the head of a request to the head of its answer",
            Unit::Seconds,
            observer.durations.clone(),
        );
        let labels = vec![("version", build.version.to_owned()), ("git_sha", build.git_sha.to_owned())];
        api.register("build", "What runs here", Info::new(labels));
        observer
    }

    fn record(&self, method: &'static str, path: &str, code: u16, took: Duration) {
        let labels = RouteLabels { method, path: path.to_owned() };
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, path: labels.path, code }).inc();
    }
}

/// Wraps a request from its head to the head of its answer.
pub(crate) async fn observe(State(observer): State<Observer>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let ids = RequestIds::of(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    // The template, so that labels stay few.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", |matched| matched.as_str().trim_end_matches('/'));
    request.extensions_mut().insert(ids.clone());

    let response = AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Failed::from(Error::internal(panic_text(&*panic))).into_response());
    let mut response = match response.extensions().get::<Arc<Error>>().cloned() {
        None => response,
        Some(error) => {
            let trace_id = if ids.given { &ids.request_id } else { &ids.trace_id };
            let occasion =
                Occasion { method: method.as_str(), path: &path, request_id: &ids.request_id, trace_id };
            problem::render(&error, &occasion, response)
        }
    };
    if let Ok(id) = HeaderValue::from_str(&ids.request_id) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Authorization, Accept-Encoding"));

    let took = started.elapsed();
    let status = response.status().as_u16();
    observer.record(known_method(&method), route, status, took);
    let subject = response.extensions_mut().remove::<Subject>();
    tracing::info!(
        method = method.as_str(),
        route,
        path,
        status,
        duration_ms = took.as_micros() as f64 / 1000.0,
        request_id = &*ids.request_id,
        trace_id = &*ids.trace_id,
        resource_type = subject.as_ref().map(|subject| &*subject.kind),
        resource_id = subject.as_ref().map(|subject| tracing::field::display(subject.id)),
        "request"
    );
    response
}

impl RequestIds {
    fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok()).filter(|id| {
            (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
        });
        let trace_id: Arc<str> =
            match headers.get(TRACEPARENT).and_then(|value| trace_of(value.to_str().ok()?)) {
                Some(trace) => trace.into(),
                None => Uuid::now_v7().simple().to_string().into(),
            };
        let request_id = given.map_or_else(|| trace_id.clone(), Into::into);
        Self { request_id, trace_id, given: given.is_some() }
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

/// A method as a label: callers can invent methods, labels must stay few.
fn known_method(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a handler panicked: {}", text.unwrap_or("no message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::get;
    use axum::{Router, middleware};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    #[tokio::test]
    async fn a_panic_is_a_500_that_keeps_its_message_to_itself() {
        let observer = Observer::register(&mut Registry::default(), &BuildInfo::default());
        let router = Router::new()
            .route("/", get(async || -> Response { panic!("a secret of ours") }))
            .layer(middleware::from_fn_with_state(observer, observe));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key("x-request-id"));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("HYPERFLEET-INT-001") && !body.contains("secret"), "{body}");
    }

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
