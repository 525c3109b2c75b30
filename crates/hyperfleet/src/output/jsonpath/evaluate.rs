//! Evaluates a template on a document. The number of values that are looked at is bounded, because
//! `..` after `..` multiplies.

use std::cmp::Ordering;

use hyperfleet_core::Decimal;
use serde_json::Value;

use super::{Choice, Comparison, Fault, Operand, Part, Path, Step, Test};

/// The most values that may be looked at.
const MAX_VISITS: usize = 2_000_000;

/// The text that the parts make.
pub(super) fn apply(parts: &[Part], document: &Value) -> Result<String, Fault> {
    let mut out = String::new();
    Search { root: document, visits: 0 }.print(parts, document, &mut out)?;
    Ok(out)
}

struct Search<'a> {
    root: &'a Value,
    visits: usize,
}

impl<'a> Search<'a> {
    fn print(&mut self, parts: &[Part], here: &'a Value, out: &mut String) -> Result<(), Fault> {
        for part in parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Pick(path) => {
                    for (at, value) in self.pick(path, here)?.into_iter().enumerate() {
                        if at > 0 {
                            out.push(' ');
                        }
                        match value {
                            Value::String(text) => out.push_str(text),
                            other => out.push_str(&other.to_string()),
                        }
                    }
                }
                Part::Range(path, parts) => {
                    for value in self.pick(path, here)? {
                        self.print(parts, value, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn pick(&mut self, path: &Path, here: &'a Value) -> Result<Vec<&'a Value>, Fault> {
        let mut found = vec![if path.from_root { self.root } else { here }];
        for step in &path.steps {
            let mut next = Vec::new();
            for value in found {
                self.take(step, value, &mut next)?;
            }
            found = next;
        }
        Ok(found)
    }

    fn take(&mut self, step: &Step, value: &'a Value, next: &mut Vec<&'a Value>) -> Result<(), Fault> {
        self.count(1)?;
        match step {
            Step::Member(name) => next.extend(value.get(name.as_str())),
            Step::All => {
                let all = below(value);
                self.count(all.len())?;
                next.extend(all);
            }
            Step::Union(choices) => {
                for choice in choices {
                    match choice {
                        Choice::Name(name) => next.extend(value.get(name.as_str())),
                        Choice::Index(index) => next.extend(at(value, *index)),
                    }
                }
            }
            Step::Slice(from, to, by) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                self.count(items.len())?;
                next.extend(slice(items, *from, *to, *by));
            }
            Step::Filter(test) => {
                for candidate in below(value) {
                    if self.holds(test, candidate)? {
                        next.push(candidate);
                    }
                }
            }
            Step::Descend => self.descend(value, next)?,
        }
        Ok(())
    }

    fn descend(&mut self, value: &'a Value, next: &mut Vec<&'a Value>) -> Result<(), Fault> {
        self.count(1)?;
        next.push(value);
        for inner in below(value) {
            self.descend(inner, next)?;
        }
        Ok(())
    }

    fn holds(&mut self, test: &Test, here: &'a Value) -> Result<bool, Fault> {
        let left = self.operand(&test.left, here)?;
        let Some((comparison, right)) = &test.right else {
            return Ok(left.is_some());
        };
        let right = self.operand(right, here)?;
        Ok(match (left, right) {
            (Some(left), Some(right)) => compare(&left, *comparison, &right),
            _ => false,
        })
    }

    fn operand(&mut self, operand: &Operand, here: &'a Value) -> Result<Option<Value>, Fault> {
        match operand {
            Operand::Literal(value) => Ok(Some(value.clone())),
            Operand::Path(path) => Ok(self.pick(path, here)?.first().map(|value| (*value).clone())),
        }
    }

    fn count(&mut self, more: usize) -> Result<(), Fault> {
        self.visits += more;
        if self.visits > MAX_VISITS {
            return Err(Fault("it picks too many values".to_owned()));
        }
        Ok(())
    }
}

/// Items of an array, values of an object.
fn below(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    }
}

/// An item by its index, counted from the end when negative.
fn at(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let length = i64::try_from(items.len()).ok()?;
    let index = if index < 0 { index.checked_add(length)? } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>, by: i64) -> Vec<&Value> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let place = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let mut found = Vec::new();
    let (mut index, end) = if by > 0 {
        (from.map_or(0, place).max(0), to.map_or(length, place).min(length))
    } else {
        (from.map_or(length - 1, place).min(length - 1), to.map_or(-1, place).max(-1))
    };
    while if by > 0 { index < end } else { index > end } {
        found.extend(usize::try_from(index).ok().and_then(|index| items.get(index)));
        index = index.saturating_add(by);
    }
    found
}

/// Numbers by value, texts by code point; other values are equal or not, and nothing else.
fn compare(left: &Value, comparison: Comparison, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => {
            match (Decimal::parse(&left.to_string()), Decimal::parse(&right.to_string())) {
                (Some(left), Some(right)) => Some(left.cmp(&right)),
                _ => None,
            }
        }
        _ => None,
    };
    let equal = order.map_or_else(|| hyperfleet_core::same(left, right), Ordering::is_eq);
    match comparison {
        Comparison::Equal => equal,
        Comparison::Unequal => !equal,
        Comparison::Less => order.is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order.is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}
