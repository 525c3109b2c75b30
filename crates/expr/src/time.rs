//! Timestamps and durations in microseconds: parsed, printed and taken apart.

use chrono::{DateTime, Datelike, SecondsFormat, Timelike};

use crate::evaluate::{Evaluation, Stop};
use crate::functions::{Function, MAX_ARGS};
use crate::value::Value;

pub(crate) const SECOND: i64 = 1_000_000;

const UNITS: [(&str, f64); 7] =
    [("ns", 1e-3), ("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7), ("h", 3.6e9)];

/// Reads RFC 3339.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.timestamp_micros())
}

pub(crate) fn format_time(micros: i64) -> String {
    DateTime::from_timestamp_micros(micros)
        .map_or_else(String::new, |time| time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Reads `30m`, `1h30m`, `-1.5s`.
pub(crate) fn parse_span(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut micros = 0.0;
    while !rest.is_empty() || text.len() < 2 {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let next = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..next])?;
        micros += number * unit;
        rest = &rest[next..];
    }
    (micros < i64::MAX as f64).then_some((sign * micros) as i64)
}

/// In seconds, as CEL prints a duration.
pub(crate) fn format_span(micros: i64) -> String {
    format!("{}s", micros as f64 / SECOND as f64)
}

/// To the second, as the time of an execution is printed.
pub(crate) fn format_seconds(micros: i64) -> String {
    DateTime::from_timestamp_micros(micros)
        .map_or_else(String::new, |time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// A part of a time or a duration, as `getSeconds()` and its like tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    FullYear,
    Hours,
    Milliseconds,
    Minutes,
    Month,
    Seconds,
}

pub(crate) fn call<'s>(
    function: Function,
    _: &mut Evaluation<'s>,
    args: &[Value<'s>; MAX_ARGS],
) -> Result<Option<Value<'s>>, Stop> {
    let Function::Part(part) = function else { return Ok(None) };
    let value = match args {
        [Value::Time(micros), Value::Null, ..] => of_time(part, *micros),
        [Value::Time(micros), Value::Text(zone), ..] => {
            let Some(offset) = offset(zone) else {
                return Err(Stop::failed("a time zone is UTC or an offset, as in '+02:00'"));
            };
            micros.checked_add(offset).and_then(|micros| of_time(part, micros))
        }
        [Value::Span(micros), Value::Null, ..] => match part {
            Part::Hours => Some(micros / (3_600 * SECOND)),
            Part::Minutes => Some(micros / (60 * SECOND)),
            Part::Seconds => Some(micros / SECOND),
            Part::Milliseconds => Some(micros / (SECOND / 1_000)),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    value.map(|value| Some(Value::Int(value))).ok_or(Stop::Failed("the time is out of range".into()))
}

fn of_time(part: Part, micros: i64) -> Option<i64> {
    let time = DateTime::from_timestamp_micros(micros)?;
    Some(match part {
        Part::Date => time.day().into(),
        Part::DayOfMonth => time.day0().into(),
        Part::DayOfWeek => time.weekday().num_days_from_sunday().into(),
        Part::DayOfYear => time.ordinal0().into(),
        Part::FullYear => time.year().into(),
        Part::Hours => time.hour().into(),
        Part::Milliseconds => time.timestamp_subsec_millis().into(),
        Part::Minutes => time.minute().into(),
        Part::Month => time.month0().into(),
        Part::Seconds => time.second().into(),
    })
}

/// The offset of a zone from UTC in microseconds. The names of the world's zones are not known: they change with
/// politics, and an answer must not depend on when this was built.
fn offset(zone: &str) -> Option<i64> {
    if zone == "UTC" || zone == "Z" {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => (1, zone),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |digits: &str| {
        (digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit()))
            .then(|| digits.parse::<i64>().ok())?
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60 * SECOND)
}
