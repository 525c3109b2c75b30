//! What an adapter acts on. Every target tells of an object whether it is present, absent or unknown; unknown never counts
//! as absent.

#[cfg(feature = "kubernetes")]
pub mod kubernetes;

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// What a target knows of the objects that a declared resource matches.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// The objects that match, the best one first. Never empty.
    Present(Vec<Value>),
    /// The authority itself confirmed that no object matches.
    Absent,
    /// Nobody can tell.
    Unknown(TargetError),
}

/// Which objects are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// `apiVersion` of the manifest.
    pub api_version: String,
    /// `kind` of the manifest.
    pub kind: String,
    /// A namespace; `None` for cluster-scoped kinds, and for all namespaces.
    pub namespace: Option<String>,
    /// Which of them.
    pub matcher: Matcher,
}

/// How objects are matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matcher {
    /// The one of this name.
    Name(String),
    /// Those with all of these labels.
    Labels(Vec<(String, String)>),
}

/// The labels and annotations that lead from an object back to its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// Name of the adapter.
    pub adapter: String,
    /// Kind of the resource.
    pub resource_kind: String,
    /// Id of the resource.
    pub resource_id: String,
    /// Name of the declared resource in the task.
    pub task_resource: String,
    /// Generation of the resource.
    pub generation: i64,
    /// Path of the resource in the API.
    pub href: String,
}

/// How a manifest is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Whether fields that others own are taken over.
    pub force: bool,
    /// Whether an object without our labels is taken over.
    pub adopt: bool,
    /// Whether an object that differs in an immutable field, or in anything with `recreate`, is deleted first.
    pub recreate: bool,
    /// Whether an object that somebody else changed is applied again.
    pub repair: bool,
}

/// What happens to the objects that a deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Propagation {
    /// They are deleted afterwards.
    #[default]
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The object was absent.
    Created,
    /// It differed.
    Updated,
    /// Somebody else had changed what was applied before.
    Repaired,
    /// It is deleted, and created once it is gone.
    Recreating,
    /// Nothing differed, so nothing was sent.
    Unchanged,
}

/// A failed call of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetError {
    /// What follows from it.
    pub class: ErrorClass,
    /// A word in CamelCase, such as `FieldConflict`.
    pub reason: String,
    /// One line for people, without secrets.
    pub message: String,
}

/// What follows from a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The target as a whole is away: no connection, TLS, 429, 503.
    Outage {
        /// When the target asks to be called again.
        retry_after: Option<Duration>,
    },
    /// Another attempt may succeed: a timeout, 409, 500.
    Transient,
    /// Another attempt will not succeed: 403, 422, a malformed answer.
    Terminal,
    /// The target works and refuses: a business failure.
    Business,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for TargetError {}
