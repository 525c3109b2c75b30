//! What SQLite lacks for searches, as functions: most with the names and the meaning of those in
//! PostgreSQL's schema.

use hyperfleet_core::search::{ConditionPart, LikePattern, Segment, spec_value};
use hyperfleet_core::{Condition, Decimal};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::facets::Facet;
use crate::shorthand;
use crate::sqlite::row::parse_times;

/// Makes them known to a connection.
pub(super) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("search_spec", 3, flags, spec)?;
    connection.create_scalar_function("search_like", 2, flags, like)?;
    connection.create_scalar_function("search_condition", 3, flags, |call| {
        condition(call, 1, 2).map(|found| found.and_then(|(_, condition, part)| text(&condition, part)))
    })?;
    connection.create_scalar_function("search_condition_time", 4, flags, |call| {
        let Some((index, condition, part)) = condition(call, 2, 3)? else { return Ok(None) };
        let refreshed = parse_times(call.get_raw(1).as_str()?).map_err(|failure| wrong(failure.cause))?;
        Ok(match part {
            ConditionPart::LastUpdatedTime => {
                Some(refreshed.get(index).copied().unwrap_or_else(|| condition.last_updated_time.micros()))
            }
            ConditionPart::LastTransitionTime => Some(condition.last_transition_time.micros()),
            _ => None,
        })
    })
}

/// The one that fills the table of facets when it is new.
pub(super) fn register_facet(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("facet", 4, flags, |call| {
        let text = |index| call.get_raw(index).as_str();
        Ok(Facet::of(text(0)?, text(1)?, text(2)?, text(3)?).bytes())
    })
}

/// `search_spec(spec, path, wanted)`: the value at a path, if it is of the wanted type.
fn spec(call: &Context<'_>) -> Result<Option<String>> {
    let spec: Value = json(call, 0)?;
    let path = call.get_or_create_aux(1, |value| -> Result<Vec<Segment>> {
        let keys: Vec<String> = serde_json::from_str(value.as_str()?).map_err(wrong)?;
        Ok(keys.into_iter().map(Segment::new).collect())
    })?;
    Ok(match (call.get_raw(2).as_str()?, spec_value(&spec, &path)) {
        ("any", Some(_)) => Some("any".to_owned()),
        ("string", Some(Value::String(text))) => Some(text.clone()),
        ("number", Some(Value::Number(number))) => {
            Decimal::parse_any(number.as_str()).map(|number| number.sort_key())
        }
        ("boolean", Some(Value::Bool(bool))) => Some(bool.to_string()),
        _ => None,
    })
}

/// `search_like(text, pattern)`: whether a text fits, in a time that no pattern can make long.
fn like(call: &Context<'_>) -> Result<Option<bool>> {
    let pattern = call
        .get_or_create_aux(1, |value| -> Result<LikePattern> { Ok(LikePattern::parse(value.as_str()?)) })?;
    Ok(call.get_raw(0).as_str_or_null()?.map(|text| pattern.matches(text)))
}

/// The condition whose type is argument `kind`, its place among all, and the part that argument `part` names.
fn condition(
    call: &Context<'_>,
    kind: usize,
    part: usize,
) -> Result<Option<(usize, Condition, ConditionPart)>> {
    let conditions: Vec<Condition> =
        serde_json::from_str(&shorthand::in_full(call.get_raw(0).as_str()?)).map_err(wrong)?;
    let (kind, part) = (call.get_raw(kind).as_str()?, call.get_raw(part).as_str()?);
    let part = ConditionPart::ALL.iter().find(|(name, _)| *name == part).map(|(_, part)| *part);
    let found = conditions.into_iter().enumerate().find(|(_, condition)| condition.kind == kind);
    Ok(found.zip(part).map(|((index, condition), part)| (index, condition, part)))
}

fn text(condition: &Condition, part: ConditionPart) -> Option<String> {
    match part {
        ConditionPart::Status => Some(condition.status.name().to_owned()),
        ConditionPart::Reason => Some(condition.reason.clone()),
        ConditionPart::Message => Some(condition.message.clone()),
        ConditionPart::ObservedGeneration => Some(condition.observed_generation.to_string()),
        ConditionPart::LastUpdatedTime | ConditionPart::LastTransitionTime => None,
    }
}

fn json<T: DeserializeOwned>(call: &Context<'_>, index: usize) -> Result<T> {
    serde_json::from_str(call.get_raw(index).as_str()?).map_err(wrong)
}

fn wrong(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::UserFunctionError(error.into())
}
