//! Counts of pending resources.

use hyperfleet_core::Timestamp;

/// The pending resources of every kind.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The kind, and how many active and how many finalizing resources are pending.
    pub(crate) waiting: Vec<(String, u64, u64)>,
    /// Resources that have been pending for too long.
    pub(crate) stuck: Vec<Stuck>,
}

/// Resources of a kind, all active or all finalizing, that have been pending for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Their kind.
    pub(crate) kind: String,
    /// Whether they are finalizing.
    pub(crate) finalizing: bool,
    /// How many there are.
    pub(crate) count: u64,
    /// The oldest `pending_since`.
    pub(crate) since: Timestamp,
}
