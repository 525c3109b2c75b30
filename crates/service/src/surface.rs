//! What the small listeners (health, metrics) share: problem bodies where there is nothing to serve, and
//! a request id in every answer. An API renders its own errors.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use hyperfleet_core::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Adds to `router` what every surface needs. Comes last: routes added later miss it.
pub(crate) fn complete(router: Router) -> Router {
    router
        .fallback(async |request: Request| nothing_here(&request, StatusCode::NOT_FOUND, "No such endpoint."))
        .method_not_allowed_fallback(async |request: Request| {
            nothing_here(&request, StatusCode::METHOD_NOT_ALLOWED, "The endpoint does not know this method.")
        })
        .layer(middleware::from_fn(identify))
}

fn nothing_here(request: &Request, status: StatusCode, detail: &str) -> Response {
    let problem = Problem {
        status,
        slug: "resource-not-found",
        title: "Endpoint Not Found",
        code: "HYPERFLEET-NTF-000",
        detail,
    };
    tracing::info!(
        error_code = problem.code,
        error_type = problem.kind(),
        error = detail,
        trace_id = request_id(request),
        json.request_context = %json!({"method": request.method().as_str(), "path": request.uri().path()}),
        "request refused"
    );
    problem.answer(request, Map::new())
}

fn request_id(request: &Request) -> Option<&str> {
    request.headers().get(X_REQUEST_ID)?.to_str().ok()
}

/// An error as RFC 9457 writes it.
pub(crate) struct Problem<'a> {
    pub(crate) status: StatusCode,
    pub(crate) slug: &'a str,
    pub(crate) title: &'a str,
    pub(crate) code: &'a str,
    pub(crate) detail: &'a str,
}

impl Problem<'_> {
    fn kind(&self) -> String {
        format!("https://api.hyperfleet.io/errors/{}", self.slug)
    }

    pub(crate) fn answer(&self, request: &Request, members: Map<String, Value>) -> Response {
        let mut body = json!({
            "type": self.kind(),
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "instance": request.uri().path(),
            "code": self.code,
            "timestamp": Timestamp::now().to_string(),
            "trace_id": request_id(request),
        });
        if let Some(body) = body.as_object_mut() {
            body.extend(members);
        }
        let headers = [(CONTENT_TYPE, "application/problem+json"), (CACHE_CONTROL, "no-store")];
        (self.status, headers, body.to_string()).into_response()
    }
}

/// The caller's id when it is short and plain, else a new one; the request carries it from here on.
async fn identify(mut request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(X_REQUEST_ID)
        .filter(|id| (1..=128).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic));
    let id = match given {
        Some(id) => id.clone(),
        None => HeaderValue::try_from(Uuid::now_v7().to_string()).expect("a UUID is plain ASCII"),
    };
    request.headers_mut().insert(X_REQUEST_ID, id.clone());
    let mut response = next.run(request).await;
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}
