//! The one place where an error becomes a problem body (RFC 9457). Handlers return [`Failed`];
//! the outermost layer knows the request's path and trace and renders it there, once, and logs it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use hyperfleet_core::{Error, ErrorKind, Faults, ProblemType, Timestamp};
use serde_json::{Map, Value, json};
use std::sync::Arc;

use crate::request_ids::RequestIds;

const TYPES: &str = "https://api.hyperfleet.io/errors/";
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// What PATCH understands.
pub const PATCH_TYPES: &str = "application/merge-patch+json, application/json-patch+json, application/json";

/// An error on its way out of a handler.
#[derive(Debug)]
pub struct Failed(Arc<Error>);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<Faults> for Failed {
    fn from(faults: Faults) -> Self {
        faults.into_error().into()
    }
}

impl IntoResponse for Failed {
    /// An empty answer that carries the error to where it is rendered.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status(&self.0);
        response.extensions_mut().insert(self.0);
        response
    }
}

/// More members for the body of an error, in the extensions of its answer.
#[derive(Debug, Clone)]
pub struct Members(pub Map<String, Value>);

/// What a problem needs to know of its request.
struct Occasion<'a> {
    method: &'a str,
    path: &'a str,
    request_id: &'a str,
    trace_id: &'a str,
}

/// Renders the error that an answer carries, if it does. Headers that routing set (such as `Allow`) stay.
pub fn rendered(response: Response, ids: &RequestIds, method: &str, path: &str) -> Response {
    let Some(error) = response.extensions().get::<Arc<Error>>().cloned() else { return response };
    let occasion = Occasion { method, path, request_id: &ids.request_id, trace_id: ids.trace() };
    render(&error, &occasion, response)
}

fn render(error: &Error, occasion: &Occasion<'_>, response: Response) -> Response {
    log(error, occasion);
    let mut body = Map::new();
    let ProblemType { code, slug, title } = error.problem_type();
    body.insert("type".into(), format!("{TYPES}{slug}").into());
    body.insert("title".into(), title.into());
    body.insert("status".into(), status(error).as_u16().into());
    body.insert("detail".into(), error.detail.clone().into());
    body.insert("instance".into(), occasion.path.into());
    body.insert("code".into(), code.into());
    body.insert("timestamp".into(), Timestamp::now().to_string().into());
    body.insert("trace_id".into(), occasion.trace_id.into());
    if !error.faults.is_empty() {
        body.insert("errors".into(), json!(error.faults));
    }
    extend(error, &mut body);
    let (mut parts, _) = response.into_parts();
    if let Some(Members(members)) = parts.extensions.remove() {
        body.extend(members);
    }

    parts.status = status(error);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    match error.kind {
        ErrorKind::Overloaded | ErrorKind::DependencyUnavailable => {
            parts.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        ErrorKind::RateLimited { retry_after, .. } => {
            parts.headers.insert(RETRY_AFTER, retry_after.into());
        }
        ErrorKind::UnsupportedMediaType if occasion.method == "PATCH" => {
            parts.headers.insert(ACCEPT_PATCH, HeaderValue::from_static(PATCH_TYPES));
        }
        _ => {}
    }
    if error.kind != ErrorKind::MethodNotAllowed {
        parts.headers.remove(ALLOW);
    }
    Response::from_parts(parts, Body::from(Value::Object(body).to_string()))
}

/// Members that belong to certain errors.
fn extend(error: &Error, body: &mut Map<String, Value>) {
    let legacy = match &error.kind {
        ErrorKind::VersionConflict { expected, actual } => {
            body.insert("expected_version".into(), expected.clone());
            body.insert("actual_version".into(), actual.0.into());
            return;
        }
        ErrorKind::RateLimited { limit, retry_after } => {
            body.insert("limit".into(), (*limit).into());
            body.insert("window".into(), "1s".into());
            body.insert("retry_after".into(), (*retry_after).into());
            return;
        }
        ErrorKind::ApiVersionMissing => "PATH_NOT_FOUND",
        ErrorKind::ApiVersionUnknown(_) => "UNSUPPORTED_API_VERSION",
        _ => return,
    };
    body.insert("supported_versions".into(), json!(["v1"]));
    // The shape that clients written to the first versioning strategy read.
    body.insert(
        "error".into(),
        json!({"code": legacy, "message": error.detail, "supported_versions": ["v1"]}),
    );
}

/// The status of an error.
fn status(error: &Error) -> StatusCode {
    match error.kind {
        ErrorKind::Invalid | ErrorKind::MalformedBody => StatusCode::BAD_REQUEST,
        ErrorKind::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorKind::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
        ErrorKind::NoLongerKept => StatusCode::GONE,
        ErrorKind::NoSuchRoute
        | ErrorKind::ApiVersionMissing
        | ErrorKind::ApiVersionUnknown(_)
        | ErrorKind::NotFound { .. } => StatusCode::NOT_FOUND,
        ErrorKind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorKind::AlreadyExists | ErrorKind::VersionConflict { .. } | ErrorKind::StateConflict => {
            StatusCode::CONFLICT
        }
        ErrorKind::Unauthenticated
        | ErrorKind::InvalidCredentials
        | ErrorKind::TokenExpired
        | ErrorKind::TokenMalformed => StatusCode::UNAUTHORIZED,
        ErrorKind::PermissionDenied | ErrorKind::ResourceDenied | ErrorKind::ActionDenied => {
            StatusCode::FORBIDDEN
        }
        ErrorKind::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Internal | ErrorKind::Database => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorKind::Overloaded | ErrorKind::DependencyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

fn log(error: &Error, occasion: &Occasion<'_>) {
    let ProblemType { code, slug, .. } = error.problem_type();
    let error_type = format!("{TYPES}{slug}");
    let mut context = json!({"method": occasion.method, "path": occasion.path});
    if let [first, ..] = error.faults.as_slice() {
        context["field"] = first.field.clone().into();
    }
    let cause = error.chain();
    let Occasion { request_id, trace_id, .. } = occasion;
    if status(error).is_server_error() {
        tracing::error!(error_code = code, error_type, error = cause, request_id, trace_id, json.request_context = %context, "request failed");
    } else {
        tracing::info!(error_code = code, error_type, error = cause, request_id, trace_id, json.request_context = %context, "request refused");
    }
}
