//! Functions on lists.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::evaluate::{Evaluation, Stop};
use crate::functions::{Function, MAX_ARGS};
use crate::operators::equal;
use crate::value::{List, Number, Value};

pub(crate) fn call<'s>(
    function: Function,
    run: &mut Evaluation<'s>,
    args: &[Value<'s>; MAX_ARGS],
) -> Result<Option<Value<'s>>, Stop> {
    if let (Function::Range, Value::Int(count)) = (function, &args[0]) {
        run.spend(count.unsigned_abs())?;
        return Ok(Some(made((0..*count).map(Value::Int))));
    }
    let Value::List(list) = &args[0] else { return Ok(None) };
    Ok(Some(match (function, args) {
        (Function::First, _) => list.get(0).map_or(Value::Optional(None), Value::some),
        (Function::Last, _) => {
            list.len().checked_sub(1).and_then(|at| list.get(at)).map_or(Value::Optional(None), Value::some)
        }
        (Function::Distinct, _) => distinct(run, list)?,
        (Function::Flatten, [_, depth @ (Value::Int(_) | Value::Null), ..]) => {
            let depth = if let Value::Int(depth) = depth { *depth } else { 1 };
            let Ok(depth) = usize::try_from(depth) else {
                return Err(Stop::failed("flatten() takes no negative depth"));
            };
            let mut flat = Vec::new();
            flatten(run, list, depth, 0, &mut flat)?;
            made(flat)
        }
        (Function::Reverse, _) => {
            run.spend(list.len() as u64)?;
            made((0..list.len()).rev().filter_map(|at| list.get(at)))
        }
        (Function::Slice, [_, Value::Int(start), Value::Int(end), _]) => {
            let range = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
            let Some((start, end)) = range.filter(|(start, end)| start <= end && *end <= list.len()) else {
                return Err(Stop::failed(format!(
                    "the list has {} items; that is no part of it",
                    list.len()
                )));
            };
            run.spend((end - start) as u64)?;
            made((start..end).filter_map(|at| list.get(at)))
        }
        (Function::Sort, _) => {
            run.spend(list.len() as u64)?;
            sorted(run, "sort", list.iter().map(|item| (item.clone(), item)).collect())?
        }
        _ => return Ok(None),
    }))
}

fn made<'s>(items: impl IntoIterator<Item = Value<'s>>) -> Value<'s> {
    Value::List(List::Made(items.into_iter().collect()))
}

/// The first of equal items.
fn distinct<'s>(run: &mut Evaluation<'s>, list: &List<'s>) -> Result<Value<'s>, Stop> {
    let mut kept: Vec<Value<'s>> = Vec::new();
    // What can be a key of a map is found by it, so that long lists of names cost little.
    let mut keys = BTreeSet::new();
    let mut others: Vec<Value<'s>> = Vec::new();
    for item in list.iter() {
        run.spend(1)?;
        if let Some(key) = item.key() {
            run.spend_key(&key)?;
            if keys.insert(key) {
                kept.push(item);
            }
            continue;
        }
        let mut known = false;
        for other in &others {
            known = known || equal(run, &item, other, 0)?;
        }
        if !known {
            others.push(item.clone());
            kept.push(item);
        }
    }
    Ok(made(kept))
}

fn flatten<'s>(
    run: &mut Evaluation<'s>,
    list: &List<'s>,
    depth: usize,
    level: usize,
    flat: &mut Vec<Value<'s>>,
) -> Result<(), Stop> {
    run.spend_level(level)?;
    for item in list.iter() {
        run.spend(1)?;
        match item {
            Value::List(inner) if level < depth => flatten(run, &inner, depth, level + 1, flat)?,
            item => flat.push(item),
        }
    }
    Ok(())
}

/// The items in the order of their keys, which must be of one type; equal ones stay as they were.
pub(crate) fn sorted<'s>(
    run: &mut Evaluation<'s>,
    name: &str,
    mut keyed: Vec<(Value<'s>, Value<'s>)>,
) -> Result<Value<'s>, Stop> {
    let rounds = u64::from(keyed.len().max(2).ilog2());
    let bytes: usize =
        keyed.iter().map(|(key, _)| if let Value::Text(text) = key { text.len() } else { 0 }).sum();
    run.spend((keyed.len() as u64).saturating_mul(rounds))?;
    run.spend_text(bytes.saturating_mul(rounds as usize))?;
    let class = |key: &Value<'s>| match key {
        Value::Int(_) | Value::UInt(_) | Value::Double(_) => Some("number"),
        Value::Bool(_) | Value::Text(_) | Value::Time(_) | Value::Span(_) => Some(key.kind()),
        _ => None,
    };
    let first = keyed.first().and_then(|(key, _)| class(key));
    if let Some((key, _)) = keyed.iter().find(|(key, _)| class(key).is_none() || class(key) != first) {
        return Err(Stop::failed(format!(
            "{name}() compares texts, numbers or times with each other, not {}",
            key.kind()
        )));
    }
    keyed.sort_by(|(a, _), (b, _)| order(a, b));
    Ok(made(keyed.into_iter().map(|(_, item)| item)))
}

/// A total order of two values of one class: what is no number comes first.
fn order(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) | (Value::Span(a), Value::Span(b)) => a.cmp(b),
        _ => match (a.number(), b.number()) {
            (Some(a), Some(b)) => a.compare(b).unwrap_or_else(|| is_number(a).cmp(&is_number(b))),
            _ => Ordering::Equal,
        },
    }
}

fn is_number(number: Number) -> bool {
    !matches!(number, Number::Real(real) if real.is_nan())
}
