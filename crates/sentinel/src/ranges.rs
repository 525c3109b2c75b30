//! The ids of all resources, cut into ranges of equal size by a hash, so that replicas can share them out.

use std::fmt;

/// How many ranges there are, and so the most replicas that have something to do.
pub const COUNT: u8 = 16;

/// A set of ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ranges(u16);

impl Ranges {
    /// Every range.
    pub const ALL: Self = Self(u16::MAX);
    /// None.
    pub const NONE: Self = Self(0);

    /// The same set with `range` in it.
    #[must_use]
    pub fn with(self, range: u8) -> Self {
        Self(self.0 | 1 << (range % COUNT))
    }

    /// The same set without `range`.
    #[must_use]
    pub fn without(self, range: u8) -> Self {
        Self(self.0 & !(1 << (range % COUNT)))
    }

    /// Those of this set that are not in the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether `range` is in it.
    pub fn contains(self, range: u8) -> bool {
        self.0 & 1 << (range % COUNT) != 0
    }

    /// Whether the range of this id is in it.
    pub fn covers(self, id: &str) -> bool {
        self.contains(range_of(id))
    }

    /// How many it holds.
    pub fn len(self) -> u8 {
        self.0.count_ones() as u8
    }

    /// Whether it holds none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..COUNT).filter(move |range| self.contains(*range))
    }
}

impl FromIterator<u8> for Ranges {
    fn from_iter<I: IntoIterator<Item = u8>>(ranges: I) -> Self {
        ranges.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(|range| range.to_string()).collect();
        f.write_str(&names.join(","))
    }
}

/// The range of an id. Every release must agree on it, because replicas of two releases run side by side during an
/// update: FNV-1a, stirred once more for its upper bits.
pub fn range_of(id: &str) -> u8 {
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    ((hash ^ hash >> 33) >> 60) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_made_one_after_the_other_are_spread_evenly() {
        let mut counts = [0_u32; COUNT as usize];
        for i in 0..16_000 {
            let id = format!("0198f3a0-{:04x}-7abc-8def-{i:012x}", i / 7);
            counts[usize::from(range_of(&id))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn every_release_agrees_on_the_range_of_an_id() {
        let ranges: Vec<_> = ["", "a", "0198f3a0-0000-7abc-8def-000000000001"].map(range_of).to_vec();
        assert_eq!(ranges, RANGES_OF_THE_FIRST_RELEASE);
    }

    const RANGES_OF_THE_FIRST_RELEASE: [u8; 3] = [14, 14, 1];
}
