//! Renders and logs errors as problem bodies (RFC 9457). The outermost layer does so once for each response, because
//! only that layer knows path and trace.

use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use hyperfleet_core::{ErrorKind, Timestamp};
use serde_json::{Map, Value, json};

use crate::http_error::{Cause, HttpError, METHOD_NOT_ALLOWED, ProblemType};
use crate::request_ids::RequestIds;

/// The base of every problem's `type` URI.
const TYPE_BASE: &str = "https://api.hyperfleet.io/errors/";

/// Further members of the problem body, carried in the response's extensions.
#[derive(Debug, Clone)]
pub struct Members(pub Map<String, Value>);

/// Renders the error that a response carries, if any. Headers that the router set, such as `Allow`, stay.
pub fn rendered(mut response: Response, ids: &RequestIds, method: &str, path: &str) -> Response {
    let Some(error) = response.extensions_mut().remove::<HttpError>() else { return response };
    let problem = error.problem_type();
    log(&error, &problem, ids, method, path);
    let mut body = Map::new();
    body.insert("type".into(), format!("{TYPE_BASE}{}", problem.slug).into());
    body.insert("title".into(), problem.title.into());
    body.insert("status".into(), problem.status.as_u16().into());
    body.insert("detail".into(), error.detail().into());
    body.insert("instance".into(), path.into());
    body.insert("code".into(), problem.code.into());
    body.insert("timestamp".into(), Timestamp::now().to_string().into());
    body.insert("trace_id".into(), ids.trace().into());
    if let Some(error) = error.domain().filter(|error| !error.faults.is_empty()) {
        body.insert("errors".into(), json!(error.faults));
    }
    let (mut parts, _) = response.into_parts();
    if problem != METHOD_NOT_ALLOWED {
        parts.headers.remove(ALLOW);
    }
    add_members(&error, &mut body);
    if let Some(Members(members)) = parts.extensions.remove() {
        body.extend(members);
    }
    parts.status = problem.status;
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    let kind = error.domain().map(|error| &error.kind);
    if matches!(kind, Some(ErrorKind::Overloaded | ErrorKind::DependencyUnavailable)) {
        parts.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Response::from_parts(parts, Body::from(Value::Object(body).to_string()))
}

/// Members that belong to certain errors.
fn add_members(error: &HttpError, body: &mut Map<String, Value>) {
    match error.cause() {
        Cause::Domain(error) => {
            if let ErrorKind::VersionConflict { expected, actual } = &error.kind {
                body.insert("expected_version".into(), expected.clone());
                body.insert("actual_version".into(), actual.0.into());
            }
        }
        Cause::Http(refused) => {
            body.extend(refused.members.iter().map(|(name, value)| ((*name).into(), value.clone())));
        }
    }
}

fn log(error: &HttpError, problem: &ProblemType, ids: &RequestIds, method: &str, path: &str) {
    let error_type = format!("{TYPE_BASE}{}", problem.slug);
    let mut context = json!({"method": method, "path": path});
    if let Some(first) = error.domain().and_then(|error| error.faults.first()) {
        context["field"] = first.field.clone().into();
    }
    let (code, cause, request_id) = (problem.code, error.chain(), &*ids.request_id);
    let trace_id = ids.trace();
    if problem.status.is_server_error() {
        tracing::error!(error_code = code, error_type, error = cause, request_id, trace_id, json.request_context = %context, "request failed");
    } else {
        tracing::info!(error_code = code, error_type, error = cause, request_id, trace_id, json.request_context = %context, "request refused");
    }
}
