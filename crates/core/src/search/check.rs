//! Checks that a predicate fits the type of its field, before any store sees it. The types of spec fields are unknown
//! here, so they accept any predicate.

use std::mem::discriminant;

use super::LikePattern;
use super::error::QueryFault;
use super::tree::{Comparison, DataType, Field, Literal, Predicate};
use crate::Timestamp;

/// A literal of the query before it is typed: a text, a number or a boolean.
pub(super) struct SourceLiteral {
    pub(super) value: Literal,
    /// Its first byte in the query.
    pub(super) at: usize,
}

/// The field of a test, and its name in the query.
pub(super) struct TestedField<'a> {
    pub(super) field: Field,
    pub(super) name: &'a str,
}

impl TestedField<'_> {
    pub(super) fn compared(
        &self,
        comparison: Comparison,
        literal: SourceLiteral,
    ) -> Result<Predicate, QueryFault> {
        let at = literal.at;
        let value = self.typed(literal)?;
        if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            ordered(&value, at)?;
        }
        Ok(Predicate::Compare(comparison, value))
    }

    pub(super) fn among(&self, list: Vec<SourceLiteral>, negated: bool) -> Result<Predicate, QueryFault> {
        let values = list.into_iter().map(|literal| self.typed(literal)).collect::<Result<_, _>>()?;
        Ok(Predicate::In { values, negated })
    }

    pub(super) fn between(
        &self,
        low: SourceLiteral,
        high: SourceLiteral,
        negated: bool,
    ) -> Result<Predicate, QueryFault> {
        let (low_at, high_at) = (low.at, high.at);
        let (low, high) = (self.typed(low)?, self.typed(high)?);
        ordered(&low, low_at)?;
        if discriminant(&low) != discriminant(&high) {
            return Err(QueryFault::wrong_type(
                high_at,
                format!("expected {}, as the lower bound is", kind(&low)),
            ));
        }
        Ok(Predicate::Between { low, high, negated })
    }

    /// `operator` is where the `like` stands.
    pub(super) fn like(
        &self,
        operator: usize,
        pattern: SourceLiteral,
        ignores_case: bool,
        negated: bool,
    ) -> Result<Predicate, QueryFault> {
        if !matches!(self.field.data_type(), DataType::Text | DataType::Json) {
            let message = format!("expected another operator: {}, and `like` is for texts", self.is_a());
            return Err(QueryFault::wrong_type(operator, message));
        }
        let Literal::Text(text) = pattern.value else {
            return Err(QueryFault::wrong_type(pattern.at, "expected a pattern in quotes, as in 'prod-%'"));
        };
        let pattern = LikePattern::parse(&text);
        let pattern = if ignores_case { pattern.in_lower_case() } else { pattern };
        Ok(Predicate::Like { pattern, ignores_case, negated })
    }

    /// The literal as a value of the field's type.
    fn typed(&self, literal: SourceLiteral) -> Result<Literal, QueryFault> {
        let expected = match (self.field.data_type(), literal.value) {
            (DataType::Text, value @ Literal::Text(_))
            | (DataType::Integer, value @ Literal::Number(_))
            | (DataType::Json, value) => return Ok(value),
            (DataType::Time, Literal::Text(text)) => match time(&text) {
                Some(time) => return Ok(Literal::Time(time)),
                None => "a time such as '2026-01-31T12:00:00Z' or a date such as '2026-01-31'",
            },
            (DataType::Text, _) => "a text in quotes",
            (DataType::Integer, _) => "a number without quotes",
            (DataType::Time, _) => "a time in quotes, such as '2026-01-31T12:00:00Z'",
        };
        Err(QueryFault::wrong_type(literal.at, format!("expected {expected}: {}", self.is_a())))
    }

    fn is_a(&self) -> String {
        let kind = match self.field.data_type() {
            DataType::Text => "a text",
            DataType::Integer => "an integer",
            DataType::Time => "a time",
            DataType::Json => "any value",
        };
        format!("{} is {kind}", crate::echo(self.name))
    }
}

/// Refuses values without an order.
fn ordered(value: &Literal, at: usize) -> Result<(), QueryFault> {
    match value {
        Literal::Bool(_) => {
            Err(QueryFault::wrong_type(at, "expected a number or a text: booleans go with =, != and in only"))
        }
        _ => Ok(()),
    }
}

fn kind(value: &Literal) -> &'static str {
    match value {
        Literal::Text(_) => "a text",
        Literal::Number(_) => "a number",
        Literal::Bool(_) => "a boolean",
        Literal::Time(_) => "a time",
    }
}

/// Strictly RFC 3339, or a date for its midnight in UTC. [`Timestamp::parse`] also takes a space for the `T` and
/// a typographic minus.
fn time(text: &str) -> Option<Timestamp> {
    match text.as_bytes().get(10) {
        None => Timestamp::parse(&format!("{text}T00:00:00Z")),
        Some(b'T' | b't') if text.is_ascii() => Timestamp::parse(text),
        Some(_) => None,
    }
}
