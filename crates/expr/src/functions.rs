//! The functions that expressions may call, besides the macros: their signatures and what they do.

use std::fmt::Write;

use crate::evaluate::{Evaluation, Stop};
use crate::value::{Key, List, Map, Text, Value};
use crate::{conditions, lists, strings, time};

/// Most values that a function takes, its receiver counted.
pub(crate) const MAX_ARGS: usize = 4;

/// A function, a receiver being the first of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Bool,
    CharAt,
    ConditionAge,
    ConditionStatus,
    Contains,
    Dig,
    Distinct,
    Double,
    Duration,
    Dyn,
    EndsWith,
    First,
    Flatten,
    Format,
    HasValue,
    IndexOf,
    Int,
    Join,
    Last,
    LastIndexOf,
    LowerAscii,
    Now,
    OptionalNone,
    OptionalOf,
    OptionalOfNonZero,
    Part(time::Part),
    Quote,
    Range,
    Replace,
    Reverse,
    Size,
    Slice,
    Sort,
    Split,
    StableFor,
    StartsWith,
    StatusFeedbackValue,
    String,
    Substring,
    Timestamp,
    ToJson,
    TriState,
    Trim,
    Type,
    UInt,
    UpperAscii,
    Value,
}

/// Whether a function stands alone, `size(x)`, or is called on a value, `x.size()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Global,
    Member,
}

