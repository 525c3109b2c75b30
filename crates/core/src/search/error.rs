//! The error of a query: the position, what was expected there, and the part of the query around it with a caret.

use std::fmt;

use crate::{Error, ErrorKind, Fault, FaultKind};

/// How many characters of the query are shown on either side of the position.
const SHOWN: usize = 40;

/// A fault of the query, found by the parser.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueryFault {
    /// The position, in bytes from the start of the query.
    at: usize,
    rule: &'static str,
    message: String,
    allowed: Vec<&'static str>,
    limit: Option<usize>,
}

impl QueryFault {
    /// A violation of the grammar.
    pub(super) fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { at, rule: "format", message: message.into(), allowed: Vec::new(), limit: None }
    }

    /// A value or an operator that does not fit the type of its field.
    pub(super) fn wrong_type(at: usize, message: impl Into<String>) -> Self {
        Self { rule: "type", ..Self::syntax(at, message) }
    }

    /// An unknown name, with the known ones.
    pub(super) fn unknown(at: usize, message: impl Into<String>, known: Vec<&'static str>) -> Self {
        Self { rule: "unknown", allowed: known, ..Self::syntax(at, message) }
    }

    /// More of something than the limit.
    pub(super) fn too_much(at: usize, limit: usize, message: impl Into<String>) -> Self {
        Self { rule: "max", limit: Some(limit), ..Self::syntax(at, message) }
    }
}

/// The first fault of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchError {
    position: usize,
    fault: Box<Fault>,
    excerpt: String,
}

impl SearchError {
    pub(super) fn new(query: &str, query_fault: QueryFault) -> Self {
        let before = query[..query_fault.at].chars().count();
        let position = before + 1;
        let message = format!("search at position {position}: {}", query_fault.message);
        let fault = Fault::new(FaultKind::Parameter, "search", message)
            .rule(query_fault.rule)
            .given(&query.into())
            .allowed(query_fault.allowed)
            .bounds(None, query_fault.limit.map(|limit| limit as u64));
        Self { position, fault: Box::new(fault), excerpt: excerpt(query, before) }
    }

    /// The position in characters from 1; after the last character where the query ends too early.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The fault of the parameter, for a response that lists others beside it.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.fault.message, self.excerpt)
    }
}

impl std::error::Error for SearchError {}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string()).with_faults(vec![*error.fault])
    }
}

/// The part of the query around a character, and a line with a caret under it. A character takes one column
/// in both, so what moves the column, such as a tab, is shown as a space.
fn excerpt(query: &str, position: usize) -> String {
    let from = position.saturating_sub(SHOWN);
    let cut_before = if from > 0 { "…" } else { "" };
    let mut chars = query.chars().skip(from).map(|c| if c.is_control() { ' ' } else { c });
    let shown: String = chars.by_ref().take(position - from + SHOWN).collect();
    let cut_behind = if chars.next().is_some() { "…" } else { "" };
    let column = cut_before.chars().count() + position - from;
    format!("  {cut_before}{shown}{cut_behind}\n  {}^", " ".repeat(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_position() {
        assert_eq!(excerpt("name = foo", 7), "  name = foo\n         ^");
        assert_eq!(excerpt("näme\t= ", 7), "  näme = \n         ^");
        assert_eq!(excerpt("", 0), "  \n  ^");
    }

    #[test]
    fn a_long_query_is_cut_around_the_position() {
        let query = format!("{}!{}", "a".repeat(100), "b".repeat(100));
        let expected = format!("  …{}!{}…\n  {}^", "a".repeat(40), "b".repeat(39), " ".repeat(41));
        assert_eq!(excerpt(&query, 100), expected);
    }
}
