//! The error of the domain. It holds a message for the caller apart from the cause, which only the log shows.

use std::error::Error as StdError;
use std::fmt;

use serde_json::Value;

use crate::{Fault, FaultKind, ResourceId, Version, echo};

/// What went wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorKind {
    /// The request breaks rules; the faults say which.
    Invalid,
    /// The request is well-formed but breaks a business rule.
    Unprocessable,
    /// History has been pruned past the requested version.
    HistoryExpired,
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
    /// The caller's tenant is unknown, or the caller may only report.
    PermissionDenied,
    /// The caller's roles do not cover this resource.
    ResourceDenied,
    /// The caller's roles do not cover this verb.
    ActionDenied,
    /// A defect of the service.
    Internal,
    /// The database refused a statement.
    Database,
    /// A queue is full, or the process is stopping.
    Overloaded,
    /// A dependency, such as the database, cannot be reached.
    DependencyUnavailable,
    /// The request's deadline passed.
    Timeout,
}

/// An error of the domain.
#[derive(Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// A sentence for the caller, without internals.
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

    /// A defect of the service; the cause goes to the log alone.
    pub fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Internal, "An unexpected error occurred. Please try again later.").because(cause)
    }

    /// No resource of `kind` has `id`.
    pub fn not_found(kind: &str, id: &str) -> Self {
        Self::new(ErrorKind::NotFound { kind: kind.to_owned() }, format!("{kind} '{}' not found", echo(id)))
    }

    /// The resource's state does not allow it.
    pub(crate) fn state_conflict(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::StateConflict, detail)
    }

    /// The name is taken by `holder`.
    pub(crate) fn name_taken(kind: &str, name: &str, holder: Option<ResourceId>) -> Self {
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

    /// Whether a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, ErrorKind::Overloaded | ErrorKind::DependencyUnavailable | ErrorKind::Timeout)
    }

    /// The documented code, which identifies the kind of error in every message and log line.
    pub fn code(&self) -> &'static str {
        match &self.kind {
            ErrorKind::Invalid => match self.faults.as_slice() {
                [only] => match only.kind {
                    FaultKind::Missing => "HYPERFLEET-VAL-001",
                    FaultKind::Value => "HYPERFLEET-VAL-002",
                    FaultKind::Shape => "HYPERFLEET-VAL-003",
                    FaultKind::Parameter => "HYPERFLEET-VAL-004",
                    FaultKind::Identifier => "HYPERFLEET-VAL-005",
                },
                _ => "HYPERFLEET-VAL-000",
            },
            ErrorKind::Unprocessable => "HYPERFLEET-VAL-002",
            ErrorKind::HistoryExpired => "HYPERFLEET-VAL-004",
            ErrorKind::NotFound { kind } => match kind.as_str() {
                "Cluster" => "HYPERFLEET-NTF-002",
                "NodePool" => "HYPERFLEET-NTF-003",
                _ => "HYPERFLEET-NTF-001",
            },
            ErrorKind::AlreadyExists => "HYPERFLEET-CNF-001",
            ErrorKind::VersionConflict { .. } => "HYPERFLEET-CNF-002",
            ErrorKind::StateConflict => "HYPERFLEET-CNF-003",
            ErrorKind::PermissionDenied => "HYPERFLEET-AUZ-001",
            ErrorKind::ResourceDenied => "HYPERFLEET-AUZ-002",
            ErrorKind::ActionDenied => "HYPERFLEET-AUZ-003",
            ErrorKind::Internal => "HYPERFLEET-INT-001",
            ErrorKind::Database => "HYPERFLEET-INT-002",
            ErrorKind::Overloaded => "HYPERFLEET-SVC-001",
            ErrorKind::DependencyUnavailable => "HYPERFLEET-SVC-002",
            ErrorKind::Timeout => "HYPERFLEET-SVC-003",
        }
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