/// Every function with its style and the number of its values, a receiver counted.
pub(crate) const FUNCTIONS: [(&str, Style, usize, Function); 74] = [
    ("bool", Style::Global, 1, Function::Bool),
    ("charAt", Style::Member, 2, Function::CharAt),
    ("conditionAge", Style::Global, 2, Function::ConditionAge),
    ("conditionStatus", Style::Global, 2, Function::ConditionStatus),
    ("contains", Style::Member, 2, Function::Contains),
    ("dig", Style::Global, 2, Function::Dig),
    ("distinct", Style::Member, 1, Function::Distinct),
    ("double", Style::Global, 1, Function::Double),
    ("duration", Style::Global, 1, Function::Duration),
    ("dyn", Style::Global, 1, Function::Dyn),
    ("endsWith", Style::Member, 2, Function::EndsWith),
    ("first", Style::Member, 1, Function::First),
    ("flatten", Style::Member, 1, Function::Flatten),
    ("flatten", Style::Member, 2, Function::Flatten),
    ("format", Style::Member, 2, Function::Format),
    ("getDate", Style::Member, 1, Function::Part(time::Part::Date)),
    ("getDate", Style::Member, 2, Function::Part(time::Part::Date)),
    ("getDayOfMonth", Style::Member, 1, Function::Part(time::Part::DayOfMonth)),
    ("getDayOfMonth", Style::Member, 2, Function::Part(time::Part::DayOfMonth)),
    ("getDayOfWeek", Style::Member, 1, Function::Part(time::Part::DayOfWeek)),
    ("getDayOfWeek", Style::Member, 2, Function::Part(time::Part::DayOfWeek)),
    ("getDayOfYear", Style::Member, 1, Function::Part(time::Part::DayOfYear)),
    ("getDayOfYear", Style::Member, 2, Function::Part(time::Part::DayOfYear)),
    ("getFullYear", Style::Member, 1, Function::Part(time::Part::FullYear)),
    ("getFullYear", Style::Member, 2, Function::Part(time::Part::FullYear)),
    ("getHours", Style::Member, 1, Function::Part(time::Part::Hours)),
    ("getHours", Style::Member, 2, Function::Part(time::Part::Hours)),
    ("getMilliseconds", Style::Member, 1, Function::Part(time::Part::Milliseconds)),
    ("getMilliseconds", Style::Member, 2, Function::Part(time::Part::Milliseconds)),
    ("getMinutes", Style::Member, 1, Function::Part(time::Part::Minutes)),
    ("getMinutes", Style::Member, 2, Function::Part(time::Part::Minutes)),
    ("getMonth", Style::Member, 1, Function::Part(time::Part::Month)),
    ("getMonth", Style::Member, 2, Function::Part(time::Part::Month)),
    ("getSeconds", Style::Member, 1, Function::Part(time::Part::Seconds)),
    ("getSeconds", Style::Member, 2, Function::Part(time::Part::Seconds)),
    ("hasValue", Style::Member, 1, Function::HasValue),
    ("indexOf", Style::Member, 2, Function::IndexOf),
    ("indexOf", Style::Member, 3, Function::IndexOf),
    ("int", Style::Global, 1, Function::Int),
    ("join", Style::Member, 1, Function::Join),
    ("join", Style::Member, 2, Function::Join),
    ("last", Style::Member, 1, Function::Last),
    ("lastIndexOf", Style::Member, 2, Function::LastIndexOf),
    ("lastIndexOf", Style::Member, 3, Function::LastIndexOf),
    ("lists.range", Style::Global, 1, Function::Range),
    ("lowerAscii", Style::Member, 1, Function::LowerAscii),
    ("now", Style::Global, 0, Function::Now),
    ("optional.none", Style::Global, 0, Function::OptionalNone),
    ("optional.of", Style::Global, 1, Function::OptionalOf),
    ("optional.ofNonZeroValue", Style::Global, 1, Function::OptionalOfNonZero),
    ("replace", Style::Member, 3, Function::Replace),
    ("replace", Style::Member, 4, Function::Replace),
    ("reverse", Style::Member, 1, Function::Reverse),
    ("size", Style::Global, 1, Function::Size),
    ("size", Style::Member, 1, Function::Size),
    ("slice", Style::Member, 3, Function::Slice),
    ("sort", Style::Member, 1, Function::Sort),
    ("split", Style::Member, 2, Function::Split),
    ("split", Style::Member, 3, Function::Split),
    ("stableFor", Style::Global, 3, Function::StableFor),
    ("startsWith", Style::Member, 2, Function::StartsWith),
    ("statusFeedbackValue", Style::Global, 2, Function::StatusFeedbackValue),
    ("string", Style::Global, 1, Function::String),
    ("strings.quote", Style::Global, 1, Function::Quote),
    ("substring", Style::Member, 2, Function::Substring),
    ("substring", Style::Member, 3, Function::Substring),
    ("timestamp", Style::Global, 1, Function::Timestamp),
    ("toJson", Style::Global, 1, Function::ToJson),
    ("triState", Style::Global, 2, Function::TriState),
    ("trim", Style::Member, 1, Function::Trim),
    ("type", Style::Global, 1, Function::Type),
    ("uint", Style::Global, 1, Function::UInt),
    ("upperAscii", Style::Member, 1, Function::UpperAscii),
    ("value", Style::Member, 1, Function::Value),
];

