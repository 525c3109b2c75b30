//! Where the database stood when something was read. While it stands there, whatever was read is still so.

use hyperfleet_core::Version;

use crate::memory::Mark;

/// Between two that are equal nothing was written. The later is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// How often everything that was known had to be forgotten: behind a new connection there may be another database,
    /// whose feed stands at the same place by chance.
    pub(crate) era: u64,
    pub(crate) mark: Mark,
}

impl Moment {
    /// The newest version at that time.
    pub fn version(&self) -> Version {
        self.mark.version
    }
}
