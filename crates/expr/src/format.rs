//! `'…'.format([…])`: values put into a text at its verbs.

use std::fmt::Write;

use crate::evaluate::{Evaluation, Stop};
use crate::time;
use crate::value::{Key, List, Number, Value};

/// Most digits behind the point.
const MAX_PRECISION: usize = 100;

pub(crate) fn format<'s>(
    run: &mut Evaluation<'s>,
    template: &str,
    values: &List<'s>,
) -> Result<String, Stop> {
    let mut text = String::new();
    let mut next = 0;
    let mut rest = template.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut verb = rest.next();
        if verb == Some('%') {
            text.push('%');
            continue;
        }
        let mut precision = None;
        if verb == Some('.') {
            let mut digits = 0_usize;
            verb = rest.next();
            while let Some(digit) = verb.and_then(|c| c.to_digit(10)) {
                digits = digits.saturating_mul(10).saturating_add(digit as usize);
                verb = rest.next();
            }
            precision = Some(digits);
        }
        if precision.is_some_and(|precision| precision > MAX_PRECISION) {
            return Err(Stop::failed(format!(
                "format() writes at most {MAX_PRECISION} digits behind the point"
            )));
        }
        let Some(verb) = verb else { return Err(Stop::failed("format() lacks a verb after its last %")) };
        let Some(value) = values.get(next) else {
            return Err(Stop::failed(format!("format() has more verbs than its {} values", values.len())));
        };
        next += 1;
        run.spend(1)?;
        write(run, &mut text, verb, precision, &value)?;
    }
    Ok(text)
}

fn write<'s>(
    run: &mut Evaluation<'s>,
    text: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Value<'s>,
) -> Result<(), Stop> {
    let precision = precision.unwrap_or(6);
    let real = value.number().map(Number::real);
    match (verb, value) {
        ('s', value) => return plain(run, text, value, 0),
        ('d', Value::Int(_) | Value::UInt(_)) => return plain(run, text, value, 0),
        ('d', Value::Double(real)) if !real.is_finite() => return plain(run, text, value, 0),
        ('f' | 'e', _) if let Some(real) = real.filter(|real| !real.is_finite()) => {
            return plain(run, text, &Value::Double(real), 0);
        }
        ('f', _) if let Some(real) = real => _ = write!(text, "{real:.precision$}"),
        ('e', _) if let Some(real) = real => {
            let written = format!("{real:.precision$e}");
            let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |it| ('-', it));
            _ = write!(text, "{digits}e{sign}{exponent:0>2}");
        }
        ('b', Value::Bool(held)) => text.push(if *held { '1' } else { '0' }),
        ('b' | 'o' | 'x' | 'X', Value::Int(_) | Value::UInt(_)) => {
            let Some(Number::Whole(whole)) = value.number() else { return Ok(()) };
            if whole < 0 {
                text.push('-');
            }
            let whole = whole.unsigned_abs();
            _ = match verb {
                'b' => write!(text, "{whole:b}"),
                'o' => write!(text, "{whole:o}"),
                'x' => write!(text, "{whole:x}"),
                _ => write!(text, "{whole:X}"),
            };
        }
        ('x' | 'X', Value::Text(held)) => {
            run.spend_text(2 * held.len())?;
            for byte in held.bytes() {
                _ = if verb == 'x' { write!(text, "{byte:02x}") } else { write!(text, "{byte:02X}") };
            }
        }
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', value) => {
            return Err(Stop::failed(format!("%{verb} does not take {}", value.kind())));
        }
        (verb, _) => return Err(Stop::failed(format!("format() knows no verb %{verb}"))),
    }
    run.spend_text(precision)
}

/// As `%s` writes it: without quotes, members in the order of their names.
fn plain<'s>(
    run: &mut Evaluation<'s>,
    text: &mut String,
    value: &Value<'s>,
    depth: usize,
) -> Result<(), Stop> {
    run.spend_level(depth)?;
    match value {
        Value::Null | Value::Optional(None) => text.push_str("null"),
        Value::Bool(held) => _ = write!(text, "{held}"),
        Value::Int(whole) => _ = write!(text, "{whole}"),
        Value::UInt(whole) => _ = write!(text, "{whole}"),
        Value::Double(real) if real.is_nan() => text.push_str("NaN"),
        Value::Double(real) if real.is_infinite() => {
            text.push_str(if *real > 0.0 { "Infinity" } else { "-Infinity" });
        }
        Value::Double(real) => _ = write!(text, "{real}"),
        Value::Text(held) => {
            run.spend_text(held.len())?;
            text.push_str(held);
        }
        Value::Type(name) => text.push_str(name),
        Value::Time(micros) => text.push_str(&time::format_time(*micros)),
        Value::Span(span) => text.push_str(&time::format_span(*span)),
        Value::Optional(Some(held)) => plain(run, text, held, depth + 1)?,
        Value::List(list) => {
            text.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    text.push_str(", ");
                }
                plain(run, text, &item, depth + 1)?;
            }
            text.push(']');
        }
        Value::Map(map) => {
            text.push('{');
            for (i, key) in run.keys(map)?.into_iter().enumerate() {
                if i > 0 {
                    text.push_str(", ");
                }
                match &key {
                    Key::Text(name) => text.push_str(name),
                    Key::Bool(held) => _ = write!(text, "{held}"),
                    Key::Number(whole) => _ = write!(text, "{whole}"),
                }
                text.push_str(": ");
                plain(run, text, &map.get(&key).unwrap_or(Value::Null), depth + 1)?;
            }
            text.push('}');
        }
    }
    Ok(())
}
