//! The functions of templates: those of the language, and those that task files of the Go adapter know.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::parse::Expr;
use gotmpl::{html_escape, js_escape, url_encode};

use super::date;
use super::print::{print, quote};
use super::render::{Budget, MAX_OUTPUT};
use crate::time::SECOND;
use crate::value::{Key, List, Number, Value, whole};

/// Longest format of `printf`: each of its verbs may be padded to 64 KiB.
const MAX_FORMAT_BYTES: usize = 1024;

/// Longest layout of a time.
const MAX_LAYOUT_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    And,
    Contains,
    Date,
    Default,
    Equal,
    Float,
    Greater,
    GreaterOrEqual,
    HasPrefix,
    HasSuffix,
    Html,
    Index,
    Int,
    Js,
    Len,
    Less,
    LessOrEqual,
    Lower,
    Not,
    NotEqual,
    Now,
    Or,
    Print,
    Printf,
    Println,
    Quote,
    Replace,
    Slice,
    String,
    Title,
    Trim,
    Upper,
    UrlQuery,
}

/// Every function with the fewest and the most arguments it takes.
const FUNCTIONS: [(&str, usize, usize, Function); 35] = [
    ("and", 1, usize::MAX, Function::And),
    ("contains", 2, 2, Function::Contains),
    ("date", 2, 2, Function::Date),
    ("dateFormat", 2, 2, Function::Date),
    ("default", 2, 2, Function::Default),
    ("eq", 2, usize::MAX, Function::Equal),
    ("float64", 1, 1, Function::Float),
    ("ge", 2, 2, Function::GreaterOrEqual),
    ("gt", 2, 2, Function::Greater),
    ("hasPrefix", 2, 2, Function::HasPrefix),
    ("hasSuffix", 2, 2, Function::HasSuffix),
    ("html", 1, usize::MAX, Function::Html),
    ("index", 1, usize::MAX, Function::Index),
    ("int", 1, 1, Function::Int),
    ("int64", 1, 1, Function::Int),
    ("js", 1, usize::MAX, Function::Js),
    ("le", 2, 2, Function::LessOrEqual),
    ("len", 1, 1, Function::Len),
    ("lower", 1, 1, Function::Lower),
    ("lt", 2, 2, Function::Less),
    ("ne", 2, 2, Function::NotEqual),
    ("not", 1, 1, Function::Not),
    ("now", 0, 0, Function::Now),
    ("or", 1, usize::MAX, Function::Or),
    ("print", 0, usize::MAX, Function::Print),
    ("printf", 1, usize::MAX, Function::Printf),
    ("println", 0, usize::MAX, Function::Println),
    ("quote", 1, 1, Function::Quote),
    ("replace", 3, 3, Function::Replace),
    ("slice", 1, 3, Function::Slice),
    ("string", 1, 1, Function::String),
    ("title", 1, 1, Function::Title),
    ("trim", 1, 1, Function::Trim),
    ("upper", 1, 1, Function::Upper),
    ("urlquery", 1, usize::MAX, Function::UrlQuery),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, ..)| *name)
}

/// Whether this is `x.Format`, which takes an argument though it is no function.
pub(super) fn is_method_call(expr: &Expr) -> bool {
    match expr {
        Expr::Variable(_, _, fields) | Expr::Chain(_, _, fields) => {
            fields.last().is_some_and(|field| field == "Format")
        }
        _ => false,
    }
}

/// `.Unix` and its like, of a time in microseconds.
pub(super) fn part_of_time<'s>(micros: i64, name: &str) -> Option<Value<'s>> {
    match name {
        "UTC" => Some(Value::Time(micros)),
        "Unix" => Some(Value::Int(micros.div_euclid(SECOND))),
        "UnixMilli" => Some(Value::Int(micros.div_euclid(SECOND / 1_000))),
        _ => None,
    }
}

