//! What waits for its adapters, counted without looking at what does not.

use hyperfleet_core::Timestamp;

/// The waiting resources of every kind.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    /// How many wait, by kind: active ones and finalizing ones.
    pub(crate) waiting: Vec<(String, u64, u64)>,
    /// Those that have waited for too long.
    pub(crate) stuck: Vec<Stuck>,
}

/// Resources of one kind, all active or all finalizing, that have waited for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Their kind.
    pub(crate) kind: String,
    /// Whether they are finalizing.
    pub(crate) finalizing: bool,
    /// How many there are.
    pub(crate) count: u64,
    /// Since when the first of them waits.
    pub(crate) since: Timestamp,
}
