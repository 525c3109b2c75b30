//! Identities that must not be confused: the id of a resource and the version of a write.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A resource's id: a UUID v7, so that ids sort by age and indexes grow at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(Uuid);

impl ResourceId {
    /// A new id, later than every id this process made before.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads the one written form the API gives out (36 characters, lower case). Anything else
    /// is the id of nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = text.len() == 36 && !text.bytes().any(|b| b.is_ascii_uppercase());
        canonical.then(|| Uuid::try_parse(text).ok().map(Self)).flatten()
    }

    /// Its one written form, in `buffer`.
    pub fn written(self, buffer: &mut [u8; 36]) -> &str {
        self.0.as_hyphenated().encode_lower(buffer)
    }

    /// The plain UUID, for a store's column.
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for ResourceId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl Serialize for ResourceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a resource id"))
    }
}

/// What is kept by id. A batch looks things up by it dozens of times for each of its commands, and ids are made by the
/// server, so their hash need not withstand whoever would choose them; it is quick instead.
pub type IdMap<T> = HashMap<ResourceId, T, foldhash::fast::RandomState>;

/// The same for ids alone.
pub type IdSet = HashSet<ResourceId, foldhash::fast::RandomState>;

/// A point in the order of commits. Grows by one with every changed resource, across kinds and
/// replicas, and never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Version(pub i64);

impl Version {
    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
