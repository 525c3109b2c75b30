//! How database trouble is told apart: what another attempt may cure, what the caller should
//! retry later, and what is our own fault. The driver's words go to the log only.

use std::fmt;

use deadpool_postgres::TimeoutType;
use hyperfleet_core::{Error, ErrorKind};

/// A failed database operation. Cheap to copy, because one failed commit answers many callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// The driver's words, for the log.
    pub(crate) cause: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The database cannot be reached, or the connection broke.
    Unavailable,
    /// The deadline passed.
    Timeout,
    /// A conflict with another transaction: the same again may work.
    Conflict,
    /// What the committer remembered is not true any more.
    Outdated,
    /// A name was thought to be free and is not.
    NameTaken,
    /// The database refused a statement.
    Refused,
    /// A value was packed by words that are not known here. They may be in the table by now.
    UnknownDictionary,
    /// A defect of ours.
    Defect,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, cause: impl fmt::Display) -> Self {
        Self { kind, cause: cause.to_string() }
    }

    /// Whether the database itself is the trouble, so that nothing else would fare better.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self.kind, FailureKind::Unavailable | FailureKind::Timeout)
    }

    /// The label of the error metric.
    pub(crate) fn error_type(&self) -> &'static str {
        match self.kind {
            FailureKind::Unavailable => "unavailable",
            FailureKind::Timeout => "timeout",
            FailureKind::Conflict | FailureKind::NameTaken => "conflict",
            FailureKind::Outdated => "outdated",
            FailureKind::Refused => "refused",
            FailureKind::UnknownDictionary | FailureKind::Defect => "defect",
        }
    }

    /// What the caller is told.
    pub(crate) fn into_error(self) -> Error {
        let (kind, detail) = match self.kind {
            FailureKind::Unavailable => (
                ErrorKind::DependencyUnavailable,
                "The database is not reachable at the moment. Please try again later.",
            ),
            FailureKind::Timeout => (ErrorKind::Timeout, "The request could not be finished in time."),
            FailureKind::Conflict | FailureKind::Outdated | FailureKind::NameTaken | FailureKind::Refused => {
                (ErrorKind::Database, "The database could not carry out the request.")
            }
            FailureKind::UnknownDictionary | FailureKind::Defect => return Error::internal(self.cause),
        };
        Error::new(kind, detail).because(self.cause)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(FailureKind::Defect, error.chain())
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let kind = match error.code().map(tokio_postgres::error::SqlState::code) {
            // The server never judged it: a value of ours did not fit, or the connection broke.
            None if is_ours(&error) => FailureKind::Defect,
            None => FailureKind::Unavailable,
            Some("57014" | "55P03") => FailureKind::Timeout,
            Some("40001" | "40P01") => FailureKind::Conflict,
            Some(code) if is_outage(code) => FailureKind::Unavailable,
            Some(_) => FailureKind::Refused,
        };
        let mut cause = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            cause = format!("{cause}: {source}");
        }
        Self { kind, cause }
    }
}

/// Trouble on this side of the wire, which the driver tells only in words.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.contains("serializing") || text.contains("encoding message")
}

/// Connection trouble, a server that starts or stops, one without room, or one that takes no writes.
fn is_outage(code: &str) -> bool {
    code.starts_with("08") || code.starts_with("57P") || code.starts_with("53") || code == "25006"
}

impl From<deadpool_postgres::PoolError> for Failure {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            deadpool_postgres::PoolError::Timeout(TimeoutType::Wait) => {
                Self::new(FailureKind::Timeout, error)
            }
            other => Self::new(FailureKind::Unavailable, other),
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted) => {
                FailureKind::Timeout
            }
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly,
            ) => FailureKind::Unavailable,
            _ => FailureKind::Refused,
        };
        Self::new(kind, error)
    }
}
