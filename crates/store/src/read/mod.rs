//! The read path: what readers ask for, and the reading side of either database.

pub(crate) mod lists;
mod reader;
pub(crate) mod surroundings;

pub(crate) use reader::{FeedReader, Reader, on_store};
