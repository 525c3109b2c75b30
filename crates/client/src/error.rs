//! Errors, by what the caller can do about them. A refusal without a problem body (of a proxy or an older server) becomes a
//! [`Problem`] by its status.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};

use crate::response::Response;
use crate::server_clock;

/// The longest text that is taken over from an answer.
const MAX_TEXT: usize = 4096;

/// The error below an error, or a text. Clones share it.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server refused.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No connection, or it broke.
    #[error("{url} cannot be reached: {}", causes(source))]
    Unreachable {
        /// Method and URL of the request.
        url: String,
        /// The cause.
        source: Cause,
    },
    /// No whole answer in time.
    #[error("{url} gave no answer within {after:?}")]
    TimedOut {
        /// Method and URL of the request.
        url: String,
        /// The timeout.
        after: Duration,
    },
    /// An answer that the API does not give.
    #[error("{url} answered with something else than the API does: {}", causes(source))]
    Malformed {
        /// Method and URL of the request.
        url: String,
        /// The fault of the answer.
        source: Cause,
    },
    /// The server has no watches.
    #[error("the server does not know watches")]
    NoWatch,
    /// The request could not be put together.
    #[error("{0}")]
    Invalid(String),
    /// The settings are invalid.
    #[error("{0}")]
    Configuration(String),
}

impl Error {
    /// A server that cannot be reached.
    pub fn unreachable(
        url: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unreachable { url: url.into(), source: Arc::from(source.into()) }
    }

    /// An answer that the API does not give.
    pub(crate) fn malformed(
        url: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Malformed { url: url.into(), source: Arc::from(source.into()) }
    }

    /// The problem, if the server refused.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The status of the answer, if the server refused.
    pub fn status(&self) -> Option<u16> {
        self.problem().map(|problem| problem.status)
    }

    /// There is no such resource or route.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// A conflict with the current state: a taken name, a newer version, a running deletion.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// Not logged in, or not allowed.
    pub fn is_denied(&self) -> bool {
        matches!(self.status(), Some(401 | 403))
    }

    /// The same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Problem(problem) => matches!(problem.status, 408 | 429 | 500..),
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Malformed { .. } | Self::NoWatch | Self::Invalid(_) | Self::Configuration(_) => false,
        }
    }

    /// The fault of TLS that kept the client from a connection.
    pub fn tls(&self) -> Option<&rustls::Error> {
        let Self::Unreachable { source, .. } = self else { return None };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**source);
        while let Some(error) = cause {
            // An I/O error passes over the error that it holds when it is asked for its source.
            let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            let tls = held.map_or_else(|| error.downcast_ref(), |held| held.downcast_ref());
            if tls.is_some() {
                return tls;
            }
            cause = error.source();
        }
        None
    }

    /// The server's `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem().and_then(|problem| problem.retry_after)
    }
}

/// An error with its causes, innermost last, without repetitions.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

/// A refusal, as the server explained it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Such as `HYPERFLEET-CNF-002`; empty if the answer had none.
    pub code: String,
    /// The title of the problem.
    pub title: String,
    /// The detail of the problem, in a sentence.
    pub detail: String,
    /// Every fault, for validation.
    pub errors: Vec<FieldError>,
    /// The trace id, by which the server's log is searched.
    pub trace_id: Option<String>,
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The current version.
    pub actual_version: Option<u64>,
    /// The problem body as it came.
    pub body: Map<String, Value>,
}

/// One fault of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldError {
    /// A path in the body, or the name of a parameter.
    pub field: String,
    /// The message.
    pub message: String,
    /// The rule that it breaks.
    pub constraint: Option<String>,
    /// The value in the request.
    pub value: Option<Value>,
}

impl Problem {
    /// The problem of an answer that is no success.
    pub(crate) fn of(answer: &Response) -> Self {
        let body = match serde_json::from_slice(&answer.body) {
            Ok(Value::Object(body)) => body,
            _ => Map::new(),
        };
        let text = |member: &str| body.get(member).and_then(Value::as_str).map(printable);
        let number = |member: &str| body.get(member).and_then(Value::as_u64);
        let reason = answer.status.canonical_reason().unwrap_or("Unknown Status");
        let errors = body.get("errors").and_then(Value::as_array).into_iter().flatten();
        Self {
            status: answer.status.as_u16(),
            code: text("code").unwrap_or_default(),
            title: text("title").unwrap_or_else(|| reason.to_owned()),
            // `reason` is where servers before problem bodies put the sentence.
            detail: text("detail").or_else(|| text("reason")).unwrap_or_default(),
            errors: errors.map(FieldError::of).collect(),
            trace_id: text("trace_id").or_else(|| answer.header("x-request-id").map(printable)),
            retry_after: retry_after(answer).or_else(|| number("retry_after").map(Duration::from_secs)),
            actual_version: number("actual_version"),
            body,
        }
    }

    /// Whether a fault concerns this field.
    pub(crate) fn concerns(&self, field: &str) -> bool {
        self.errors.iter().any(|error| error.field == field)
    }
}

impl FieldError {
    fn of(value: &Value) -> Self {
        let text = |member: &str| value.get(member).and_then(Value::as_str).map(printable);
        Self {
            field: text("field").unwrap_or_default(),
            message: text("message").unwrap_or_default(),
            constraint: text("constraint"),
            value: value.get("value").cloned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.title)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if !self.code.is_empty() {
            write!(f, " ({})", self.code)?;
        }
        for error in self.errors.iter().filter(|error| error.message != self.detail) {
            write!(f, "; {}: {}", error.field, error.message)?;
        }
        Ok(())
    }
}

/// `Retry-After`, in either of its forms.
pub(crate) fn retry_after(answer: &Response) -> Option<Duration> {
    let text = answer.header("retry-after")?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = server_clock::parse(text)?;
    let now = answer.header("date").and_then(server_clock::parse).unwrap_or_else(Timestamp::now);
    // A time that has passed means now.
    Some((at.utc() - now.utc()).to_std().unwrap_or_default())
}

/// Untrusted text made safe for a terminal: bounded, without control characters. A fault of a search spans lines.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\n').take(MAX_TEXT).collect()
}
