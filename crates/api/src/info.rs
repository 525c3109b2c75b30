//! Handlers about the service itself, open to all callers.

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, HeaderValue};
use hyperfleet_core::{Contract, Error, ErrorKind};
use serde_json::json;

use crate::app::App;
use crate::query;
use hyperfleet_service::http_error::HttpError;

/// `GET /api/hyperfleet` and `GET /api/hyperfleet/metadata`.
pub(crate) async fn metadata(State(app): State<App>) -> Response {
    Json(json!({
        "service": "hyperfleet-api",
        "version": app.build.version,
        "api_versions": ["v1"],
        "git_sha": app.build.git_sha,
        "build_timestamp": app.build.build_timestamp,
    }))
    .into_response()
}

/// `GET /api/hyperfleet/health`: whether requests can be served now. Never waits for the database.
pub(crate) async fn health(State(app): State<App>) -> Response {
    let mut response = match app.health.not_ready_because() {
        None => Json(json!({"status": "ok"})).into_response(),
        Some(reason) => {
            let draining = app.health.is_draining();
            let kind = if draining { ErrorKind::Overloaded } else { ErrorKind::DependencyUnavailable };
            HttpError::from(Error::new(kind, format!("Not able to serve: {reason}"))).into_response()
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// For routes without parameters: any is unknown.
pub(crate) async fn without_parameters(request: Request, next: Next) -> Response {
    checked(query::none(request.uri().query(), Contract::Documented), request, next).await
}

/// For routes whose answers may be cached by their fingerprint: any other parameter is unknown.
pub(crate) async fn with_fingerprint(request: Request, next: Next) -> Response {
    checked(query::asset(request.uri().query()), request, next).await
}

async fn checked(parameters: Result<(), Error>, request: Request, next: Next) -> Response {
    match parameters {
        Ok(()) => next.run(request).await,
        Err(error) => HttpError::from(error).into_response(),
    }
}
