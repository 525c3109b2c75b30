//! The outermost layer: gives every request its id, turns panics and errors into problem bodies,
//! and leaves one log line and one metric sample per request.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::HeaderValue;
use http::header::VARY;
use hyperfleet_core::Error;
use hyperfleet_core::rules::Subject;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use hyperfleet_service::build_info::BuildInfo;
use hyperfleet_service::problem::{self, Failed};
use hyperfleet_service::request_ids::RequestIds;

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
    let mut response = problem::rendered(response, &ids, method.as_str(), &path);
    ids.mark(&mut response);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Authorization, Accept-Encoding"));

    let took = started.elapsed();
    let status = response.status().as_u16();
    observer.record(known_method(&method), route, status, took);
    let subject = response.extensions_mut().remove::<Subject>();
    let mut id = [0; 36];
    let id = subject.as_ref().map(|subject| subject.id.written(&mut id));
    tracing::info!(
        method = method.as_str(),
        route,
        path,
        status,
        duration_ms = took.as_micros() as f64 / 1000.0,
        request_id = &*ids.request_id,
        trace_id = &*ids.trace_id,
        resource_type = subject.as_ref().map(|subject| &*subject.kind),
        resource_id = id,
        "request"
    );
    response
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
}
