//! Leases: who of several works on what, kept by the server and its clock.

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

/// How many leases are asked for at once.
const PAGE: u64 = 100;

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What is leased.
    pub name: String,
    /// By whom.
    pub holder: String,
    /// Until when, by the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_time: Option<Timestamp>,
    /// Its version, if the answer tells it: to be used as `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl Request {
    /// The first page of the leases of a group that somebody has.
    pub fn leases(group: &str) -> Self {
        Self::get("/leases").param("group", group).param("size", &PAGE)
    }

    /// Renews a lease that has that version, or takes one that nobody has. No time at all gives it back.
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
    /// The leases of a group that somebody has.
    pub async fn leases(&self, group: &str) -> Result<Vec<Lease>, Error> {
        self.whole(Request::leases(group)).await
    }

    /// Renews a lease that has that version, or takes one that nobody has; else the error is a conflict. No time at all
    /// gives it back. It is not sent twice: after a lost answer, look at who has it.
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