/// Whether a value counts as true.
pub(super) fn truth(value: &Value<'_>) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(held) => *held,
        Value::Int(whole) => *whole != 0,
        Value::UInt(whole) => *whole != 0,
        Value::Double(real) => *real != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::List(list) => list.len() > 0,
        Value::Map(map) => map.len() > 0,
        _ => true,
    }
}

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        let at = FUNCTIONS.binary_search_by(|(known, ..)| known.cmp(&name)).ok()?;
        Some(FUNCTIONS[at].3)
    }

    pub(super) fn takes(self) -> (usize, usize) {
        FUNCTIONS
            .iter()
            .find(|(.., known)| *known == self)
            .map_or((0, 0), |(_, least, most, _)| (*least, *most))
    }

    fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(.., known)| *known == self).map_or("", |(name, ..)| name)
    }

    /// The truth of an argument that decides `and` and `or`.
    pub(super) fn decided_by(self) -> Option<bool> {
        match self {
            Self::And => Some(false),
            Self::Or => Some(true),
            _ => None,
        }
    }

    pub(super) fn call<'s>(
        self,
        budget: &mut Budget,
        now: i64,
        args: &[Value<'s>],
    ) -> Result<Value<'s>, String> {
        let bytes: usize =
            args.iter().map(|arg| if let Value::Text(text) = arg { text.len() } else { 0 }).sum();
        budget.spend_text(bytes)?;
        let made = match (self, args) {
            (Self::Now, []) => return Ok(Value::Time(now)),
            (Self::Date, [Value::Text(layout), Value::Time(_)]) if layout.len() > MAX_LAYOUT_BYTES => {
                return Err(format!("a layout has at most {MAX_LAYOUT_BYTES} bytes"));
            }
            (Self::Date, [Value::Text(layout), Value::Time(micros)]) => date::format(layout, *micros),
            (Self::Lower, [Value::Text(text)]) => text.to_lowercase(),
            (Self::Upper, [Value::Text(text)]) => text.to_uppercase(),
            (Self::Title, [Value::Text(text)]) => title(text),
            (Self::Trim, [Value::Text(text)]) => text.trim().to_owned(),
            (Self::Replace, [Value::Text(text), Value::Text(old), Value::Text(new)]) => {
                let count = text.matches(&**old).count();
                let length = text.len().saturating_add(count.saturating_mul(new.len()));
                budget.spend_text(length)?;
                bounded(length)?;
                text.replace(&**old, new)
            }
            (Self::Quote, [Value::Text(text)]) => quote(text),
            (Self::Contains, [Value::Text(text), Value::Text(part)]) => {
                return Ok(Value::Bool(text.contains(&**part)));
            }
            (Self::HasPrefix, [Value::Text(text), Value::Text(part)]) => {
                return Ok(Value::Bool(text.starts_with(&**part)));
            }
            (Self::HasSuffix, [Value::Text(text), Value::Text(part)]) => {
                return Ok(Value::Bool(text.ends_with(&**part)));
            }
            (Self::Default, [other, Value::Null]) => return Ok(other.clone()),
            (Self::Default, [other, Value::Text(text)]) if text.is_empty() => return Ok(other.clone()),
            (Self::Default, [_, value]) => return Ok(value.clone()),
            (Self::Int, [value]) => return Ok(Value::Int(int(value))),
            (Self::Float, [value]) => return Ok(Value::Double(float(value))),
            (Self::String, [value]) => printed(budget, std::slice::from_ref(value), Spaces::None)?,
            (Self::Print, args) => printed(budget, args, Spaces::BetweenOthers)?,
            (Self::Println, args) => printed(budget, args, Spaces::Everywhere)?,
            (Self::Printf, [Value::Text(format), args @ ..]) => printf(budget, format, args)?,
            (Self::Html, args) => html_escape(&escapable(budget, args)?),
            (Self::Js, args) => js_escape(&escapable(budget, args)?),
            (Self::UrlQuery, args) => url_encode(&escapable(budget, args)?),
            (Self::Len, [Value::Text(text)]) => return length(text.len()),
            (Self::Len, [Value::List(list)]) => return length(list.len()),
            (Self::Len, [Value::Map(map)]) => return length(map.len()),
            (Self::Index, [of, keys @ ..]) => {
                return keys.iter().try_fold(of.clone(), |of, key| index(&of, key));
            }
            (Self::Slice, [of, bounds @ ..]) => return slice(budget, of, bounds),
            (Self::Not, [value]) => return Ok(Value::Bool(!truth(value))),
            (Self::Equal, [a, others @ ..]) => {
                for b in others {
                    if equal(a, b)? {
                        return Ok(Value::Bool(true));
                    }
                }
                return Ok(Value::Bool(false));
            }
            (Self::NotEqual, [a, b]) => return equal(a, b).map(|same| Value::Bool(!same)),
            (Self::Less, [a, b]) => return order(a, b, Ordering::is_lt),
            (Self::LessOrEqual, [a, b]) => return order(a, b, Ordering::is_le),
            (Self::Greater, [a, b]) => return order(a, b, Ordering::is_gt),
            (Self::GreaterOrEqual, [a, b]) => return order(a, b, Ordering::is_ge),
            (_, args) => {
                let kinds: Vec<_> = args.iter().map(kind).collect();
                return Err(format!("{} does not take {}", self.name(), kinds.join(", ")));
            }
        };
        bounded(made.len())?;
        budget.spend_text(made.len())?;
        Ok(Value::text(made))
    }
}

