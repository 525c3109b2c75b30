//! Numbers that every commit keeps up to date: how many resources there are of a kind, and how many have a facet. A page
//! shows them as its total, and they tell where a search begins.

use super::Value;

/// Of these kinds, or with one of these facets.
pub(crate) struct Kept {
    pub(crate) table: &'static str,
    pub(crate) key: &'static str,
    pub(crate) values: Vec<Value>,
}

impl Kept {
    /// The sum of a column as an expression, with the values bound at these places.
    pub(crate) fn sum(&self, column: &str, places: &[String]) -> String {
        let (table, key, places) = (self.table, self.key, places.join(", "));
        format!("(select cast(coalesce(sum({column}), 0) as bigint) from {table} where {key} in ({places}))")
    }
}
