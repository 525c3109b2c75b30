//! A bounded buffer of the newest items in the order of versions. A reader that needs older ones reads the database.

use std::collections::VecDeque;
use std::sync::Arc;

use hyperfleet_core::Version;

const MAX_ITEMS: usize = 4096;
const MAX_BYTES: usize = 16 << 20;

/// An item with a version.
pub trait Versioned {
    /// Its version.
    fn version(&self) -> Version;
    /// Roughly its size in bytes.
    fn size(&self) -> usize;
}

/// Every item after one version, up to another.
#[derive(Debug)]
pub struct RingBuffer<T> {
    items: VecDeque<Arc<T>>,
    bytes: usize,
    max_bytes: usize,
    /// The buffer is complete after the first version and up to the second. `None` while it is closed.
    range: Option<(Version, Version)>,
}

/// What a buffer holds after some version.
#[derive(Debug)]
pub enum Buffered<T> {
    /// These items, and up to this version no others.
    Items(Vec<Arc<T>>, Version),
    /// The version is older than the buffer.
    TooOld,
}

impl<T> Default for RingBuffer<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), bytes: 0, max_bytes: MAX_BYTES, range: None }
    }
}

impl<T: Versioned> RingBuffer<T> {
    /// Empties the buffer; it is complete after `version` from here on, or closed.
    pub fn restart(&mut self, version: Option<Version>) {
        let range = version.map(|version| (version, version));
        *self = Self { range, max_bytes: self.max_bytes, ..Self::default() };
    }

    /// Bounds the buffer to its share of so many bytes. It always keeps its newest item.
    pub fn bound(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes.min(MAX_BYTES);
        self.trim();
    }

    /// The most bytes to add at once, so that readers can keep up with the buffer.
    pub fn slice_bytes(&self) -> usize {
        self.max_bytes / 8
    }

    /// Whether items are added.
    pub fn is_open(&self) -> bool {
        self.range.is_some()
    }

    /// Adds the next items, which are all up to `through`.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>, through: Version) {
        let Some((_, newest)) = &mut self.range else { return };
        *newest = through;
        for item in items {
            self.bytes += item.size();
            self.items.push_back(Arc::new(item));
        }
        self.trim();
    }

    fn trim(&mut self) {
        let Some((base, _)) = &mut self.range else { return };
        while self.items.len() > MAX_ITEMS || (self.bytes > self.max_bytes && self.items.len() > 1) {
            let Some(oldest) = self.items.pop_front() else { return };
            self.bytes -= oldest.size();
            *base = oldest.version();
        }
    }

    /// At most `limit` items after `position`.
    pub fn after(&self, position: Version, limit: usize) -> Buffered<T> {
        let Some((_, through)) = self.range.filter(|(base, _)| *base <= position) else {
            return Buffered::TooOld;
        };
        let start = self.items.partition_point(|item| item.version() <= position);
        let items: Vec<_> = self.items.range(start..).take(limit).cloned().collect();
        let through = match items.last() {
            Some(last) if start + items.len() < self.items.len() => last.version(),
            _ => through,
        };
        Buffered::Items(items, through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Item(i64, usize);

    impl Versioned for Item {
        fn version(&self) -> Version {
            Version(self.0)
        }

        fn size(&self) -> usize {
            self.1
        }
    }

    fn buffered(buffer: &RingBuffer<Item>, position: i64, limit: usize) -> Option<(Vec<i64>, i64)> {
        match buffer.after(Version(position), limit) {
            Buffered::Items(items, through) => Some((items.iter().map(|item| item.0).collect(), through.0)),
            Buffered::TooOld => None,
        }
    }

    #[test]
    fn a_buffer_returns_every_item_after_a_version_or_says_that_it_is_too_old() {
        let mut buffer = RingBuffer::default();
        buffer.extend([Item(1, 1)], Version(1));
        assert_eq!(buffered(&buffer, 0, 9), None, "the buffer is closed");
        buffer.restart(Some(Version(10)));
        assert_eq!(buffered(&buffer, 10, 9), Some((vec![], 10)));
        assert_eq!(buffered(&buffer, 9, 9), None);
        buffer.extend([Item(12, 1), Item(13, 1), Item(15, 1)], Version(17));
        assert_eq!(buffered(&buffer, 10, 9), Some((vec![12, 13, 15], 17)));
        assert_eq!(
            buffered(&buffer, 10, 2),
            Some((vec![12, 13], 13)),
            "no further than the last returned item"
        );
        assert_eq!(buffered(&buffer, 12, 2), Some((vec![13, 15], 17)));
        assert_eq!(buffered(&buffer, 17, 2), Some((vec![], 17)));
    }

    #[test]
    fn a_buffer_is_bounded_by_items_and_by_bytes() {
        let mut buffer = RingBuffer::default();
        buffer.restart(Some(Version(0)));
        buffer.extend((1..=MAX_ITEMS as i64 + 5).map(|version| Item(version, 1)), Version(9999));
        assert_eq!(buffered(&buffer, 4, 9), None);
        assert_eq!(buffered(&buffer, 5, 1), Some((vec![6], 6)));
        buffer.extend([Item(10_000, MAX_BYTES - 1), Item(10_001, 1), Item(10_002, 1)], Version(10_002));
        assert_eq!(buffered(&buffer, 9_999, 9), None);
        assert_eq!(buffered(&buffer, 10_000, 9), Some((vec![10_001, 10_002], 10_002)));
        buffer.extend([Item(10_003, MAX_BYTES + 1)], Version(10_003));
        assert_eq!(buffered(&buffer, 10_001, 9), None);
        assert_eq!(buffered(&buffer, 10_002, 9), Some((vec![10_003], 10_003)), "the newest item is kept");
        buffer.restart(Some(Version(0)));
        buffer.extend((1..=9).map(|version| Item(version, 10)), Version(9));
        buffer.bound(30);
        assert_eq!(buffered(&buffer, 5, 9), None);
        assert_eq!(buffered(&buffer, 6, 9), Some((vec![7, 8, 9], 9)));
    }
}
