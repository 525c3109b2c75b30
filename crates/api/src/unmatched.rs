//! Requests that no route takes: what is said to them depends on what they seem to look for.

use axum::extract::Request;
use hyperfleet_core::{Error, ErrorKind, echo};

use crate::router::ROOT;
use hyperfleet_service::problem::Failed;

/// No route has this path.
pub(crate) async fn no_such_route(request: Request) -> Failed {
    let path = request.uri().path();
    let below = path.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('/'));
    let first = below.map(|rest| rest.split('/').next().unwrap_or_default());
    let error = match first {
        None | Some("v1") => {
            Error::new(ErrorKind::NoSuchRoute, format!("No endpoint has the path '{}'.", echo(path)))
        }
        Some(version) if is_version(version) => Error::new(
            ErrorKind::ApiVersionUnknown(version.to_owned()),
            format!("API version '{}' is not supported.", echo(version)),
        ),
        Some(_) => {
            Error::new(ErrorKind::ApiVersionMissing, "API version is required. Use /api/hyperfleet/v1/...")
        }
    };
    error.into()
}

/// The path exists, with other methods: routing adds them as `Allow`.
pub(crate) async fn no_such_method(request: Request) -> Failed {
    let detail = format!("The method {} is not allowed here.", echo(request.method().as_str()));
    Error::new(ErrorKind::MethodNotAllowed, detail).into()
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
