//! The outermost layer: gives every request its id, turns panics and errors into problem bodies,
//! and leaves one log line and one metric sample per request.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use futures_util::FutureExt;
use futures_util::future::{Either, ready};
use http::HeaderValue;
use http::header::VARY;
use hyperfleet_core::Error;
use hyperfleet_core::rules::ResourceKey;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tower::Service as _;

use hyperfleet_service::build_info::BuildInfo;
use hyperfleet_service::http_error::HttpError;
use hyperfleet_service::problem;
use hyperfleet_service::request_ids::RequestIds;

use crate::allowed_hosts::AllowedHosts;

/// Measures and logs requests. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Observer(Arc<Metrics>);

#[derive(Debug)]
struct Metrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    path: Template,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    path: Template,
}

/// The route of a request as its template, so that labels stay few.
#[derive(Debug, Clone)]
struct Template(Option<MatchedPath>);

impl Template {
    fn as_str(&self) -> &str {
        self.0.as_ref().map_or("unmatched", |matched| matched.as_str().trim_end_matches('/'))
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Template {}

impl Hash for Template {
    /// Templates are few and most differ in length, so hashing the length costs less than hashing the text.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().len().hash(state);
    }
}

impl EncodeLabelValue for Template {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.as_str().encode(encoder)
    }
}

impl Observer {
    /// Registers the metrics under their public names.
    pub(crate) fn register(registry: &mut Registry, build: &BuildInfo) -> Self {
        let metrics = Metrics {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.000_25, 2.5, 14))
            }),
        };
        let api = registry.sub_registry_with_prefix("hyperfleet_api");
        api.register("requests", "Requests by method, route and status", metrics.requests.clone());
        api.register_with_unit(
            "request_duration",
            "Time from the head of a request to the head of its answer",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        let labels = vec![("version", build.version.to_owned()), ("git_sha", build.git_sha.to_owned())];
        api.register("build", "Version and commit", Info::new(labels));
        Self(Arc::new(metrics))
    }

    fn record(&self, method: &'static str, path: Template, code: u16, took: Duration) {
        let labels = RouteLabels { method, path };
        self.0.durations.get_or_create(&labels).observe(took.as_secs_f64());
        self.0.requests.get_or_create(&RequestLabels { method, path: labels.path, code }).inc();
    }
}

/// Wraps a request from its head to the head of its answer.
pub(crate) fn observe(
    observer: Observer,
    allowed_hosts: &AllowedHosts,
    mut request: Request,
    route: &mut Route,
) -> impl Future<Output = Response> + use<> {
    let started = Instant::now();
    let ids = RequestIds::of(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let template = Template(request.extensions().get().cloned());
    request.extensions_mut().insert(ids.clone());
    let response = match allowed_hosts.check(&request) {
        Ok(()) => Either::Left(AssertUnwindSafe(route.call(request)).catch_unwind()),
        Err(error) => Either::Right(ready(Ok(Ok(error.into_response())))),
    };
    async move {
        let response = match response.await {
            Ok(Ok(response)) => response,
            Err(panic) => HttpError::from(Error::internal(panic_text(&*panic))).into_response(),
        };
        let mut response = problem::rendered(response, &ids, method.as_str(), &path);
        ids.set_header(&mut response);
        response.headers_mut().insert(VARY, HeaderValue::from_static("Authorization, Accept-Encoding"));

        let took = started.elapsed();
        let status = response.status().as_u16();
        let subject = response.extensions_mut().remove::<ResourceKey>();
        let mut id = [0; 36];
        let id = subject.as_ref().map(|subject| subject.id.written(&mut id));
        tracing::info!(
            method = method.as_str(),
            route = template.as_str(),
            path,
            status,
            duration_ms = took.as_micros() as f64 / 1000.0,
            request_id = &*ids.request_id,
            trace_id = &*ids.trace_id,
            resource_type = subject.as_ref().map(|subject| &*subject.kind),
            resource_id = id,
            "request"
        );
        observer.record(known_method(&method), template, status, took);
        response
    }
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
    use crate::route_layer::RouteLayer;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use std::convert::Infallible;
    use tower::ServiceExt;

    fn observed(routes: Router, observer: Observer) -> Router {
        routes.layer(RouteLayer::new(move |request, route: &mut Route| {
            observe(observer.clone(), &AllowedHosts::any(), request, route)
        }))
    }

    #[test]
    fn routes_of_equal_length_are_counted_separately() {
        let mut registry = Registry::default();
        let observer = Observer::register(&mut registry, &BuildInfo::default());
        let routes = Router::new().route("/{a}/one", get(async || ())).route("/{a}/two/", get(async || ()));
        let router = observed(routes, observer);
        let ask = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap();
        };
        futures_util::future::FutureExt::now_or_never(async {
            for path in ["/x/one", "/y/one", "/x/two/", "/none"] {
                ask(path).await;
            }
        })
        .unwrap();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for (path, code, count) in [("/{a}/one", 200, 2), ("/{a}/two", 200, 1), ("unmatched", 404, 1)] {
            let line = format!(
                "hyperfleet_api_requests_total{{method=\"GET\",path=\"{path}\",code=\"{code}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
    }

    #[tokio::test]
    async fn a_panic_before_anything_was_awaited_is_answered_too() {
        let observer = Observer::register(&mut Registry::default(), &BuildInfo::default());
        let at_once = tower::service_fn(|_: Request| -> std::future::Ready<Result<Response, Infallible>> {
            panic!("at once")
        });
        let router = observed(Router::new().route_service("/", at_once), observer);
        assert_eq!(router.oneshot(Request::new(Body::empty())).await.unwrap().status(), 500);
    }

    #[tokio::test]
    async fn a_panic_is_a_500_that_keeps_its_message_to_itself() {
        let observer = Observer::register(&mut Registry::default(), &BuildInfo::default());
        let routes = Router::new().route("/", get(async || -> Response { panic!("a secret of ours") }));
        let router = observed(routes, observer);
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key("x-request-id"));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("HYPERFLEET-INT-001") && !body.contains("secret"), "{body}");
    }
}
