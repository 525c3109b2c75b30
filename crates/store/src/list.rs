//! A list as the store understands it: a filter, an order, and a slice. The scope of a route is part of the filter;
//! no caller's text becomes part of a statement.

use hyperfleet_core::search::{Filter, Order, Position};
use hyperfleet_core::{Report, Resource, Version};

/// Which resources, in which order, and which slice of them.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// Which resources, those of the route's scope alone.
    pub filter: Filter,
    /// The order; ties are broken by id in the direction of the last field.
    pub order: Order,
    /// Where the slice begins.
    pub start: Start,
    /// How many to return.
    pub limit: u64,
    /// Whether to count the whole result.
    pub count: bool,
}

/// Where a slice begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// After this many.
    Offset(u64),
    /// Behind a resource, whether it is still there or not.
    After(Position),
}

/// A slice of a list, from one snapshot.
#[derive(Debug)]
pub struct Page {
    /// The newest version in the snapshot.
    pub version: Version,
    /// The size of the whole result, if it was asked for.
    pub total: Option<u64>,
    /// The slice.
    pub items: Vec<Resource>,
    /// Whether the list goes on behind it.
    pub more: bool,
}

/// Which part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// How many to skip.
    pub offset: u64,
    /// How many to return.
    pub limit: u64,
}

/// A slice of the reports on a resource, from one snapshot.
#[derive(Debug)]
pub struct ReportPage {
    /// The newest version in the snapshot.
    pub version: Version,
    /// How many there are.
    pub total: u64,
    /// The slice, by adapter.
    pub items: Vec<Report>,
}
