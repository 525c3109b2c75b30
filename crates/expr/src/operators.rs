//! Operators: reaching into values, comparing them and calculating with them. No failure repeats a value;
//! names of types and of members that the expression itself wrote are all it says.

use std::cmp::Ordering;

use crate::dialect::Dialect;
use crate::evaluate::{Evaluation, Stop};
use crate::program::Operator;
use crate::value::{Key, List, Text, Value};

pub(crate) fn binary<'s>(
    run: &mut Evaluation<'s>,
    operator: Operator,
    a: &Value<'s>,
    b: &Value<'s>,
) -> Result<Value<'s>, Stop> {
    match operator {
        Operator::Equal => equal(run, a, b, 0).map(Value::Bool),
        Operator::NotEqual => equal(run, a, b, 0).map(|same| Value::Bool(!same)),
        Operator::In => contains(run, a, b).map(Value::Bool),
        Operator::Less => compare(run, operator, a, b, Ordering::is_lt),
        Operator::LessOrEqual => compare(run, operator, a, b, Ordering::is_le),
        Operator::Greater => compare(run, operator, a, b, Ordering::is_gt),
        Operator::GreaterOrEqual => compare(run, operator, a, b, Ordering::is_ge),
        Operator::Add => match (a, b) {
            (Value::Text(a), Value::Text(b)) => {
                run.spend_text(a.len() + b.len())?;
                Ok(Value::text([&**a, &**b].concat()))
            }
            (Value::List(a), Value::List(b)) => {
                run.spend((a.len() + b.len()) as u64)?;
                Ok(Value::List(List::Made(a.iter().chain(b.iter()).collect())))
            }
            _ => calculate(run, operator, a, b),
        },
        _ => calculate(run, operator, a, b),
    }
}

fn compare<'s>(
    run: &mut Evaluation<'s>,
    operator: Operator,
    a: &Value<'s>,
    b: &Value<'s>,
    holds: fn(Ordering) -> bool,
) -> Result<Value<'s>, Stop> {
    let order = match (a, b) {
        (Value::Text(a), Value::Text(b)) => {
            run.spend_text(a.len().min(b.len()))?;
            Some(a.cmp(b))
        }
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Time(a), Value::Time(b)) | (Value::Span(a), Value::Span(b)) => Some(a.cmp(b)),
        _ => match (a.number(), b.number()) {
            (Some(a), Some(b)) => a.compare(b),
            _ => return Err(no_overload(operator, a, b)),
        },
    };
    Ok(Value::Bool(order.is_some_and(holds)))
}

pub(crate) fn equal<'s>(
    run: &mut Evaluation<'s>,
    a: &Value<'s>,
    b: &Value<'s>,
    depth: usize,
) -> Result<bool, Stop> {
    run.spend_level(depth)?;
    Ok(match (a, b) {
        (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Time(a), Value::Time(b)) | (Value::Span(a), Value::Span(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => {
            run.spend_text(a.len().min(b.len()))?;
            a == b
        }
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(run, &a, &b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for key in run.keys(a)? {
                let (Some(a), Some(b)) = (a.get(&key), b.get(&key)) else { return Ok(false) };
                if !equal(run, &a, &b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal(run, a, b, depth + 1)?,
        _ => match (a.number(), b.number()) {
            (Some(a), Some(b)) => a.compare(b) == Some(Ordering::Equal),
            _ => false,
        },
    })
}

fn contains<'s>(run: &mut Evaluation<'s>, item: &Value<'s>, container: &Value<'s>) -> Result<bool, Stop> {
    match container {
        Value::List(list) => {
            for other in list.iter() {
                if equal(run, item, &other, 0)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => match item.key() {
            Some(key) => {
                run.spend_key(&key)?;
                Ok(map.get(&key).is_some())
            }
            None if matches!(item, Value::Double(_)) => Ok(false),
            None => Err(no_overload(Operator::In, item, container)),
        },
        _ => Err(no_overload(Operator::In, item, container)),
    }
}

/// `a.b` and `a.?b`. On an optional it goes on with what is held, and stays optional.
pub(crate) fn select<'s>(of: Value<'s>, field: &str, optional: bool) -> Result<Value<'s>, Stop> {
    let (of, held) = match of {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(held)) => ((*held).clone(), true),
        other => (other, false),
    };
    match &of {
        Value::Map(map) => match map.get(&named(field)) {
            Some(found) if held || optional => Ok(Value::some(found)),
            Some(found) => Ok(found),
            None if held || optional => Ok(Value::Optional(None)),
            None => Err(Stop::failed(format!("no such member: {field}"))),
        },
        Value::List(_) if held => Ok(Value::Optional(None)),
        _ if optional => Ok(Value::Optional(None)),
        other => Err(no_members(other, field)),
    }
}

/// `has(a.b)`.
pub(crate) fn has(of: &Value<'_>, field: &str) -> Result<bool, Stop> {
    match of {
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(held)) => match &**held {
            Value::List(_) => Ok(false),
            held => has(held, field),
        },
        Value::Map(map) => Ok(map.get(&named(field)).is_some()),
        other => Err(no_members(other, field)),
    }
}

fn named(field: &str) -> Key<'_> {
    Key::Text(Text::Given(field))
}

fn no_members(of: &Value<'_>, field: &str) -> Stop {
    Stop::failed(format!("{} has no member {field}", of.kind()))
}

/// `a[b]` and `a[?b]`; the key is none when the value cannot be one.
pub(crate) fn index<'s>(of: Value<'s>, key: Option<&Key<'_>>, optional: bool) -> Result<Value<'s>, Stop> {
    let (of, optional) = match of {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(held)) => ((*held).clone(), true),
        other => (other, optional),
    };
    let found = match (&of, key) {
        (Value::List(list), Some(Key::Number(at))) => {
            usize::try_from(*at).ok().and_then(|at| list.get(at)).ok_or_else(|| {
                Stop::failed(format!("the list has {} items; there is none at that index", list.len()))
            })
        }
        (Value::Map(map), Some(key)) => map.get(key).ok_or_else(|| Stop::failed("no such key")),
        (Value::List(_), _) => Err(Stop::failed("a list is indexed by a whole number")),
        (Value::Map(_), None) => Err(Stop::failed("a map is indexed by text, a whole number or a bool")),
        (other, _) => Err(Stop::failed(format!("{} cannot be indexed", other.kind()))),
    };
    if optional { Ok(found.map_or(Value::Optional(None), Value::some)) } else { found }
}

