//! The one error type. It says what went wrong in the domain's terms, holds a message for the
//! caller apart from the cause that only the log may see, and knows nothing of HTTP: the API
//! turns it into a problem body in one place.

use std::error::Error as StdError;
use std::fmt;

use serde_json::Value;

use crate::{Fault, FaultKind, ResourceId, Version, echo};

/// What went wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorKind {
    /// The request breaks rules; the faults say which.
    Invalid,
    /// The right shape, but wrong by a business rule.
    Unprocessable,
    /// The body is no JSON, empty, or not an object.
    MalformedBody,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The body's media type is not understood.
    UnsupportedMediaType,
    /// None of the forms that the caller would take can be had.
    NotAcceptable,
    /// The past that is asked for is forgotten.
    NoLongerKept,
    /// No route matches the path.
    NoSuchRoute,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// The path lacks the API version.
    ApiVersionMissing,
    /// The path names an API version that is not served.
    ApiVersionUnknown(String),
    /// No resource of this kind has this id.
    NotFound {
        /// The kind looked for, or `Resource` where any would do.
        kind: String,
    },
    /// The name is taken.
    AlreadyExists,
    /// The resource is not at the version that the caller named.
    VersionConflict {
        /// What the caller sent.
        expected: Value,
        /// What the resource is at.
        actual: Version,
    },
    /// The resource's state does not allow it.
    StateConflict,
    /// No token, or nobody behind it.
    Unauthenticated,
    /// The token proves nothing: signature, issuer, audience, key.
    InvalidCredentials,
    /// The token's time is over.
    TokenExpired,
    /// What was sent is no token.
    TokenMalformed,
    /// The caller belongs nowhere, or may only report.
    PermissionDenied,
    /// The caller's roles do not cover this resource.
    ResourceDenied,
    /// The caller's roles do not cover this verb.
    ActionDenied,
    /// More requests than the caller may make.
    RateLimited {
        /// How many a second.
        limit: u64,
        /// When to come again, in seconds.
        retry_after: u64,
    },
    /// Something that should not happen did.
    Internal,
    /// The database refused a statement.
    Database,
    /// Too much is waiting, or the process is stopping.
    Overloaded,
    /// What the process needs, such as the database, cannot be reached.
    DependencyUnavailable,
    /// The request's deadline passed.
    Timeout,
}

/// What a family of errors is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemType {
    /// For machines, such as `HYPERFLEET-VAL-001`.
    pub code: &'static str,
    /// The last part of the type's URI.
    pub slug: &'static str,
    /// For people.
    pub title: &'static str,
}

