//! From a filter to SQL, for both stores: one tree, one translation, and a dialect for the little that differs. Every
//! value of a caller is bound; the text of a statement is made of names in this folder, of the configured kinds and of the
//! numbers of a page.

mod dialect;
mod kept;
mod order;
mod plan;
#[cfg(test)]
pub(crate) mod plans;
mod predicate;
mod select;

pub(crate) use dialect::{Dialect, Value};
pub(crate) use kept::Kept;
pub(crate) use plan::{Driver, Plan};
pub(crate) use select::Select;
