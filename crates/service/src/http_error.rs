//! Errors as HTTP answers them: an error of the domain, or a request that the HTTP layer refuses by itself.

use std::error::Error as StdError;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};
use hyperfleet_core::{Error, ErrorKind, FaultKind, Faults};
use serde_json::Value;

/// An error that a handler or a layer returns. `problem` renders it.
#[derive(Debug, Clone)]
pub struct HttpError(Arc<Cause>);

#[derive(Debug)]
pub(crate) enum Cause {
    /// The domain refused or failed.
    Domain(Error),
    /// The HTTP layer refused.
    Http(Refused),
}

/// A refusal of the HTTP layer, with what the response has besides the usual members.
#[derive(Debug)]
pub struct Refused {
    problem_type: &'static ProblemType,
    detail: String,
    /// For the log alone.
    source: Option<Box<dyn StdError + Send + Sync>>,
    pub(crate) members: Vec<(&'static str, Value)>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// How an error is answered: the members of a problem body that follow from its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemType {
    /// The status of the response.
    pub status: StatusCode,
    /// The last segment of the `type` URI.
    pub slug: &'static str,
    /// The title.
    pub title: &'static str,
    /// The documented code.
    pub code: &'static str,
}

/// No route matches the path.
pub const NO_SUCH_ROUTE: ProblemType = ProblemType {
    status: StatusCode::NOT_FOUND,
    slug: NOT_FOUND,
    title: "Endpoint Not Found",
    code: "HYPERFLEET-NTF-000",
};

/// The path exists, the method does not.
pub const METHOD_NOT_ALLOWED: ProblemType =
    ProblemType { status: StatusCode::METHOD_NOT_ALLOWED, ..NO_SUCH_ROUTE };

/// The body has the wrong shape.
pub const MALFORMED_BODY: ProblemType = ProblemType {
    status: StatusCode::BAD_REQUEST,
    slug: "invalid-request",
    title: "Invalid Request Body",
    code: "HYPERFLEET-VAL-003",
};

impl Refused {
    /// A refusal with its sentence for the caller.
    pub fn new(problem_type: &'static ProblemType, detail: impl Into<String>) -> Self {
        let (members, headers) = (Vec::new(), Vec::new());
        Self { problem_type, detail: detail.into(), source: None, members, headers }
    }

    /// Adds a source, which only the log shows.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds a member of the problem body.
    #[must_use]
    pub fn member(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.members.push((name, value.into()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl HttpError {
    /// A refusal with its sentence for the caller.
    pub fn new(problem_type: &'static ProblemType, detail: impl Into<String>) -> Self {
        Refused::new(problem_type, detail).into()
    }

    /// The error of the domain, unless the HTTP layer refused the request.
    pub fn domain(&self) -> Option<&Error> {
        match &*self.0 {
            Cause::Domain(error) => Some(error),
            Cause::Http(_) => None,
        }
    }

    /// A sentence for the caller, without internals.
    pub fn detail(&self) -> &str {
        match &*self.0 {
            Cause::Domain(error) => &error.detail,
            Cause::Http(refused) => &refused.detail,
        }
    }

    /// The documented code.
    pub fn code(&self) -> &'static str {
        self.problem_type().code
    }

    /// Detail and all sources in one line, for the log.
    pub fn chain(&self) -> String {
        match &*self.0 {
            Cause::Domain(error) => error.chain(),
            Cause::Http(Refused { detail, source: None, .. }) => detail.clone(),
            Cause::Http(Refused { detail, source: Some(source), .. }) => format!("{detail}: {source}"),
        }
    }

    pub(crate) fn cause(&self) -> &Cause {
        &self.0
    }

    /// How the error is answered.
    pub fn problem_type(&self) -> ProblemType {
        match &*self.0 {
            Cause::Domain(error) => domain_problem(error),
            Cause::Http(refused) => *refused.problem_type,
        }
    }
}

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        Self(Arc::new(Cause::Domain(error)))
    }
}

impl From<Refused> for HttpError {
    fn from(refused: Refused) -> Self {
        Self(Arc::new(Cause::Http(refused)))
    }
}

impl From<Faults> for HttpError {
    fn from(faults: Faults) -> Self {
        faults.into_error().into()
    }
}

impl IntoResponse for HttpError {
    /// An empty response that carries the error to the layer that renders it.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.problem_type().status;
        if let Cause::Http(refused) = &*self.0 {
            response.headers_mut().extend(refused.headers.iter().cloned());
        }
        response.extensions_mut().insert(self);
        response
    }
}

const VALIDATION: &str = "validation-error";
const NOT_FOUND: &str = "resource-not-found";

fn domain_problem(error: &Error) -> ProblemType {
    const CONFLICT: &str = "resource-conflict";
    const PERMISSION: &str = "permission-denied";
    const INTERNAL: &str = "internal-error";
    const UNAVAILABLE: &str = "service-unavailable";
    let (status, slug, title) = match &error.kind {
        ErrorKind::Invalid => {
            let (slug, title) = match error.faults.as_slice() {
                [only] => match only.kind {
                    FaultKind::Missing => (VALIDATION, "Required Field Missing"),
                    FaultKind::Value => (VALIDATION, "Invalid Field Value"),
                    FaultKind::Shape => (MALFORMED_BODY.slug, MALFORMED_BODY.title),
                    FaultKind::Parameter => (VALIDATION, "Invalid Query Parameter"),
                    FaultKind::Identifier => (VALIDATION, "Invalid Path Parameter"),
                },
                _ => (VALIDATION, "Validation Error"),
            };
            (StatusCode::BAD_REQUEST, slug, title)
        }
        ErrorKind::Unprocessable => (StatusCode::UNPROCESSABLE_ENTITY, VALIDATION, "Invalid Field Value"),
        ErrorKind::HistoryExpired => (StatusCode::GONE, VALIDATION, "Invalid Query Parameter"),
        ErrorKind::NotFound { kind } => {
            let title = match kind.as_str() {
                "Cluster" => "Cluster Not Found",
                "NodePool" => "NodePool Not Found",
                _ => "Resource Not Found",
            };
            (StatusCode::NOT_FOUND, NOT_FOUND, title)
        }
        ErrorKind::AlreadyExists => (StatusCode::CONFLICT, CONFLICT, "Resource Already Exists"),
        ErrorKind::VersionConflict { .. } => (StatusCode::CONFLICT, "version-conflict", "Version Conflict"),
        ErrorKind::StateConflict => (StatusCode::CONFLICT, CONFLICT, "State Conflict"),
        ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, PERMISSION, "Permission Denied"),
        ErrorKind::ResourceDenied => (StatusCode::FORBIDDEN, PERMISSION, "Resource Access Denied"),
        ErrorKind::ActionDenied => (StatusCode::FORBIDDEN, PERMISSION, "Action Not Allowed"),
        ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, "Internal Server Error"),
        ErrorKind::Database => (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, "Database Error"),
        ErrorKind::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, "Service Unavailable"),
        ErrorKind::DependencyUnavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, "Dependency Unavailable")
        }
        ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "upstream-error", "Upstream Timeout"),
    };
    ProblemType { status, slug, title, code: error.code() }
}
