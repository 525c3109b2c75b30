//! A list as the store understands it: a filter, an order, and a slice. The scope of a route is part of the filter;
//! no caller's text becomes part of a statement.

use hyperfleet_core::search::{Filter, Order, Position};
use hyperfleet_core::{PageBytes, Report, Resource, Version};

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

/// Which part of a list that is in the order of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Where it begins.
    pub start: SliceStart,
    /// How many to return.
    pub limit: u64,
    /// Whether to count the whole list.
    pub count: bool,
}

/// Where a part of a list begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceStart {
    /// After this many.
    Offset(u64),
    /// Behind a name, whether it is still there or not.
    After(String),
}

impl Slice {
    /// The first slice of this size.
    #[must_use]
    pub fn first(&self) -> Self {
        Self { start: SliceStart::Offset(0), limit: self.limit, count: false }
    }

    /// What is bound to a statement: the name to begin behind, how many to skip, and how many to read, which is one more
    /// than are wanted, to know whether the list goes on. Every name is behind the empty one.
    pub(crate) fn bounds(&self) -> (&str, i64, i64) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let (after, offset) = match &self.start {
            SliceStart::Offset(offset) => ("", number(*offset)),
            SliceStart::After(name) => (name.as_str(), 0),
        };
        (after, offset, number(self.limit.saturating_add(1)))
    }

    /// Cuts off what was read beyond the slice; whether there was such.
    pub(crate) fn cut<T>(&self, items: &mut Vec<T>) -> bool {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        more
    }
}

/// A slice of the reports on a resource, from one snapshot.
#[derive(Debug, Default)]
pub struct ReportPage {
    /// The newest version in the snapshot.
    pub version: Version,
    /// How many there are, if that was asked for.
    pub total: Option<u64>,
    /// The slice, by adapter.
    pub items: Vec<Report>,
    /// Whether the list goes on behind it.
    pub more: bool,
}

impl ReportPage {
    /// Adds the next report; false if the page ends before it.
    pub(crate) fn take(&mut self, slice: &Slice, bytes: &mut PageBytes<'_>, report: Report) -> bool {
        self.more = self.items.len() as u64 == slice.limit || !bytes.takes(report.printed_size());
        if !self.more {
            self.items.push(report);
        }
        !self.more
    }
}
