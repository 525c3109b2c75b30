//! The caller's identity for audit fields: from a header that a trusted proxy sets, or from a claim. A valid token
//! without a usable identity may still read.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use regex::Regex;
use serde_json::{Map, Value};

use crate::Refusal;

/// The longest name, in bytes.
pub(crate) const MAX_BYTES: usize = 255;

/// The source of the identity, and its pattern.
#[derive(Debug)]
pub(crate) struct IdentityRule {
    pub(crate) header: Option<HeaderName>,
    pub(crate) claim: String,
    /// Fits the whole name or not at all.
    pub(crate) pattern: Option<Regex>,
}

impl IdentityRule {
    /// The name that the request's header gives; `None` leaves it to the claim. A name that breaks a rule is
    /// refused, because the proxy did name a caller.
    pub(crate) fn in_headers(&self, headers: &HeaderMap) -> Option<Result<Arc<str>, Refusal>> {
        let mut values = headers.get_all(self.header.as_ref()?).iter();
        let value = values.next()?;
        if values.next().is_some() {
            return Some(Err(Refusal::BadIdentity));
        }
        match str::from_utf8(value.as_bytes()) {
            Ok(text) if text.trim().is_empty() => None,
            Ok(text) => Some(self.check(text)),
            Err(_) => Some(Err(Refusal::BadIdentity)),
        }
    }

    /// The name that the token gives.
    pub(crate) fn in_claims(&self, claims: &Map<String, Value>) -> Result<Arc<str>, Refusal> {
        self.check(claims.get(&self.claim).and_then(Value::as_str).unwrap_or_default())
    }

    fn check(&self, text: &str) -> Result<Arc<str>, Refusal> {
        let name = plain(text)?;
        match &self.pattern {
            Some(pattern) if !pattern.is_match(name) => Err(Refusal::BadIdentity),
            _ => Ok(name.into()),
        }
    }
}

/// A name without the spaces around it, when it can be one at all.
pub(crate) fn plain(text: &str) -> Result<&str, Refusal> {
    let name = text.trim();
    if name.is_empty() {
        Err(Refusal::NoIdentity)
    } else if name.len() > MAX_BYTES || name.contains(char::is_control) {
        Err(Refusal::BadIdentity)
    } else {
        Ok(name)
    }
}
