//! Tenants. A resource belongs to the tenant of the caller that created it, permanently.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::json_text;

/// A value for each dimension, in one written form: a JSON object with its keys in order. Two tenants are the same
/// when all of it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// The tenant with these dimensions.
    pub fn new<K: Serialize, V: Serialize>(dimensions: &BTreeMap<K, V>) -> Self {
        Self(json_text(dimensions).into())
    }

    /// Takes what [`Self::as_str`] gave.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// Its written form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of a dimension.
    pub fn dimension(&self, key: &str) -> Option<String> {
        serde_json::from_str::<BTreeMap<String, String>>(&self.0).ok()?.remove(key)
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
