//! Functions on conditions and on the feedback of Maestro: the tasks that most expressions of task files have.

use crate::evaluate::{Evaluation, Stop};
use crate::functions::{Function, MAX_ARGS};
use crate::time::{SECOND, format_seconds, parse_time};
use crate::value::{Key, List, Map, Text, Value};

pub(crate) fn call<'s>(
    function: Function,
    run: &mut Evaluation<'s>,
    args: &[Value<'s>; MAX_ARGS],
) -> Result<Option<Value<'s>>, Stop> {
    let unknown = || Value::Text(Text::Given("Unknown"));
    Ok(Some(match (function, args) {
        (Function::Now, _) => Value::text(format_seconds(run.now()?)),
        (Function::TriState, [Value::Bool(yes), Value::Bool(no), ..]) => Value::Text(Text::Given(if *yes {
            "True"
        } else if *no {
            "False"
        } else {
            "Unknown"
        })),
        (Function::ConditionStatus, [conditions, Value::Text(kind), ..]) => {
            let found = find(run, conditions, "type", kind)?;
            found.and_then(|found| status(&found)).map_or_else(unknown, Value::Text)
        }
        (Function::ConditionAge, [conditions, Value::Text(kind), ..]) => {
            let found = find(run, conditions, "type", kind)?;
            let age = match found {
                Some(found) => age(run, &found)?,
                None => None,
            };
            Value::Int(age.map_or(-1, |age| age / SECOND))
        }
        (Function::StableFor, [conditions, Value::Text(kind), least, _]) => {
            let least = match (least, least.number()) {
                (Value::Span(span), _) => *span as f64,
                (_, Some(number)) => number.real() * SECOND as f64,
                _ => return Ok(None),
            };
            let Some(found) = find(run, conditions, "type", kind)? else {
                return Ok(Some(Value::Bool(false)));
            };
            let holds = status(&found).is_some_and(|status| &*status == "True");
            Value::Bool(holds && age(run, &found)?.is_some_and(|age| age as f64 >= least))
        }
        (Function::StatusFeedbackValue, [feedback, Value::Text(name), ..]) => {
            let values = match feedback {
                Value::Map(map) => member(map, "values").unwrap_or(Value::Null),
                other => other.clone(),
            };
            let held = find(run, &values, "name", name)?.and_then(|found| member(&found, "fieldValue"));
            match held
                .and_then(|held| if let Value::Map(held) = held { member(&held, "string") } else { None })
            {
                Some(text @ Value::Text(_)) => text,
                _ => Value::Text(Text::Given("")),
            }
        }
        _ => return Ok(None),
    }))
}

/// The first object of a list with this text in this member. What is no list has none.
fn find<'s>(
    run: &mut Evaluation<'s>,
    list: &Value<'s>,
    name: &'static str,
    text: &str,
) -> Result<Option<Map<'s>>, Stop> {
    let none = List::Made([].into());
    let list = match list {
        Value::List(list) => list,
        Value::Optional(Some(held)) if let Value::List(list) = &**held => list,
        _ => &none,
    };
    for item in list.iter() {
        run.spend(2)?;
        if let Value::Map(map) = item
            && let Some(Value::Text(held)) = member(&map, name)
        {
            run.spend_text(held.len().min(text.len()))?;
            if &*held == text {
                return Ok(Some(map));
            }
        }
    }
    Ok(None)
}

fn member<'s>(map: &Map<'s>, name: &'static str) -> Option<Value<'s>> {
    map.get(&Key::Text(Text::Given(name)))
}

fn status<'s>(condition: &Map<'s>) -> Option<Text<'s>> {
    if let Some(Value::Text(status)) = member(condition, "status") { Some(status) } else { None }
}

/// How long ago the condition changed, in microseconds; one that is to change in the future has just changed.
fn age<'s>(run: &Evaluation<'s>, condition: &Map<'s>) -> Result<Option<i64>, Stop> {
    let now = run.now()?;
    let since = member(condition, "last_transition_time").or_else(|| member(condition, "lastTransitionTime"));
    let since = match since {
        Some(Value::Text(text)) => parse_time(&text),
        Some(Value::Time(time)) => Some(time),
        _ => None,
    };
    Ok(since.map(|since| now.saturating_sub(since).max(0)))
}