impl Function {
    pub(crate) fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(_, _, _, function)| *function == self).map_or("", |(name, ..)| name)
    }

    /// Whether its value depends on when it is called.
    pub(crate) fn needs_clock(self) -> bool {
        matches!(self, Self::Now | Self::ConditionAge | Self::StableFor)
    }

    /// Calls it with so many values; the others are null.
    pub(crate) fn call<'s>(
        self,
        run: &mut Evaluation<'s>,
        args: [Value<'s>; MAX_ARGS],
        given: usize,
    ) -> Result<Value<'s>, Stop> {
        for library in [strings::call, lists::call, conditions::call, time::call] {
            if let Some(value) = library(self, run, &args)? {
                return Ok(value);
            }
        }
        let kinds = args.each_ref().map(Value::kind);
        let [a, b, ..] = args;
        Ok(match (self, a, b) {
            (Self::Dyn, a, _) => a,
            (Self::Type, a, _) => Value::Type(a.kind()),
            (Self::ToJson, a, _) => {
                let mut json = String::new();
                write_json(run, &a, &mut json, 0)?;
                Value::text(json)
            }
            (Self::Dig, a, Value::Text(path)) => {
                run.spend_keys(path.len())?;
                dig(a, &path)
            }
            (Self::Size, Value::Text(text), _) => {
                run.spend_text(text.len())?;
                Value::Int(text.chars().count() as i64)
            }
            (Self::Size, Value::List(list), _) => Value::Int(list.len() as i64),
            (Self::Size, Value::Map(map), _) => Value::Int(map.len() as i64),
            (Self::Contains | Self::StartsWith | Self::EndsWith, Value::Text(text), Value::Text(part)) => {
                run.spend_text(text.len() + part.len())?;
                Value::Bool(match self {
                    Self::Contains => text.contains(&*part),
                    Self::StartsWith => text.starts_with(&*part),
                    _ => text.ends_with(&*part),
                })
            }
            (Self::OptionalNone, ..) => Value::Optional(None),
            (Self::OptionalOfNonZero, a, _) if is_zero(&a) => Value::Optional(None),
            (Self::OptionalOf | Self::OptionalOfNonZero, a, _) => Value::some(a),
            (Self::HasValue, Value::Optional(held), _) => Value::Bool(held.is_some()),
            (Self::Value, Value::Optional(Some(held)), _) => (*held).clone(),
            (Self::Value, Value::Optional(None), _) => return Err(Stop::failed("the optional is empty")),
            (
                Self::Bool
                | Self::Int
                | Self::UInt
                | Self::Double
                | Self::String
                | Self::Timestamp
                | Self::Duration,
                a,
                _,
            ) => {
                if let Value::Text(text) = &a {
                    run.spend_text(text.len())?;
                }
                let from = a.kind();
                convert(self, a)
                    .ok_or_else(|| Stop::failed(format!("this {from} does not convert to {}", self.name())))?
            }
            _ => {
                let kinds = kinds[..given].join(", ");
                return Err(Stop::failed(format!("{}() does not take {kinds}", self.name())));
            }
        })
    }
}

fn convert<'s>(to: Function, from: Value<'s>) -> Option<Value<'s>> {
    Some(match (to, from) {
        (Function::Bool, held @ Value::Bool(_)) => held,
        (Function::Bool, Value::Text(text)) => Value::Bool(match &*text {
            "1" | "t" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "false" | "FALSE" | "False" => false,
            _ => return None,
        }),
        (Function::Int, whole @ Value::Int(_)) | (Function::UInt, whole @ Value::UInt(_)) => whole,
        (Function::Int, Value::UInt(whole)) => Value::Int(whole.try_into().ok()?),
        (Function::UInt, Value::Int(whole)) => Value::UInt(whole.try_into().ok()?),
        // Both ends of the range as doubles are its neighbours outside, or round to them.
        (Function::Int, Value::Double(real)) => {
            (real > i64::MIN as f64 && real < i64::MAX as f64).then_some(Value::Int(real as i64))?
        }
        (Function::UInt, Value::Double(real)) => {
            (real >= 0.0 && real < u64::MAX as f64).then_some(Value::UInt(real as u64))?
        }
        (Function::Int, Value::Text(text)) => Value::Int(text.parse().ok()?),
        (Function::UInt, Value::Text(text)) => Value::UInt(text.parse().ok()?),
        (Function::Double, real @ Value::Double(_)) => real,
        (Function::Double, Value::Int(whole)) => Value::Double(whole as f64),
        (Function::Double, Value::UInt(whole)) => Value::Double(whole as f64),
        (Function::Double, Value::Text(text)) => Value::Double(text.parse().ok()?),
        (Function::String, text @ Value::Text(_)) => text,
        (Function::String, Value::Bool(held)) => Value::text(held.to_string()),
        (Function::String, Value::Int(whole)) => Value::text(whole.to_string()),
        (Function::String, Value::UInt(whole)) => Value::text(whole.to_string()),
        (Function::String, Value::Double(real)) => Value::text(real.to_string()),
        (Function::String, Value::Time(micros)) => Value::text(time::format_time(micros)),
        (Function::String, Value::Span(span)) => Value::text(time::format_span(span)),
        (Function::Int, Value::Time(micros)) => Value::Int(micros.div_euclid(time::SECOND)),
        (Function::Timestamp, time @ Value::Time(_)) | (Function::Duration, time @ Value::Span(_)) => time,
        (Function::Timestamp, Value::Text(text)) => Value::Time(time::parse_time(&text)?),
        (Function::Timestamp, Value::Int(seconds)) => Value::Time(seconds.checked_mul(time::SECOND)?),
        (Function::Duration, Value::Text(text)) => Value::Span(time::parse_span(&text)?),
        _ => return None,
    })
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::UInt(0) => true,
        Value::Double(real) => *real == 0.0,
        Value::Text(text) => text.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        _ => false,
    }
}

