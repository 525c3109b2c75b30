//! What is read of one resource, its timeline, differences and explanation, and what the server says about the caller
//! and itself.

use hyperfleet_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How to read a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GetQuery {
    /// Only these members.
    pub fields: Option<String>,
    /// As it was at the end of this generation.
    pub generation: Option<i64>,
}

/// A page of a timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimelineQuery {
    /// How many entries.
    pub page_size: Option<u64>,
    /// Where the page before ended.
    pub page_token: Option<String>,
    /// Whether to count.
    pub total: bool,
}

/// One change of a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimelineEntry {
    /// When.
    pub time: Timestamp,
    /// The version that the resource got by it.
    pub version: u64,
    /// The identity that made the change.
    pub actor: String,
    /// The id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The action, such as `spec_changed`.
    pub action: String,
    /// The changed members.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// The reporting adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// Which condition changed its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The reason of a forced deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Removed descendants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<Value>,
    /// Resources that referred to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_references_of: Vec<Value>,
}

/// One member that differs; an absent side is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The path of the member.
    pub path: String,
    /// The value before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The value after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// What differs between two generations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// The id of the resource.
    pub id: String,
    /// From the end of this generation.
    pub from: i64,
    /// To the end of this one.
    pub to: i64,
    /// The differences.
    pub changes: Vec<Change>,
}

/// Why a resource is not reconciled, and what would help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// `Reconciled`, `Reconciling`, `Degraded`, `Finalizing` or `Stuck`.
    pub phase: String,
    /// The summary in a sentence.
    pub summary: String,
    /// The blockers, worst first.
    pub blockers: Vec<Blocker>,
}

/// A blocker of a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// `adapter`, `child` or `reference`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How it blocks.
    pub detail: String,
    /// The action that helps.
    pub action: String,
}

/// The caller's identity, as the server sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhoAmI {
    /// The name, if there is one.
    pub identity: Option<String>,
    /// Whether it is a part of the system.
    #[serde(default)]
    pub system: bool,
    /// The tenant, where there are tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Map<String, Value>>,
    /// The roles, where there are roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
}

/// Whether something is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// The role that allows it.
    pub rule: String,
}

/// What the server says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Which service it is.
    #[serde(default)]
    pub service: String,
    /// Its release.
    #[serde(default)]
    pub version: String,
    /// The versions of the API that it serves.
    #[serde(default)]
    pub api_versions: Vec<String>,
    /// The commit of the build.
    #[serde(default)]
    pub git_sha: String,
    /// When it was built.
    #[serde(default)]
    pub build_timestamp: String,
}
