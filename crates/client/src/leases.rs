//! Leases, which expire by the server's clock.

use hyperfleet_core::Timestamp;
use serde::{Deserialize, Serialize};

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The name of the lease.
    pub name: String,
    /// The holder.
    pub holder: String,
    /// Until when, by the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_time: Option<Timestamp>,
    /// Its version, if the response has it: to be used as `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
