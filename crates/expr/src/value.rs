//! Values of the language. Whatever came in is borrowed, whatever an expression makes is counted by
//! reference: a value is copied in constant time, however large it is, and a list bound in a loop costs
//! no more than a number.

use std::cmp::Ordering;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value as Json;

use crate::scope::{Mask, Members, seen};

/// A value, valid as long as the scope and the expression it came from.
#[derive(Clone)]
pub(crate) enum Value<'s> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(Text<'s>),
    /// A time, in microseconds since 1970.
    Time(i64),
    /// The microseconds between two times.
    Span(i64),
    List(List<'s>),
    Map(Map<'s>),
    Optional(Option<Rc<Value<'s>>>),
    Type(&'static str),
}

#[derive(Clone)]
pub(crate) enum Text<'s> {
    Given(&'s str),
    Made(Rc<str>),
}

#[derive(Clone)]
pub(crate) enum List<'s> {
    Given(&'s [Json], Mask),
    Made(Rc<[Value<'s>]>),
}

#[derive(Clone)]
pub(crate) enum Map<'s> {
    Given(Members<'s>),
    /// In the order of the keys.
    Made(Rc<[(Key<'s>, Value<'s>)]>),
}

/// The key of a map. Numbers are one type here, so that `1` finds what `1u` named.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'s> {
    Bool(bool),
    Number(i128),
    Text(Text<'s>),
}

impl<'s> Value<'s> {
    pub(crate) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(Text::Made(text.into()))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// The name of its type, as `type()` and errors spell it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Time(_) => "timestamp",
            Self::Span(_) => "duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
        }
    }

    /// The value as a key, if it can be one.
    pub(crate) fn key(&self) -> Option<Key<'s>> {
        match self {
            Self::Bool(held) => Some(Key::Bool(*held)),
            Self::Text(text) => Some(Key::Text(text.clone())),
            other => match other.number()? {
                Number::Whole(whole) => Some(Key::Number(whole)),
                Number::Real(real) => whole(real).map(Key::Number),
            },
        }
    }

    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Int(whole) => Some(Number::Whole((*whole).into())),
            Self::UInt(whole) => Some(Number::Whole((*whole).into())),
            Self::Double(real) => Some(Number::Real(*real)),
            _ => None,
        }
    }
}

/// Names of types that an expression may compare `type(x)` with.
pub(crate) const TYPES: [&str; 12] = [
    "null_type",
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "timestamp",
    "duration",
    "list",
    "map",
    "optional_type",
    "type",
];

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Given(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<'s> List<'s> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Given(items, _) => items.len(),
            Self::Made(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<Value<'s>> {
        match self {
            Self::Given(items, mask) => items.get(at).map(|item| seen(item, *mask)),
            Self::Made(items) => items.get(at).cloned(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'s>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

impl<'s> Map<'s> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Given(members) => members.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    pub(crate) fn get(&self, key: &Key<'_>) -> Option<Value<'s>> {
        match (self, key) {
            (Self::Given(members), Key::Text(name)) => members.get(name),
            (Self::Given(_), _) => None,
            (Self::Made(entries), key) => {
                let at = entries.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
                Some(entries[at].1.clone())
            }
        }
    }

    /// Length of all keys together.
    pub(crate) fn key_bytes(&self) -> usize {
        match self {
            Self::Given(members) => members.key_bytes(),
            Self::Made(entries) => {
                entries.iter().map(|(key, _)| if let Key::Text(text) = key { text.len() } else { 0 }).sum()
            }
        }
    }

    /// In order.
    pub(crate) fn keys(&self) -> Vec<Key<'s>> {
        match self {
            Self::Given(members) => {
                members.names().into_iter().map(|name| Key::Text(Text::Given(name))).collect()
            }
            Self::Made(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
        }
    }
}

impl<'s> From<Key<'s>> for Value<'s> {
    fn from(key: Key<'s>) -> Self {
        match key {
            Key::Bool(held) => Self::Bool(held),
            Key::Number(whole) => match (i64::try_from(whole), u64::try_from(whole)) {
                (Ok(whole), _) => Self::Int(whole),
                (_, Ok(whole)) => Self::UInt(whole),
                _ => Self::Null,
            },
            Key::Text(text) => Self::Text(text),
        }
    }
}

/// A number of any type, to be compared with one of any other.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    /// The nearest real number.
    pub(crate) fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    /// The order of two numbers by value; none with a NaN.
    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => Some(a.cmp(&b)),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(&b),
            (Self::Whole(a), Self::Real(b)) => compare_exactly(a, b),
            (Self::Real(a), Self::Whole(b)) => compare_exactly(b, a).map(Ordering::reverse),
        }
    }
}

/// Never by rounding the whole number: 2^53 + 1 is not 2^53, whatever a double makes of it.
fn compare_exactly(a: i128, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    // A double beyond the range saturates, and stays beyond every 64-bit number.
    Some(a.cmp(&(b.trunc() as i128)).then(0.0_f64.total_cmp(&(b.fract() + 0.0))))
}

/// A double without a fraction as the number it is, within the range of keys and positions.
pub(crate) fn whole(real: f64) -> Option<i128> {
    (real.fract() == 0.0 && real.abs() < 1e19).then_some(real as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_different_types_compare_by_value() {
        use Ordering::{Equal, Greater, Less};
        let order = |a: i128, b: f64| Number::Whole(a).compare(Number::Real(b));
        for (a, b, expected) in [
            (1, 1.0, Some(Equal)),
            (0, -0.0, Some(Equal)),
            (1, 1.5, Some(Less)),
            (-1, -1.5, Some(Greater)),
            ((1 << 53) + 1, (1_i64 << 53) as f64, Some(Greater)),
            (i128::from(u64::MAX), f64::INFINITY, Some(Less)),
            (i128::from(i64::MIN), f64::NEG_INFINITY, Some(Greater)),
            (0, f64::NAN, None),
        ] {
            assert_eq!(order(a, b), expected, "{a} and {b}");
            let turned = Number::Real(b).compare(Number::Whole(a));
            assert_eq!(turned, expected.map(Ordering::reverse), "{b} and {a}");
        }
    }
}