pub(crate) fn negate<'s>(of: &Value<'s>) -> Result<Value<'s>, Stop> {
    match of {
        Value::Int(whole) => whole.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(real) => Ok(Value::Double(-real)),
        other => Err(Stop::failed(format!("no such operation: -{}", other.kind()))),
    }
}

/// In task files a whole number beside a real one counts as real: they were written for a runtime that reads every
/// number of a document as real, so that `x.count * 1.5` has a value there.
fn calculate<'s>(
    run: &Evaluation<'s>,
    operator: Operator,
    a: &Value<'s>,
    b: &Value<'s>,
) -> Result<Value<'s>, Stop> {
    let real = |value: &Value<'_>| match value {
        Value::Int(whole) => Some(*whole as f64),
        Value::UInt(whole) => Some(*whole as f64),
        _ => None,
    };
    match (a, b) {
        (Value::Double(_), b)
            if run.dialect() == Dialect::Task
                && let Some(b) = real(b) =>
        {
            arithmetic(operator, a, &Value::Double(b))
        }
        (a, Value::Double(_))
            if run.dialect() == Dialect::Task
                && let Some(a) = real(a) =>
        {
            arithmetic(operator, &Value::Double(a), b)
        }
        _ => arithmetic(operator, a, b),
    }
}

fn arithmetic<'s>(operator: Operator, a: &Value<'s>, b: &Value<'s>) -> Result<Value<'s>, Stop> {
    let by_zero = matches!(b, Value::Int(0) | Value::UInt(0));
    if by_zero && matches!(operator, Operator::Divide | Operator::Remainder) && a.kind() == b.kind() {
        return Err(Stop::failed("division by zero"));
    }
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => match operator {
            Operator::Add => a.checked_add(*b),
            Operator::Subtract => a.checked_sub(*b),
            Operator::Multiply => a.checked_mul(*b),
            Operator::Divide => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::Int)
        .ok_or_else(overflow),
        (Value::UInt(a), Value::UInt(b)) => match operator {
            Operator::Add => a.checked_add(*b),
            Operator::Subtract => a.checked_sub(*b),
            Operator::Multiply => a.checked_mul(*b),
            Operator::Divide => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::UInt)
        .ok_or_else(overflow),
        (Value::Time(a), Value::Time(b)) if operator == Operator::Subtract => {
            a.checked_sub(*b).map(Value::Span).ok_or_else(overflow)
        }
        (Value::Time(a), Value::Span(b)) => match operator {
            Operator::Add => a.checked_add(*b),
            Operator::Subtract => a.checked_sub(*b),
            _ => return Err(no_overload(operator, &Value::Time(*a), &Value::Span(*b))),
        }
        .map(Value::Time)
        .ok_or_else(overflow),
        (Value::Span(a), Value::Time(b)) if operator == Operator::Add => {
            a.checked_add(*b).map(Value::Time).ok_or_else(overflow)
        }
        (Value::Span(a), Value::Span(b)) => match operator {
            Operator::Add => a.checked_add(*b),
            Operator::Subtract => a.checked_sub(*b),
            _ => return Err(no_overload(operator, &Value::Span(*a), &Value::Span(*b))),
        }
        .map(Value::Span)
        .ok_or_else(overflow),
        (Value::Double(x), Value::Double(y)) => Ok(Value::Double(match operator {
            Operator::Add => x + y,
            Operator::Subtract => x - y,
            Operator::Multiply => x * y,
            Operator::Divide => x / y,
            _ => return Err(no_overload(operator, a, b)),
        })),
        _ => Err(no_overload(operator, a, b)),
    }
}

fn overflow() -> Stop {
    Stop::failed("a number is out of range")
}

fn no_overload(operator: Operator, a: &Value<'_>, b: &Value<'_>) -> Stop {
    Stop::failed(format!("no such operation: {} {} {}", a.kind(), operator.sign(), b.kind()))
}
