//! Translates a filter to SQL for both stores; [`Dialect`] has the differences. Every value of a caller is bound. The text
//! of a statement consists of names in this directory, configured kinds and numbers of a page.

mod dialect;
mod order;
mod plan;
#[cfg(test)]
#[path = "../tests/plans/fleet.rs"]
pub(crate) mod plans;
mod predicate;
mod select;

pub(crate) use dialect::{Dialect, Value};
pub(crate) use plan::{Driver, MaintainedCounts, Plan};
pub(crate) use select::Select;
