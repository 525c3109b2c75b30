//! The read path: what readers ask for, and the reading side of either database.

pub(crate) mod lists;
mod reader;

pub(crate) use reader::{FeedReader, Reader, on_store};

/// The most descendants and referrers that are read to explain a resource. A deletion may wait for very many, and an
/// explanation names a few.
pub(crate) const MAX_RELATED: usize = 1_000;
