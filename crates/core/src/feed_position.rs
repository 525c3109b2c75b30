//! A place in the change feed. Versions count the changes of a database. A database that was restored counts on from an
//! earlier version, so a version alone may mean two changes; the epoch tells which history it belongs to.

use std::fmt;

use crate::Version;

/// A history of versions, by a random number. It changes when a database is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Epoch(pub i64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A version of an epoch. Clients see it as an opaque text: as entity tag, and as the place to resume a watch from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeedPosition {
    /// The history.
    pub epoch: Epoch,
    /// The version in it.
    pub version: Version,
}

impl FeedPosition {
    /// Parses a printed position. A version alone, as people write it, has no epoch.
    pub fn parse(text: &str) -> Option<(Version, Option<Epoch>)> {
        let (version, epoch) = match text.split_once('-') {
            Some((version, epoch)) => (version, Some(epoch)),
            None => (text, None),
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let version = is_number(version).then(|| version.parse().ok().map(Version)).flatten()?;
        let Some(epoch) = epoch else { return Some((version, None)) };
        let epoch = Epoch(i64::from_str_radix(epoch, 16).ok()?);
        (text == Self { epoch, version }.to_string()).then_some((version, Some(epoch)))
    }

    /// Whether a text means this position: its printed form, or its version alone.
    pub(crate) fn is_meant_by(self, text: &str) -> bool {
        text == self.to_string() || text == self.version.to_string()
    }
}

impl fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.version, self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_printed_and_a_version_alone_has_no_epoch() {
        for epoch in [0, 0x2a, 0xffff_ffff, i64::MAX] {
            let position = FeedPosition { epoch: Epoch(epoch), version: Version(4711) };
            let printed = position.to_string();
            assert_eq!(FeedPosition::parse(&printed), Some((Version(4711), Some(Epoch(epoch)))), "{printed}");
            assert!(position.is_meant_by(&printed) && position.is_meant_by("4711"), "{printed}");
            let other = FeedPosition { epoch: Epoch(7), ..position };
            assert!(!other.is_meant_by(&printed) && !other.is_meant_by("4712"), "{printed}");
        }
        assert_eq!(FeedPosition::parse("0"), Some((Version(0), None)));
        for bad in [
            "",
            "-",
            "-1",
            "+1",
            "x",
            "1.0",
            "0x1",
            "1-",
            "-0000002a",
            "1-2a",
            "1-0000002A",
            "01-0000002a",
            "1-0000002a-",
            "1-+000002a",
            "9223372036854775808",
            " 1",
        ] {
            assert_eq!(FeedPosition::parse(bad), None, "{bad}");
        }
    }
}
