//! Requests that no route matches.

use axum::extract::Request;
use hyperfleet_core::echo;
use hyperfleet_service::http_error::{HttpError, METHOD_NOT_ALLOWED, NO_SUCH_ROUTE, ProblemType, Refused};
use serde_json::json;

use crate::problem_types::API_VERSION_UNKNOWN;
use crate::router::ROOT;

/// No route has this path.
pub(crate) async fn no_such_route(request: Request) -> HttpError {
    let path = request.uri().path();
    let below = path.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('/'));
    let first = below.map(|rest| rest.split('/').next().unwrap_or_default());
    match first {
        None | Some("v1") => {
            HttpError::new(&NO_SUCH_ROUTE, format!("No endpoint has the path '{}'.", echo(path)))
        }
        Some(version) if is_version(version) => {
            let detail = format!("API version '{}' is not supported.", echo(version));
            other_version(&API_VERSION_UNKNOWN, "UNSUPPORTED_API_VERSION", &detail)
        }
        Some(_) => {
            let detail = "API version is required. Use /api/hyperfleet/v1/...";
            other_version(&NO_SUCH_ROUTE, "PATH_NOT_FOUND", detail)
        }
    }
}

/// The path has no version, or one that is not served.
fn other_version(problem_type: &'static ProblemType, legacy_code: &str, detail: &str) -> HttpError {
    // Clients written to the first versioning strategy read this member.
    let error = json!({"code": legacy_code, "message": detail, "supported_versions": ["v1"]});
    Refused::new(problem_type, detail)
        .member("supported_versions", json!(["v1"]))
        .member("error", error)
        .into()
}

/// The path exists with other methods; the router adds them as `Allow`.
pub(crate) async fn no_such_method(request: Request) -> HttpError {
    let detail = format!("The method {} is not allowed here.", echo(request.method().as_str()));
    HttpError::new(&METHOD_NOT_ALLOWED, detail)
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_looks_like_a_version_is_one() {
        assert!(["v2", "v10", "v1beta1"].into_iter().all(is_version));
        assert!(!["v", "volumes", "clusters", ""].into_iter().any(is_version));
    }
}
