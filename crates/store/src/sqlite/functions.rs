//! The functions of searches, most like those in PostgreSQL's schema. A search may call them hundreds of times for a row,
//! and SQLite checks no deadline in between. So each call checks it, and the JSON of a row is parsed once.

use std::cell::RefCell;

use hyperfleet_core::search::{ConditionPart, LikePattern, Segment, spec_value};
use hyperfleet_core::{Condition, Decimal};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, Result, ffi};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::codec::conditions;
use crate::sqlite::cancellation;
use crate::sqlite::row::parse_times;

thread_local! {
    static SPEC: RefCell<Last<Value>> = const { RefCell::new(Last(None)) };
    static CONDITIONS: RefCell<Last<Vec<Condition>>> = const { RefCell::new(Last(None)) };
}

/// Registers the functions on a connection.
pub(super) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("search_spec", 3, flags, spec)?;
    connection.create_scalar_function("search_like", 2, flags, like)?;
    connection.create_scalar_function("search_condition", 3, flags, |call| {
        condition(call, 1, 2, |_, condition, part| text(condition, part))
    })?;
    connection.create_scalar_function("search_condition_time", 4, flags, |call| {
        let refreshed = parse_times(call.get_raw(1).as_str()?).map_err(|failure| wrong(failure.chain()))?;
        condition(call, 2, 3, |index, condition, part| match part {
            ConditionPart::LastUpdatedTime => {
                Some(refreshed.get(index).copied().unwrap_or_else(|| condition.last_updated_time.micros()))
            }
            ConditionPart::LastTransitionTime => Some(condition.last_transition_time.micros()),
            _ => None,
        })
    })
}

/// Drops the parsed JSON of the last row.
pub(super) fn forget() {
    SPEC.take();
    CONDITIONS.take();
}

/// `search_spec(spec, path, wanted)`: the value at a path, if it is of the wanted type.
fn spec(call: &Context<'_>) -> Result<Option<String>> {
    in_time()?;
    let path = call.get_or_create_aux(1, |value| -> Result<Vec<Segment>> {
        let keys: Vec<String> = serde_json::from_str(value.as_str()?).map_err(wrong)?;
        Ok(keys.into_iter().map(Segment::new).collect())
    })?;
    let wanted = call.get_raw(2).as_str()?;
    let find = |spec: &Value| match (wanted, spec_value(spec, &path)) {
        ("any", Some(_)) => Some("any".to_owned()),
        ("string", Some(Value::String(text))) => Some(text.clone()),
        ("number", Some(Value::Number(number))) => {
            Decimal::parse_any(number.as_str()).map(|number| number.sort_key())
        }
        ("boolean", Some(Value::Bool(bool))) => Some(bool.to_string()),
        _ => None,
    };
    let spec = call.get_raw(0).as_str()?;
    SPEC.with_borrow_mut(|last| last.parsed(spec, json, find))
}

/// `search_like(text, pattern)`: whether a text matches a pattern, in linear time.
fn like(call: &Context<'_>) -> Result<Option<bool>> {
    in_time()?;
    let pattern = call
        .get_or_create_aux(1, |value| -> Result<LikePattern> { Ok(LikePattern::parse(value.as_str()?)) })?;
    Ok(call.get_raw(0).as_str_or_null()?.map(|text| pattern.matches(text)))
}

/// The result of `find` for the condition whose type is argument `kind`, its index, and the part in argument `part`.
fn condition<T>(
    call: &Context<'_>,
    kind: usize,
    part: usize,
    find: impl FnOnce(usize, &Condition, ConditionPart) -> Option<T>,
) -> Result<Option<T>> {
    in_time()?;
    let (kind, part) = (call.get_raw(kind).as_str()?, call.get_raw(part).as_str()?);
    let Some((_, part)) = ConditionPart::ALL.iter().find(|(name, _)| *name == part) else { return Ok(None) };
    let conditions = call.get_raw(0).as_str()?;
    CONDITIONS.with_borrow_mut(|last| {
        let parse = |text: &str| Condition::parse_all(&conditions::decode(text)).map_err(wrong);
        last.parsed(conditions, parse, |conditions| {
            let index = conditions.iter().position(|condition| condition.kind == kind)?;
            find(index, &conditions[index], *part)
        })
    })
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

/// The last parsed JSON text. All of it is compared, because SQLite may reuse the memory of a row.
#[derive(Default)]
struct Last<T>(Option<(String, T)>);

impl<T> Last<T> {
    fn parsed<F>(
        &mut self,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T>,
        find: impl FnOnce(&T) -> F,
    ) -> Result<F> {
        let last = match self.0.take().filter(|(last, _)| last == text) {
            Some(last) => last,
            None => (text.to_owned(), parse(text)?),
        };
        let found = find(&last.1);
        self.0 = Some(last);
        Ok(found)
    }
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(wrong)
}

/// An error like SQLite's own when the read that calls must end.
fn in_time() -> Result<()> {
    if cancellation::is_cancelled() {
        return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None));
    }
    Ok(())
}

fn wrong(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::UserFunctionError(error.into())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::failure::FailureKind;
    use crate::sqlite::cancellation::Cancellation;

    #[test]
    fn the_json_of_a_row_is_parsed_once() {
        let (mut last, parsed) = (Last::<Value>(None), Cell::new(0));
        let mut find = |text| {
            let parse = |text: &str| {
                parsed.set(parsed.get() + 1);
                json(text)
            };
            last.parsed(text, parse, Value::to_string).ok()
        };
        for text in ["[1]", "[1]", "[1]", "[2]", "[2]"] {
            assert_eq!(find(text).as_deref(), Some(text));
        }
        assert_eq!(parsed.get(), 2);
        assert_eq!(find("broken"), None);
        assert_eq!(find("[2]").as_deref(), Some("[2]"));
        assert_eq!(parsed.get(), 4, "nothing is kept of what is broken");
    }

    /// Of one row, so SQLite itself checks no deadline.
    #[test]
    fn a_function_ends_a_cancelled_statement() {
        let connection = Connection::open_in_memory().unwrap();
        register(&connection).unwrap();
        for call in [
            "search_spec('{}', '[\"a\"]', 'any')",
            "search_like('a', 'b')",
            "search_condition('[]', 'Ready', 'status')",
            "search_condition_time('[]', '', 'Ready', 'last_updated_time')",
        ] {
            let evaluate = || Ok(connection.query_row(&format!("select {call}"), (), |_| Ok(()))?);
            let (cancellation, caller) = Cancellation::new(Duration::from_secs(3600));
            let failure = cancellation.run(|| {
                drop(caller);
                evaluate()
            });
            assert_eq!(failure.unwrap_err().kind, FailureKind::Timeout, "{call}");
            assert!(evaluate().is_ok(), "{call}");
        }
    }
}
