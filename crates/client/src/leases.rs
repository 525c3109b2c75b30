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
    /// Its version, if the response has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Its entity tag, if the response had one. Items of a list have none.
    #[serde(skip)]
    pub etag: Option<String>,
}

impl Lease {
    /// What to send as `If-Match`: the entity tag, or the version of an item of a list.
    pub fn if_match(&self) -> Option<String> {
        self.etag.clone().or_else(|| self.version.map(|version| format!("\"{version}\"")))
    }
}
