//! What is wrong with a source, and where.

use std::fmt;

/// A fault of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line in the source, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// One line, without the position.
    pub message: String,
    /// Whether it is a fault of the whole, whose position says nothing.
    whole: bool,
}

impl Fault {
    pub(crate) fn new((line, column): (usize, usize), message: &str) -> Self {
        Self { line, column, message: crate::cut(message), whole: false }
    }

    pub(crate) fn of_all(message: &str) -> Self {
        Self { whole: true, ..Self::new((1, 1), message) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.whole {
            return f.write_str(&self.message);
        }
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Fault {}

/// Line and column of a byte.
pub(crate) fn position(source: &str, at: usize) -> (usize, usize) {
    let before = source.get(..at).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}