fn kind(value: &Value<'_>) -> &'static str {
    if matches!(value, Value::Null) { "nil" } else { value.kind() }
}

fn bounded(bytes: usize) -> Result<(), String> {
    if bytes > MAX_OUTPUT { Err(format!("makes a text of more than {MAX_OUTPUT} bytes")) } else { Ok(()) }
}

fn length<'s>(length: usize) -> Result<Value<'s>, String> {
    Ok(Value::Int(length as i64))
}

/// Words begin after anything but letters, digits and what joins them.
fn title(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut within = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphabetic() {
            if within {
                made.extend(c.to_lowercase());
            } else {
                made.extend(c.to_uppercase());
            }
            within = true;
        } else {
            let joins =
                matches!(c, '\'' | '’' | '.' | ':' | '·') && chars.peek().is_some_and(|c| c.is_alphabetic());
            within = within && (joins || c.is_numeric() || c == '_');
            made.push(c);
        }
    }
    made
}

fn int(value: &Value<'_>) -> i64 {
    match value {
        Value::Int(whole) => *whole,
        Value::UInt(whole) => i64::try_from(*whole).unwrap_or(i64::MAX),
        Value::Double(real) => *real as i64,
        Value::Text(text) => text.parse().unwrap_or(0),
        _ => 0,
    }
}

