//! Ranges of ids by hash, which replicas divide among themselves.

/// How many ranges there are: enough for even shares of a few replicas.
pub const COUNT: u8 = 64;

/// A set of ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ranges(u64);

impl Ranges {
    /// Every range.
    pub const ALL: Self = Self(u64::MAX);
    /// None.
    pub const NONE: Self = Self(0);

    /// The set with `range`.
    #[must_use]
    pub fn with(self, range: u8) -> Self {
        Self(self.0 | 1 << (range % COUNT))
    }

    /// The union.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The difference.
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

/// The range of an id. Every release must agree on it and on [`priority`], because replicas of two releases run side
/// by side during an update.
pub(crate) fn range_of(id: &str) -> u8 {
    (stirred(folded(id)) >> 58) as u8
}

/// The priority of a replica for a range; the replica with the highest owns it. When a replica comes or goes, only its own
/// ranges move.
pub fn priority(replica: &str, range: u8) -> u64 {
    stirred(stirred(folded(replica)) ^ u64::from(range))
}

/// FNV-1a.
fn folded(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The finalizer of MurmurHash3: every bit of the result depends on every bit of the hash.
fn stirred(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_ids_are_spread_evenly() {
        let mut counts = [0_u32; COUNT as usize];
        for i in 0..64_000 {
            let id = format!("0198f3a0-{:04x}-7abc-8def-{i:012x}", i / 7);
            counts[usize::from(range_of(&id))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn replicas_with_similar_names_get_equal_shares() {
        for replicas in 2..=5 {
            let mut counts = [0_u32; 5];
            for deployment in 0..50 {
                let names: Vec<_> = (0..replicas).map(|i| format!("sentinel-{deployment}-{i}")).collect();
                for range in 0..COUNT {
                    let first = (0..replicas).max_by_key(|i| priority(&names[*i], range)).unwrap_or_default();
                    counts[first] += 1;
                }
            }
            let fair = 50 * u32::from(COUNT) / replicas as u32;
            let shares = &counts[..replicas];
            assert!(shares.iter().all(|count| count.abs_diff(fair) < fair / 5), "{shares:?}");
        }
    }

    #[test]
    fn every_release_agrees_on_ranges_and_priorities() {
        let ids = ["", "a", "0198f3a0-0000-7abc-8def-000000000001"];
        assert_eq!(ids.map(range_of), [59, 32, 44]);
        let priorities = [priority("a", 0), priority("a", 63), priority("b", 0)];
        assert_eq!(priorities, [0x683e_506c_7623_6dfc, 0x71b2_4665_9a5c_4073, 0x3489_ca93_6bf5_7dd3]);
    }
}
