//! Leases, which expire by the server's clock.

use std::time::Duration;

use http::header::IF_NONE_MATCH;
use http::{HeaderValue, Method};
use hyperfleet_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::Client;
use crate::error::Error;
use crate::path::encoded;
use crate::request::Request;

/// Page size.
const PAGE: u64 = 100;

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

impl Request {
    /// The first page of the held leases of a group.
    pub fn leases(group: &str) -> Self {
        Self::get("/leases").param("group", group).param("size", &PAGE)
    }

    /// Renews a lease of this version, or takes a free one. A zero TTL releases it.
    pub fn put_lease(group: &str, name: &str, holder: &str, ttl: Duration, if_match: Option<u64>) -> Self {
        let ttl = format!("{}ms", ttl.as_millis());
        let request = Self::new(Method::PUT, format!("/leases/{}/{}", encoded(group), encoded(name)))
            .json(&json!({ "holder": holder, "ttl": ttl }));
        match if_match {
            Some(version) => request.if_match(Some(version)),
            None => request.header(IF_NONE_MATCH, HeaderValue::from_static("*")),
        }
    }
}

impl Client {
    /// The held leases of a group.
    pub async fn leases(&self, group: &str) -> Result<Vec<Lease>, Error> {
        self.whole(Request::leases(group)).await
    }

    /// Renews a lease of this version, or takes a free one; otherwise the error is a conflict. A zero TTL releases it. It is
    /// not retried: after a lost answer, list the leases.
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
