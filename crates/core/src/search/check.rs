//! Whether what a query asks of a field makes sense for the field's type. A mistake is refused here, before any
//! store sees it; what a spec holds is not known here, so a spec field may be asked anything.

use std::mem::discriminant;

use super::LikePattern;
use super::error::Mistake;
use super::tree::{Comparison, DataType, Field, Literal, Predicate};
use crate::Timestamp;

/// A value as it was written: a text, a number or a boolean.
pub(super) struct Written {
    pub(super) value: Literal,
    /// Its first byte in the query.
    pub(super) at: usize,
}

/// The field that a test is about, and the words in which the query names it.
pub(super) struct Subject<'a> {
    pub(super) field: Field,
    pub(super) name: &'a str,
}

impl Subject<'_> {
    pub(super) fn compared(&self, comparison: Comparison, literal: Written) -> Result<Predicate, Mistake> {
        let at = literal.at;
        let value = self.typed(literal)?;
        if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            ordered(&value, at)?;
        }
        Ok(Predicate::Compare(comparison, value))
    }

    pub(super) fn among(&self, list: Vec<Written>, negated: bool) -> Result<Predicate, Mistake> {
        let values = list.into_iter().map(|literal| self.typed(literal)).collect::<Result<_, _>>()?;
        Ok(Predicate::In { values, negated })
    }

    pub(super) fn between(&self, low: Written, high: Written, negated: bool) -> Result<Predicate, Mistake> {
        let (low_at, high_at) = (low.at, high.at);
        let (low, high) = (self.typed(low)?, self.typed(high)?);
        ordered(&low, low_at)?;
        if discriminant(&low) != discriminant(&high) {
            return Err(Mistake::wrong_type(
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
        pattern: Written,
        ignores_case: bool,
        negated: bool,
    ) -> Result<Predicate, Mistake> {
        if !matches!(self.field.data_type(), DataType::Text | DataType::Json) {
            let message = format!("expected another operator: {}, and `like` is for texts", self.is_a());
            return Err(Mistake::wrong_type(operator, message));
        }
        let Literal::Text(text) = pattern.value else {
            return Err(Mistake::wrong_type(pattern.at, "expected a pattern in quotes, as in 'prod-%'"));
        };
        let pattern = LikePattern::parse(&text);
        let pattern = if ignores_case { pattern.in_lower_case() } else { pattern };
        Ok(Predicate::Like { pattern, ignores_case, negated })
    }

    /// The literal as a value of the field's type.
    fn typed(&self, literal: Written) -> Result<Literal, Mistake> {
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
        Err(Mistake::wrong_type(literal.at, format!("expected {expected}: {}", self.is_a())))
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

/// Refuses what has no order.
fn ordered(value: &Literal, at: usize) -> Result<(), Mistake> {
    match value {
        Literal::Bool(_) => {
            Err(Mistake::wrong_type(at, "expected a number or a text: booleans go with =, != and in only"))
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
