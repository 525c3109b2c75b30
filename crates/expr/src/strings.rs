//! Functions on texts. Positions count characters, not bytes.

use crate::evaluate::{Evaluation, Stop};
use crate::format::format;
use crate::functions::{Function, MAX_ARGS};
use crate::value::{List, Value};

pub(crate) fn call<'s>(
    function: Function,
    run: &mut Evaluation<'s>,
    args: &[Value<'s>; MAX_ARGS],
) -> Result<Option<Value<'s>>, Stop> {
    let Value::Text(text) = &args[0] else {
        return match (function, args) {
            (Function::Join, [Value::List(list), Value::Text(between), ..]) => {
                join(run, list, between).map(Some)
            }
            (Function::Join, [Value::List(list), Value::Null, ..]) => join(run, list, "").map(Some),
            _ => Ok(None),
        };
    };
    run.spend_text(text.len())?;
    let [_, b, c, d] = args;
    Ok(Some(match (function, b, c, d) {
        (Function::CharAt, Value::Int(at), ..) => {
            let start = byte(text, *at)?;
            Value::text(text[start..].chars().take(1).collect::<String>())
        }
        (Function::Format, Value::List(values), ..) => Value::text(format(run, text, values)?),
        (Function::IndexOf, Value::Text(part), from @ (Value::Int(_) | Value::Null), _) => {
            let start = match from {
                // As cel-go has it: there is nothing behind the end, not even an error.
                Value::Int(from) if *from > text.chars().count() as i64 => return Ok(Some(Value::Int(-1))),
                Value::Int(from) => byte(text, *from)?,
                _ => 0,
            };
            run.spend_text(part.len())?;
            position(text, text[start..].find(&**part).map(|found| start + found))
        }
        (Function::LastIndexOf, Value::Text(part), last @ (Value::Int(_) | Value::Null), _) => {
            let end = match last {
                Value::Int(last) if *last >= text.chars().count() as i64 => return Ok(Some(Value::Int(-1))),
                Value::Int(last) => byte(text, *last)? + part.len(),
                _ => text.len(),
            };
            let end = (0..=end.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            run.spend_text(part.len())?;
            position(text, text[..end].rfind(&**part))
        }
        (Function::LowerAscii, ..) => Value::text(text.to_ascii_lowercase()),
        (Function::UpperAscii, ..) => Value::text(text.to_ascii_uppercase()),
        (Function::Trim, ..) => Value::text(text.trim()),
        (Function::Reverse, ..) => Value::text(text.chars().rev().collect::<String>()),
        (Function::Quote, ..) => Value::text(quote(text)),
        (Function::Replace, Value::Text(old), Value::Text(new), most @ (Value::Int(_) | Value::Null)) => {
            let most = if let Value::Int(most) = most {
                usize::try_from(*most).unwrap_or(usize::MAX)
            } else {
                usize::MAX
            };
            run.spend_text(old.len())?;
            let count = text.matches(&**old).take(most).count();
            run.spend_text(count.saturating_mul(new.len()))?;
            Value::text(text.replacen(&**old, new, count))
        }
        (Function::Split, Value::Text(at), most @ (Value::Int(_) | Value::Null), _) => {
            let most = if let Value::Int(most) = most {
                usize::try_from(*most).unwrap_or(usize::MAX)
            } else {
                usize::MAX
            };
            run.spend_text(at.len())?;
            let parts = split(text, at, most);
            run.spend(parts.len() as u64)?;
            Value::List(List::Made(parts.into_iter().map(Value::text).collect()))
        }
        (Function::Substring, Value::Int(start), end @ (Value::Int(_) | Value::Null), _) => {
            let start = byte(text, *start)?;
            let end = if let Value::Int(end) = end { byte(text, *end)? } else { text.len() };
            Value::text(text.get(start..end).ok_or_else(|| Stop::failed("the end lies before the start"))?)
        }
        _ => return Ok(None),
    }))
}

/// The byte at which the character of this position starts, or the text ends.
fn byte(text: &str, position: i64) -> Result<usize, Stop> {
    let position = usize::try_from(position).ok();
    let starts = || text.char_indices().map(|(start, _)| start).chain([text.len()]);
    position.and_then(|position| starts().nth(position)).ok_or_else(|| {
        Stop::failed(format!("the text has {} characters; that position is none", text.chars().count()))
    })
}

fn position<'s>(text: &str, byte: Option<usize>) -> Value<'s> {
    Value::Int(byte.map_or(-1, |byte| text[..byte].chars().count() as i64))
}

fn split<'t>(text: &'t str, at: &str, most: usize) -> Vec<&'t str> {
    if !at.is_empty() || most == 0 {
        return text.splitn(most, at).collect();
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if parts.len() + 1 == most { rest.len() } else { first.len_utf8() };
        let (part, after) = rest.split_at(length);
        parts.push(part);
        rest = after;
    }
    parts
}

fn join<'s>(run: &mut Evaluation<'s>, list: &List<'s>, between: &str) -> Result<Value<'s>, Stop> {
    let mut joined = String::new();
    for (i, item) in list.iter().enumerate() {
        let Value::Text(text) = item else {
            return Err(Stop::failed(format!("join() takes a list of texts; {} is none", item.kind())));
        };
        run.spend(1)?;
        run.spend_text(between.len() + text.len())?;
        if i > 0 {
            joined.push_str(between);
        }
        joined.push_str(&text);
    }
    Ok(Value::text(joined))
}

/// In quotes, with the escapes of the language.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        let escape = match c {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' | '"' => c,
            _ => {
                quoted.push(c);
                continue;
            }
        };
        quoted.extend(['\\', escape]);
    }
    quoted.push('"');
    quoted
}