/// An error of HyperFleet.
#[derive(Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// For the caller. Never holds internals.
    pub detail: String,
    /// Field by field, for validation errors.
    pub faults: Vec<Fault>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error with its sentence for the caller.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), faults: Vec::new(), cause: None }
    }

    /// Something that should not happen did; only the log learns what.
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Internal, "An unexpected error occurred. Please try again later.").because(cause)
    }

    /// No resource of `kind` has `id`.
    pub fn not_found(kind: &str, id: &str) -> Self {
        Self::new(ErrorKind::NotFound { kind: kind.to_owned() }, format!("{kind} '{}' not found", echo(id)))
    }

    /// The resource's state does not allow it.
    pub fn state_conflict(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::StateConflict, detail)
    }

    /// The name is taken by `holder`.
    pub fn name_taken(kind: &str, name: &str, holder: Option<ResourceId>) -> Self {
        let message = match holder {
            Some(id) => format!("{kind} name '{name}' is already used by '{id}'"),
            None => format!("{kind} name '{name}' is already used"),
        };
        let fault = Fault::value("name", message.clone(), &Value::from(name)).rule("unique");
        Self::new(ErrorKind::AlreadyExists, message).with_faults(vec![fault])
    }

    /// Adds field details.
    #[must_use]
    pub fn with_faults(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }

    /// Adds the cause, for the log alone.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Whether the same again may work later.
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, ErrorKind::Overloaded | ErrorKind::DependencyUnavailable | ErrorKind::Timeout)
    }

    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        self.problem_type().code
    }

    /// The family that the error belongs to, as callers see it.
    pub fn problem_type(&self) -> ProblemType {
        const VALIDATION: &str = "validation-error";
        const NOT_FOUND: &str = "resource-not-found";
        const CONFLICT: &str = "resource-conflict";
        const UNAVAILABLE: &str = "service-unavailable";
        const CREDENTIALS: &str = "invalid-credentials";
        const PERMISSION: &str = "permission-denied";
        let (code, slug, title) = match &self.kind {
            ErrorKind::Invalid => match self.faults.as_slice() {
                [only] => match only.kind {
                    FaultKind::Missing => ("HYPERFLEET-VAL-001", VALIDATION, "Required Field Missing"),
                    FaultKind::Value => ("HYPERFLEET-VAL-002", VALIDATION, "Invalid Field Value"),
                    FaultKind::Body => ("HYPERFLEET-VAL-003", "invalid-request", "Invalid Request Body"),
                    FaultKind::Query => ("HYPERFLEET-VAL-004", VALIDATION, "Invalid Query Parameter"),
                    FaultKind::Path => ("HYPERFLEET-VAL-005", VALIDATION, "Invalid Path Parameter"),
                },
                _ => ("HYPERFLEET-VAL-000", VALIDATION, "Validation Error"),
            },
            ErrorKind::Unprocessable => ("HYPERFLEET-VAL-002", VALIDATION, "Invalid Field Value"),
            ErrorKind::MalformedBody | ErrorKind::BodyTooLarge | ErrorKind::UnsupportedMediaType => {
                ("HYPERFLEET-VAL-003", "invalid-request", "Invalid Request Body")
            }
            ErrorKind::NotAcceptable => ("HYPERFLEET-VAL-003", "invalid-request", "Not Acceptable"),
            ErrorKind::NoLongerKept => ("HYPERFLEET-VAL-004", VALIDATION, "Invalid Query Parameter"),
            ErrorKind::NoSuchRoute | ErrorKind::MethodNotAllowed | ErrorKind::ApiVersionMissing => {
                ("HYPERFLEET-NTF-000", NOT_FOUND, "Endpoint Not Found")
            }
            ErrorKind::ApiVersionUnknown(_) => ("HYPERFLEET-NTF-005", NOT_FOUND, "API Version Not Supported"),
            ErrorKind::NotFound { kind } => match kind.as_str() {
                "Cluster" => ("HYPERFLEET-NTF-002", NOT_FOUND, "Cluster Not Found"),
                "NodePool" => ("HYPERFLEET-NTF-003", NOT_FOUND, "NodePool Not Found"),
                _ => ("HYPERFLEET-NTF-001", NOT_FOUND, "Resource Not Found"),
            },
            ErrorKind::AlreadyExists => ("HYPERFLEET-CNF-001", CONFLICT, "Resource Already Exists"),
            ErrorKind::VersionConflict { .. } => {
                ("HYPERFLEET-CNF-002", "version-conflict", "Version Conflict")
            }
            ErrorKind::StateConflict => ("HYPERFLEET-CNF-003", CONFLICT, "State Conflict"),
            ErrorKind::Unauthenticated => {
                ("HYPERFLEET-AUT-001", "authentication-required", "Authentication Required")
            }
            ErrorKind::InvalidCredentials => ("HYPERFLEET-AUT-002", CREDENTIALS, "Invalid Credentials"),
            ErrorKind::TokenExpired => ("HYPERFLEET-AUT-003", CREDENTIALS, "Token Expired"),
            ErrorKind::TokenMalformed => ("HYPERFLEET-AUT-004", CREDENTIALS, "Token Malformed"),
            ErrorKind::PermissionDenied => ("HYPERFLEET-AUZ-001", PERMISSION, "Permission Denied"),
            ErrorKind::ResourceDenied => ("HYPERFLEET-AUZ-002", PERMISSION, "Resource Access Denied"),
            ErrorKind::ActionDenied => ("HYPERFLEET-AUZ-003", PERMISSION, "Action Not Allowed"),
            ErrorKind::RateLimited { .. } => {
                ("HYPERFLEET-LMT-001", "rate-limit-exceeded", "Rate Limit Exceeded")
            }
            ErrorKind::Internal => ("HYPERFLEET-INT-001", "internal-error", "Internal Server Error"),
            ErrorKind::Database => ("HYPERFLEET-INT-002", "internal-error", "Database Error"),
            ErrorKind::Overloaded => ("HYPERFLEET-SVC-001", UNAVAILABLE, "Service Unavailable"),
            ErrorKind::DependencyUnavailable => ("HYPERFLEET-SVC-002", UNAVAILABLE, "Dependency Unavailable"),
            ErrorKind::Timeout => ("HYPERFLEET-SVC-003", "upstream-error", "Upstream Timeout"),
        };
        ProblemType { code, slug, title }
    }

    /// The whole chain of causes in one line, for the log.
    pub fn chain(&self) -> String {
        let mut text = self.detail.clone();
        let mut next = self.cause.as_deref().map(|c| c as &dyn StdError);
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|c| c as &(dyn StdError + 'static))
    }
}
