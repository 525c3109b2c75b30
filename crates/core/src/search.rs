//! The filter language of `search=`. A query is read once into a [`Filter`], a small tree that is checked against
//! the fields of a resource and their types; memory and both stores evaluate the same tree. A caller's text never
//! becomes part of a statement or of another query.
//!
//! ```
//! use hyperfleet_core::search::{self, Options};
//!
//! let filter = search::parse("labels.environment = 'production' and generation > 1", Options::default());
//! assert!(filter.is_ok());
//!
//! let error = search::parse("nmae = 'my-cluster'", Options::default()).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "search at position 1: `nmae` is not a field: did you mean name?\n  nmae = 'my-cluster'\n  ^"
//! );
//! ```

mod check;
mod error;
mod eval;
mod fields;
mod lexer;
mod like;
mod order;
mod parser;
mod scope;
mod tree;

pub use error::SearchError;
pub use eval::{Candidate, spec_value};
pub use like::{LikePattern, Piece};
pub use order::{Direction, Order, Position, SortField, SortKey};
pub use scope::Scope;
pub use tree::{
    Comparison, ConditionPart, DataType, Field, Filter, Literal, Predicate, Segment, Test, TextColumn,
    TimeColumn,
};

use error::QueryFault;

/// The longest query, in bytes.
pub const MAX_BYTES: usize = 4096;

/// How many parentheses and `not`s may be open at once.
pub const MAX_NESTING: usize = 64;

/// How many values a list may have.
pub const MAX_LIST: usize = 1_000;

/// What the configuration has to say about the language.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether resources belong to tenants, so that `tenancy` is a field.
    pub tenancy: bool,
}

/// Reads and checks a query.
pub fn parse(query: &str, options: Options) -> Result<Filter, SearchError> {
    refuse_outright(query)
        .and_then(|()| parser::parse(query, options))
        .map_err(|query_fault| SearchError::new(query, query_fault))
}

/// Faults of the text itself: its length, and the character that PostgreSQL cannot store.
fn refuse_outright(query: &str) -> Result<(), QueryFault> {
    if query.len() > MAX_BYTES {
        let message = format!("expected at most {MAX_BYTES} bytes, not {}", query.len());
        return Err(QueryFault::too_much(query.floor_char_boundary(MAX_BYTES), MAX_BYTES, message));
    }
    match query.find('\0') {
        Some(at) => Err(QueryFault::syntax(at, "expected no character U+0000")),
        None => Ok(()),
    }
}
