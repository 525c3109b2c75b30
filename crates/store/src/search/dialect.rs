//! The differences between the SQL of both stores, and the values that are bound to a statement.

use hyperfleet_core::search::{LikePattern, Piece};
use hyperfleet_core::{ResourceId, Timestamp};

use crate::write::facets::Facet;

/// The SQL of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    Sqlite,
}

/// A value to bind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Integer(i64),
    Integers(Vec<i64>),
    Time(Timestamp),
    Id(ResourceId),
    Ids(Vec<ResourceId>),
    Facet(Facet),
}

impl Dialect {
    /// The placeholder of the value with this number, from 1.
    pub(super) fn placeholder(self, number: usize) -> String {
        match self {
            Self::Postgres => format!("${number}"),
            Self::Sqlite => format!("?{number}"),
        }
    }

    /// An id as text.
    pub(super) fn id_text(self, column: &str) -> String {
        match self {
            Self::Postgres => format!("({column}::text collate \"C\")"),
            Self::Sqlite => column.to_owned(),
        }
    }

    /// A text that does not come from a column, compared by code point.
    pub(super) fn by_code_point(self, text: &str) -> String {
        match self {
            Self::Postgres => format!("({text} collate \"C\")"),
            Self::Sqlite => format!("({text})"),
        }
    }

    /// The text in a JSON column whose key is bound at `key`.
    pub(super) fn member(self, column: &str, key: &str) -> String {
        match self {
            Self::Postgres => self.by_code_point(&format!("{column}::json ->> {key}::text")),
            Self::Sqlite => format!("({column} ->> {key})"),
        }
    }

    /// Whether `expression` is one of the list that is bound at `list`.
    pub(super) fn is_one_of(self, expression: &str, list: &str) -> String {
        match self {
            Self::Postgres => format!("{expression} = any({list})"),
            Self::Sqlite => format!("{expression} in (select value from json_each({list}))"),
        }
    }

    /// Whether the text fits the pattern that is bound at `pattern`.
    pub(super) fn fits(self, text: &str, pattern: &str) -> String {
        match self {
            Self::Postgres => format!("{text} like {pattern}"),
            // SQLite's own `like` ignores case, and neither it nor `glob` can be interrupted.
            Self::Sqlite => format!("search_like({text}, {pattern})"),
        }
    }

    /// A pattern as [`Self::fits`] takes it.
    pub(super) fn pattern(self, pattern: &LikePattern) -> String {
        if self == Self::Sqlite {
            return pattern.to_string();
        }
        let mut printed = String::new();
        for piece in pattern.pieces() {
            match piece {
                Piece::AnyRun => printed.push('%'),
                Piece::AnyOne => printed.push('_'),
                Piece::Text(text) => {
                    for c in text.chars() {
                        if matches!(c, '%' | '_' | '\\') {
                            printed.push('\\');
                        }
                        printed.push(c);
                    }
                }
            }
        }
        printed
    }
}
