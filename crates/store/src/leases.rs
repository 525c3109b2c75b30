//! Leases. Each is a row with its own version, so of two simultaneous claims one succeeds. They do not touch the feed, so
//! renewals delay no write of a resource and notify no watcher.

use std::time::Duration;

use hyperfleet_core::{AccessScope, Lease, Tenant};

/// How long an expired lease stays.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// A slice of the held leases of a group, from one snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct LeasePage {
    /// How many there are, if it was requested.
    pub total: Option<u64>,
    /// The slice, by name.
    pub items: Vec<Lease>,
    /// Whether there are more after the slice.
    pub more: bool,
}

/// The owner of the groups that a caller sees: its tenant, or none for the system.
pub(crate) fn lease_owner(scope: &AccessScope) -> &str {
    scope.tenant().map_or("", Tenant::as_str)
}
