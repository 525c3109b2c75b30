//! Equality of JSON values within a budget, for `enum`, `const` and `uniqueItems`: members in any order, numbers by
//! value. Many values are compared by their hashes first, so that lists do not take quadratic time.

use std::hash::{BuildHasher, Hash, Hasher};

use serde_json::{Number, Value};

use super::budget::{Budget, Spent};
use crate::Decimal;
use crate::json::same_number;

/// Hashes values with a seed of its own, which callers cannot know.
#[derive(Debug, Default, Clone)]
pub(super) struct ValueHasher(foldhash::fast::RandomState);

impl ValueHasher {
    /// A hash that equal values share.
    pub(super) fn hash(&self, value: &Value, budget: &mut Budget) -> Result<u64, Spent> {
        budget.take(1)?;
        let mut hasher = self.0.build_hasher();
        match value {
            Value::Null => 0_u8.hash(&mut hasher),
            Value::Bool(flag) => (1_u8, flag).hash(&mut hasher),
            Value::Number(number) => {
                budget.take_text(number.as_str())?;
                hash_number(number, &mut hasher);
            }
            Value::String(text) => {
                budget.take_text(text)?;
                (3_u8, text).hash(&mut hasher);
            }
            Value::Array(items) => {
                (4_u8, items.len()).hash(&mut hasher);
                for item in items {
                    self.hash(item, budget)?.hash(&mut hasher);
                }
            }
            Value::Object(members) => {
                let mut sum = 0_u64;
                for (name, member) in members {
                    budget.take_text(name)?;
                    sum = sum.wrapping_add(self.0.hash_one((name, self.hash(member, budget)?)));
                }
                (5_u8, members.len(), sum).hash(&mut hasher);
            }
        }
        Ok(hasher.finish())
    }
}

/// Equal numbers are written in many ways.
fn hash_number(number: &Number, hasher: &mut impl Hasher) {
    let exact = |number: &Decimal| Some(number.floor()).filter(|floor| floor.1).map(|floor| floor.0);
    match number.as_i64() {
        Some(whole) => (2_u8, whole).hash(hasher),
        None => match Decimal::parse(number.as_str()) {
            Some(decimal) => match exact(&decimal) {
                Some(whole) => (2_u8, whole).hash(hasher),
                None => (2_u8, decimal).hash(hasher),
            },
            None => (2_u8, number.as_str()).hash(hasher),
        },
    }
}

/// Whether two values are equal.
pub(super) fn equal(a: &Value, b: &Value, budget: &mut Budget) -> Result<bool, Spent> {
    budget.take(1)?;
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (name, a) in a {
                budget.take_text(name)?;
                match b.get(name) {
                    Some(b) if equal(a, b, budget)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Value::String(a), Value::String(b)) => {
            budget.take_text(a)?;
            Ok(a == b)
        }
        (Value::Number(a), Value::Number(b)) => {
            budget.take_text(a.as_str())?;
            budget.take_text(b.as_str())?;
            Ok(same_number(a, b))
        }
        (a, b) => Ok(a == b),
    }
}

/// The first two equal items of a list.
pub(super) fn has_duplicates(items: &[Value], budget: &mut Budget) -> Result<bool, Spent> {
    let hasher = ValueHasher::default();
    let mut hashes = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        hashes.push((hasher.hash(item, budget)?, i));
    }
    hashes.sort_unstable();
    for group in hashes.chunk_by(|a, b| a.0 == b.0) {
        for (n, &(_, i)) in group.iter().enumerate() {
            for &(_, j) in &group[..n] {
                if equal(&items[i], &items[j], budget)? {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}
