//! Leases: who of several works on what, kept by the server and its clock.

use std::time::Duration;

use http::Method;
use hyperfleet_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::Client;
use crate::error::Error;
use crate::path::encoded;
use crate::request::Request;

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What is leased.
    pub name: String,
    /// By whom; empty if it was given back.
    #[serde(default)]
    pub holder: String,
    /// Until when, by the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_time: Option<Timestamp>,
    /// Its version, if the answer tells it: to be used as `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl Request {
    /// The leases of a group.
    pub fn leases(group: &str) -> Self {
        Self::get("/leases").param("group", group)
    }

    /// Takes or renews a lease, if it still has that version.
    pub fn put_lease(group: &str, name: &str, holder: &str, ttl: Duration, if_match: Option<u64>) -> Self {
        let ttl = format!("{}ms", ttl.as_millis());
        Self::new(Method::PUT, format!("/leases/{}/{}", encoded(group), encoded(name)))
            .json(&json!({ "holder": holder, "ttl": ttl }))
            .if_match(if_match)
    }
}

impl Client {
    /// The leases of a group.
    pub async fn leases(&self, group: &str) -> Result<Vec<Lease>, Error> {
        self.whole(Request::leases(group)).await
    }

    /// Takes or renews a lease, if it still has that version; else the error is a conflict.
    pub async fn put_lease(
        &self,
        group: &str,
        name: &str,
        holder: &str,
        ttl: Duration,
        if_match: Option<u64>,
    ) -> Result<Lease, Error> {
        let answer = self.ask(Request::put_lease(group, name, holder, ttl, if_match)).await?;
        let mut lease: Lease = answer.json()?;
        lease.version = answer.version().or(lease.version);
        Ok(lease)
    }
}
