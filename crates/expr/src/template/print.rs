//! Values as Go prints them, but for numbers: those are written as JSON writes them.

use std::fmt::Write;

use super::render::{Budget, MAX_OUTPUT};
use super::{MAX_DEPTH, date};
use crate::time;
use crate::value::{Key, Value};

/// How Go prints a time.
const TIME: &str = "2006-01-02 15:04:05.999999999 -0700 MST";

pub(super) fn print(
    budget: &mut Budget,
    text: &mut String,
    value: &Value<'_>,
    depth: usize,
) -> Result<(), String> {
    budget.spend(1)?;
    if depth > MAX_DEPTH {
        return Err("a value is nested too deeply".to_owned());
    }
    if text.len() > MAX_OUTPUT {
        return Err(format!("makes a text of more than {MAX_OUTPUT} bytes"));
    }
    match value {
        Value::Null | Value::Optional(_) => text.push_str("<nil>"),
        Value::Bool(held) => _ = write!(text, "{held}"),
        Value::Int(whole) => _ = write!(text, "{whole}"),
        Value::UInt(whole) => _ = write!(text, "{whole}"),
        Value::Double(real) => number(text, *real),
        Value::Text(held) => {
            budget.spend_text(held.len())?;
            text.push_str(held);
        }
        Value::Type(name) => text.push_str(name),
        Value::Time(micros) => text.push_str(&date::format(TIME, *micros)),
        Value::Span(span) => text.push_str(&time::format_span(*span)),
        Value::List(list) => {
            text.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    text.push(' ');
                }
                print(budget, text, &item, depth + 1)?;
            }
            text.push(']');
        }
        Value::Map(map) => {
            budget.spend(map.len() as u64)?;
            budget.spend_text(map.key_bytes())?;
            text.push_str("map[");
            for (i, key) in map.keys().into_iter().enumerate() {
                if i > 0 {
                    text.push(' ');
                }
                if let Key::Text(name) = &key {
                    text.push_str(name);
                }
                text.push(':');
                print(budget, text, &map.get(&key).unwrap_or(Value::Null), depth + 1)?;
            }
            text.push(']');
        }
    }
    Ok(())
}

/// With an exponent only where JSON has one in all languages: below 1e-6 and from 1e21.
fn number(text: &mut String, real: f64) {
    let size = real.abs();
    if real.is_nan() {
        text.push_str("NaN");
    } else if real.is_infinite() {
        text.push_str(if real > 0.0 { "+Inf" } else { "-Inf" });
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let written = format!("{real:e}");
        let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |it| ('-', it));
        _ = write!(text, "{digits}e{sign}{exponent:0>2}");
    } else {
        _ = write!(text, "{real}");
    }
}

/// In quotes, with the escapes of Go.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => _ = write!(quoted, "\\x{:02x}", u32::from(c)),
            c if c.is_control() => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
