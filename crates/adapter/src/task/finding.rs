//! What is wrong with a task, where, and how much it matters.

use std::fmt;
use std::sync::Arc;

use super::yaml::Position;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The task does not run.
    Error,
    /// The task runs, and does something else than it seems to.
    Warning,
    /// The task runs as it would under the Go adapter, or better.
    Note,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: Arc<str>,
    /// Where in it.
    pub at: Position,
    /// How much it matters.
    pub severity: Severity,
    /// Its group and number, such as `A101`.
    pub code: &'static str,
    /// What is wrong and what to do, in one line.
    pub message: String,
}

impl Severity {
    /// The word in front of a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, at, severity, code, message } = self;
        write!(f, "{file}:{}:{}: {}[{code}] {message}", at.line, at.column, severity.name())
    }
}
