//! The problem types of requests that the API refuses before the rules see them.

use http::StatusCode;
use hyperfleet_service::http_error::{MALFORMED_BODY, NO_SUCH_ROUTE, ProblemType};

/// The body is larger than the limit.
pub(crate) const BODY_TOO_LARGE: ProblemType =
    ProblemType { status: StatusCode::PAYLOAD_TOO_LARGE, ..MALFORMED_BODY };

/// The body's media type is not supported.
pub(crate) const UNSUPPORTED_MEDIA_TYPE: ProblemType =
    ProblemType { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, ..MALFORMED_BODY };

/// No offered media type is acceptable to the caller.
pub(crate) const NOT_ACCEPTABLE: ProblemType =
    ProblemType { status: StatusCode::NOT_ACCEPTABLE, title: "Not Acceptable", ..MALFORMED_BODY };

/// The request names a host that is not served.
pub(crate) const MISDIRECTED: ProblemType = ProblemType {
    status: StatusCode::MISDIRECTED_REQUEST,
    slug: "validation-error",
    title: "Misdirected Request",
    code: "HYPERFLEET-VAL-002",
};

/// The path names an API version that is not served.
pub(crate) const API_VERSION_UNKNOWN: ProblemType =
    ProblemType { title: "API Version Not Supported", code: "HYPERFLEET-NTF-005", ..NO_SUCH_ROUTE };

/// The request has no token, or a token without an identity.
pub(crate) const UNAUTHENTICATED: ProblemType = ProblemType {
    status: StatusCode::UNAUTHORIZED,
    slug: "authentication-required",
    title: "Authentication Required",
    code: "HYPERFLEET-AUT-001",
};

/// The token's signature, issuer, audience or key is not valid.
pub(crate) const INVALID_CREDENTIALS: ProblemType = ProblemType {
    status: StatusCode::UNAUTHORIZED,
    slug: "invalid-credentials",
    title: "Invalid Credentials",
    code: "HYPERFLEET-AUT-002",
};

/// The token has expired.
pub(crate) const TOKEN_EXPIRED: ProblemType =
    ProblemType { title: "Token Expired", code: "HYPERFLEET-AUT-003", ..INVALID_CREDENTIALS };

/// The credentials are not a well-formed token.
pub(crate) const TOKEN_MALFORMED: ProblemType =
    ProblemType { title: "Token Malformed", code: "HYPERFLEET-AUT-004", ..INVALID_CREDENTIALS };

/// The caller sends more requests than its budget allows.
pub(crate) const RATE_LIMITED: ProblemType = ProblemType {
    status: StatusCode::TOO_MANY_REQUESTS,
    slug: "rate-limit-exceeded",
    title: "Rate Limit Exceeded",
    code: "HYPERFLEET-LMT-001",
};
