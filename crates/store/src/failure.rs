//! Failures of the database by what they mean: what another attempt may cure, what the caller should retry later, and what
//! is a defect. Their sources go to the log only.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use deadpool_postgres::TimeoutType;
use hyperfleet_core::{Error, ErrorKind};
use tokio_postgres::types::{WasNull, WrongType};

/// A failed operation of the store. Cheap to clone, because one failed commit answers many callers.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    source: Arc<dyn StdError + Send + Sync>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The database cannot be reached, or the connection broke.
    Unavailable,
    /// The deadline passed.
    Timeout,
    /// A conflict with another transaction: the same again may work.
    Conflict,
    /// The pages of a SQLite file are damaged.
    Damaged,
    /// The database refused a statement.
    Refused,
    /// A defect of ours.
    Defect,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind, source: Arc::from(source.into()) }
    }

    /// The messages of all sources, for the log.
    pub(crate) fn chain(&self) -> String {
        let mut chain = self.to_string();
        let mut next = self.source.source();
        while let Some(source) = next {
            chain = format!("{chain}: {source}");
            next = source.source();
        }
        chain
    }

    /// Whether the database itself is in trouble, so that no other command would succeed.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self.kind, FailureKind::Unavailable | FailureKind::Timeout | FailureKind::Damaged)
    }

    /// The label of the error metric.
    pub(crate) fn error_type(&self) -> &'static str {
        match self.kind {
            FailureKind::Unavailable => "unavailable",
            FailureKind::Timeout => "timeout",
            FailureKind::Conflict => "conflict",
            FailureKind::Damaged => "damaged",
            FailureKind::Refused => "refused",
            FailureKind::Defect => "defect",
        }
    }

    /// The error for the caller.
    pub(crate) fn into_error(self) -> Error {
        let (kind, detail) = match self.kind {
            FailureKind::Unavailable => (
                ErrorKind::DependencyUnavailable,
                "The database is not reachable at the moment. Please try again later.",
            ),
            FailureKind::Timeout => (ErrorKind::Timeout, "The request could not be finished in time."),
            FailureKind::Damaged => (
                ErrorKind::DependencyUnavailable,
                "The database file is damaged, so nothing is written to it. `hyperfleet verify` names what is damaged.",
            ),
            FailureKind::Conflict => (
                ErrorKind::DependencyUnavailable,
                "The database could not carry out the request at the moment. Please try again later.",
            ),
            FailureKind::Refused => (ErrorKind::Database, "The database could not carry out the request."),
            FailureKind::Defect => return Error::internal(self),
        };
        Error::new(kind, detail).because(self)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(FailureKind::Defect, error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let kind = match error.code().map(tokio_postgres::error::SqlState::code) {
            // The server never judged it.
            None if is_defect(&error) => FailureKind::Defect,
            None => FailureKind::Unavailable,
            Some("57014" | "55P03") => FailureKind::Timeout,
            Some("40001" | "40P01") => FailureKind::Conflict,
            Some(code) if is_outage(code) => FailureKind::Unavailable,
            Some(_) => FailureKind::Refused,
        };
        Self::new(kind, error)
    }
}

/// A value that does not fit its column or a message, as opposed to a broken connection.
fn is_defect(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| {
        let unencodable = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
        source.is::<WrongType>()
            || source.is::<WasNull>()
            || source.downcast_ref::<io::Error>().is_some_and(unencodable)
    })
}

/// A broken connection, or a server that starts, stops, has no free connections or disk space, takes no writes, or has ended
/// the transaction of an idle replica.
fn is_outage(code: &str) -> bool {
    ["08", "57P", "53"].iter().any(|class| code.starts_with(class)) || ["25006", "25P03"].contains(&code)
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
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
        };
        use rusqlite::ErrorCode;
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => FailureKind::Damaged,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted) => {
                FailureKind::Timeout
            }
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly,
            ) => FailureKind::Unavailable,
            // A value that does not fit its column: the row was not written by us.
            None if matches!(
                error,
                FromSqlConversionFailure(..)
                    | IntegralValueOutOfRange(..)
                    | InvalidColumnType(..)
                    | Utf8Error(..)
            ) =>
            {
                FailureKind::Defect
            }
            _ => FailureKind::Refused,
        };
        Self::new(kind, error)
    }
}

/// A row of several that was read. One that cannot be read is left out, so that it fails nothing but itself.
pub(crate) fn readable<T>(
    row: impl fmt::Display,
    found: Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    match found {
        Err(failure) if failure.kind == FailureKind::Defect => {
            tracing::error!(
                resource_id = %row,
                error = failure.chain(),
                "a row cannot be read and is left out; `hyperfleet verify` names what is damaged"
            );
            Ok(None)
        }
        other => other,
    }
}