fn float(value: &Value<'_>) -> f64 {
    match value {
        Value::Text(text) => text.parse().unwrap_or(0.0),
        other => other.number().map_or(0.0, Number::real),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spaces {
    None,
    /// Where neither side is text.
    BetweenOthers,
    /// And a line's end.
    Everywhere,
}

fn printed(budget: &mut Budget, args: &[Value<'_>], spaces: Spaces) -> Result<String, String> {
    let mut text = String::new();
    for (i, arg) in args.iter().enumerate() {
        let other = |arg: &Value<'_>| !matches!(arg, Value::Text(_));
        let apart = spaces == Spaces::Everywhere
            || (spaces == Spaces::BetweenOthers && i > 0 && other(arg) && other(&args[i - 1]));
        if i > 0 && apart {
            text.push(' ');
        }
        print(budget, &mut text, arg, 0)?;
    }
    if spaces == Spaces::Everywhere {
        text.push('\n');
    }
    Ok(text)
}

/// The text of what is to be escaped; escaping makes a character six bytes at most.
fn escapable(budget: &mut Budget, args: &[Value<'_>]) -> Result<String, String> {
    let text = printed(budget, args, Spaces::BetweenOthers)?;
    budget.spend_text(text.len().saturating_mul(6))?;
    Ok(text)
}

/// By the parser's crate, which knows all verbs: on copies of the values, because they are few here.
fn printf(budget: &mut Budget, format: &str, args: &[Value<'_>]) -> Result<String, String> {
    if format.len() > MAX_FORMAT_BYTES {
        return Err(format!("printf takes a format of at most {MAX_FORMAT_BYTES} bytes"));
    }
    budget.spend((format.matches('%').count() * 100) as u64)?;
    let mut values = BTreeMap::new();
    let mut source = "{{printf .format".to_owned();
    values.insert(Arc::from("format"), gotmpl::Value::String(format.into()));
    for (i, arg) in args.iter().enumerate() {
        source.push_str(&format!(" .v{i}"));
        values.insert(Arc::from(format!("v{i}")), copy(budget, arg, 0)?);
    }
    source.push_str("}}");
    let template = gotmpl::Template::new("").parse(&source);
    let made = template.and_then(|it| it.execute_to_string(&gotmpl::Value::Map(Arc::new(values))));
    made.map_err(|_| "printf does not take these".to_owned())
}

fn copy(budget: &mut Budget, value: &Value<'_>, depth: usize) -> Result<gotmpl::Value, String> {
    budget.spend(1)?;
    if depth > super::MAX_DEPTH {
        return Err("a value is nested too deeply".to_owned());
    }
    Ok(match value {
        Value::Null => gotmpl::Value::Nil,
        Value::Bool(held) => gotmpl::Value::Bool(*held),
        Value::Int(whole) => gotmpl::Value::Int(*whole),
        Value::UInt(whole) => gotmpl::Value::Uint(*whole),
        Value::Double(real) => gotmpl::Value::Float(*real),
        Value::List(list) => {
            let items: Result<_, _> = list.iter().map(|item| copy(budget, &item, depth + 1)).collect();
            gotmpl::Value::List(items?)
        }
        Value::Map(map) => {
            budget.spend_text(map.key_bytes())?;
            let mut members = BTreeMap::new();
            for key in map.keys() {
                let value = copy(budget, &map.get(&key).unwrap_or(Value::Null), depth + 1)?;
                if let Key::Text(name) = key {
                    members.insert(Arc::from(&*name), value);
                }
            }
            gotmpl::Value::Map(Arc::new(members))
        }
        other => gotmpl::Value::String(printed(budget, std::slice::from_ref(other), Spaces::None)?.into()),
    })
}

fn index<'s>(of: &Value<'s>, key: &Value<'s>) -> Result<Value<'s>, String> {
    let outside = || "there is nothing at that index".to_owned();
    match (of, key) {
        (Value::Map(map), Value::Text(name)) => Ok(map.get(&Key::Text(name.clone())).unwrap_or(Value::Null)),
        (Value::List(list), key) if let Some(at) = position(key) => list.get(at).ok_or_else(outside),
        (Value::Text(text), key) if let Some(at) = position(key) => {
            text.as_bytes().get(at).map(|byte| Value::Int((*byte).into())).ok_or_else(outside)
        }
        (of, key) => Err(format!("index does not take {}, {}", kind(of), kind(key))),
    }
}

/// A whole number as a position; one that is none lies behind every end.
fn position(value: &Value<'_>) -> Option<usize> {
    match value {
        Value::Int(at) => Some(usize::try_from(*at).unwrap_or(usize::MAX)),
        Value::UInt(at) => Some(usize::try_from(*at).unwrap_or(usize::MAX)),
        Value::Double(at) => Some(whole(*at).and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX)),
        _ => None,
    }
}

fn slice<'s>(budget: &mut Budget, of: &Value<'s>, bounds: &[Value<'s>]) -> Result<Value<'s>, String> {
    let outside = || "there is no such part".to_owned();
    let length = match of {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        other => return Err(format!("slice does not take {}", kind(other))),
    };
    let bound = |at: usize, otherwise: usize| match bounds.get(at) {
        Some(value) => {
            position(value).ok_or_else(|| format!("a bound of slice is a whole number, not {}", kind(value)))
        }
        None => Ok(otherwise),
    };
    let (start, end) = (bound(0, 0)?, bound(1, length)?);
    match of {
        Value::Text(text) => {
            budget.spend_text(text.len())?;
            text.get(start..end).map(Value::text).ok_or_else(outside)
        }
        Value::List(list) if start <= end && end <= length => {
            budget.spend((end - start) as u64)?;
            Ok(Value::List(List::Made((start..end).filter_map(|at| list.get(at)).collect())))
        }
        _ => Err(outside()),
    }
}

/// Numbers are equal by value, whatever their types.
fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    match (a, b) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Null, _) | (_, Value::Null) => Ok(false),
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Text(a), Value::Text(b)) => Ok(a == b),
        (Value::Time(a), Value::Time(b)) => Ok(a == b),
        _ => match (a.number(), b.number()) {
            (Some(a), Some(b)) => Ok(a.compare(b) == Some(Ordering::Equal)),
            _ => Err(format!("{} and {} cannot be compared", kind(a), kind(b))),
        },
    }
}

fn order<'s>(a: &Value<'s>, b: &Value<'s>, holds: fn(Ordering) -> bool) -> Result<Value<'s>, String> {
    let order = match (a, b) {
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
        _ => match (a.number(), b.number()) {
            (Some(a), Some(b)) => a.compare(b),
            _ => return Err(format!("{} and {} cannot be compared", kind(a), kind(b))),
        },
    };
    Ok(Value::Bool(order.is_some_and(holds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name() {
        for (name, .., function) in FUNCTIONS {
            assert_eq!(Function::named(name), Some(function), "{name}");
        }
        assert_eq!(Function::named("call"), None);
    }
}
