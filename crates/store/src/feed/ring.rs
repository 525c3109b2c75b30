//! The newest of what happened, in memory and bounded, for all who follow closely. What is too old for it has to be
//! read from the database by whoever needs it.

use std::collections::VecDeque;
use std::sync::Arc;

use hyperfleet_core::Version;

const MAX_ITEMS: usize = 4096;
const MAX_BYTES: usize = 16 << 20;

/// How much of a ring may come at once, so that those who follow can keep up with it.
pub const SLICE_BYTES: usize = MAX_BYTES / 8;

/// Something that has its place among the versions.
pub trait Versioned {
    /// Its place.
    fn version(&self) -> Version;
    /// About how many bytes it takes.
    fn size(&self) -> usize;
}

/// All that happened after one version, up to another.
#[derive(Debug)]
pub struct Ring<T> {
    items: VecDeque<Arc<T>>,
    bytes: usize,
    /// Nothing at or before the first is here, nothing after the second is known. `None` while nobody reads.
    reach: Option<(Version, Version)>,
}

/// What a ring holds after some version.
#[derive(Debug)]
pub enum Held<T> {
    /// These, and up to this version nothing else.
    Items(Vec<Arc<T>>, Version),
    /// It does not go back that far.
    NotThatFar,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), bytes: 0, reach: None }
    }
}

impl<T: Versioned> Ring<T> {
    /// Begins anew behind `version`.
    pub fn restart(&mut self, version: Option<Version>) {
        *self = Self { reach: version.map(|version| (version, version)), ..Self::default() };
    }

    /// Whether somebody reads.
    pub fn is_open(&self) -> bool {
        self.reach.is_some()
    }

    /// Takes in what comes next, up to `through`.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>, through: Version) {
        let Some((base, newest)) = &mut self.reach else { return };
        *newest = through;
        for item in items {
            self.bytes += item.size();
            self.items.push_back(Arc::new(item));
        }
        while self.items.len() > MAX_ITEMS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.items.pop_front() else { return };
            self.bytes -= oldest.size();
            *base = oldest.version();
        }
    }

    /// At most `limit` of what came after `position`.
    pub fn after(&self, position: Version, limit: usize) -> Held<T> {
        let Some((_, through)) = self.reach.filter(|(base, _)| *base <= position) else {
            return Held::NotThatFar;
        };
        let start = self.items.partition_point(|item| item.version() <= position);
        let items: Vec<_> = self.items.range(start..).take(limit).cloned().collect();
        let through = match items.last() {
            Some(last) if start + items.len() < self.items.len() => last.version(),
            _ => through,
        };
        Held::Items(items, through)
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

    fn held(ring: &Ring<Item>, position: i64, limit: usize) -> Option<(Vec<i64>, i64)> {
        match ring.after(Version(position), limit) {
            Held::Items(items, through) => Some((items.iter().map(|item| item.0).collect(), through.0)),
            Held::NotThatFar => None,
        }
    }

    #[test]
    fn a_ring_tells_all_that_came_after_a_version_or_that_it_cannot() {
        let mut ring = Ring::default();
        ring.extend([Item(1, 1)], Version(1));
        assert_eq!(held(&ring, 0, 9), None, "nobody reads");
        ring.restart(Some(Version(10)));
        assert_eq!(held(&ring, 10, 9), Some((vec![], 10)));
        assert_eq!(held(&ring, 9, 9), None);
        ring.extend([Item(12, 1), Item(13, 1), Item(15, 1)], Version(17));
        assert_eq!(held(&ring, 10, 9), Some((vec![12, 13, 15], 17)));
        assert_eq!(held(&ring, 10, 2), Some((vec![12, 13], 13)), "no further than what it tells");
        assert_eq!(held(&ring, 12, 2), Some((vec![13, 15], 17)));
        assert_eq!(held(&ring, 17, 2), Some((vec![], 17)));
    }

    #[test]
    fn a_ring_is_bounded_by_number_and_by_bytes() {
        let mut ring = Ring::default();
        ring.restart(Some(Version(0)));
        ring.extend((1..=MAX_ITEMS as i64 + 5).map(|version| Item(version, 1)), Version(9999));
        assert_eq!(held(&ring, 4, 9), None);
        assert_eq!(held(&ring, 5, 1), Some((vec![6], 6)));
        ring.extend([Item(10_000, MAX_BYTES - 1), Item(10_001, 1), Item(10_002, 1)], Version(10_002));
        assert_eq!(held(&ring, 9_999, 9), None);
        assert_eq!(held(&ring, 10_000, 9), Some((vec![10_001, 10_002], 10_002)));
        ring.extend([Item(10_003, MAX_BYTES + 1)], Version(10_003));
        assert_eq!(held(&ring, 10_002, 9), None, "even one can be too large");
        assert_eq!(held(&ring, 10_003, 9), Some((vec![], 10_003)));
    }
}