/// Follows a path such as `conditions.0.type`; null where it leads nowhere. Empty segments lead nowhere else.
fn dig<'s>(from: Value<'s>, path: &str) -> Value<'s> {
    let mut at = from;
    for segment in path.split('.').map(str::trim).filter(|segment| !segment.is_empty()) {
        if let Value::Optional(Some(held)) = at {
            at = (*held).clone();
        }
        let next = match &at {
            Value::Map(map) => map.get(&Key::Text(Text::Given(segment))),
            Value::List(list) => segment.parse().ok().and_then(|index| list.get(index)),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Value::Null,
        }
    }
    at
}

pub(crate) fn write_json<'s>(
    run: &mut Evaluation<'s>,
    value: &Value<'s>,
    json: &mut String,
    depth: usize,
) -> Result<(), Stop> {
    run.spend_level(depth)?;
    run.bound_result(json.len())?;
    match value {
        Value::Null | Value::Optional(None) => json.push_str("null"),
        Value::Bool(held) => json.push_str(if *held { "true" } else { "false" }),
        Value::Int(whole) => _ = write!(json, "{whole}"),
        Value::UInt(whole) => _ = write!(json, "{whole}"),
        Value::Double(real) => json.push_str(&serde_json::Value::from(*real).to_string()),
        Value::Text(text) => write_text(run, text, json)?,
        Value::Type(name) => write_text(run, name, json)?,
        Value::Time(micros) => write_text(run, &time::format_time(*micros), json)?,
        Value::Span(span) => write_text(run, &time::format_span(*span), json)?,
        Value::Optional(Some(held)) => write_json(run, held, json, depth + 1)?,
        Value::List(list) => write_list(run, list, json, depth)?,
        Value::Map(map) => write_map(run, map, json, depth)?,
    }
    Ok(())
}

fn write_list<'s>(
    run: &mut Evaluation<'s>,
    list: &List<'s>,
    json: &mut String,
    depth: usize,
) -> Result<(), Stop> {
    json.push('[');
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        write_json(run, &item, json, depth + 1)?;
    }
    json.push(']');
    Ok(())
}

fn write_map<'s>(
    run: &mut Evaluation<'s>,
    map: &Map<'s>,
    json: &mut String,
    depth: usize,
) -> Result<(), Stop> {
    json.push('{');
    for (i, key) in run.keys(map)?.into_iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        match &key {
            Key::Text(text) => write_text(run, text, json)?,
            Key::Bool(held) => _ = write!(json, "\"{held}\""),
            Key::Number(whole) => _ = write!(json, "\"{whole}\""),
        }
        json.push(':');
        write_json(run, &map.get(&key).unwrap_or(Value::Null), json, depth + 1)?;
    }
    json.push('}');
    Ok(())
}

fn write_text(run: &mut Evaluation<'_>, text: &str, json: &mut String) -> Result<(), Stop> {
    run.spend_text(text.len())?;
    run.bound_result(json.len().saturating_add(text.len()))?;
    json.push_str(&serde_json::Value::from(text).to_string());
    Ok(())
}
