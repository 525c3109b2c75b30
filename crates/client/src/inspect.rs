//! Reads of one resource, its timeline, differences and explanation, and what the server says about the caller and itself.

use hyperfleet_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::list::Page;
use crate::path::ItemPath;
use crate::request::Request;
use crate::resource::Resource;

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
    /// Which condition flipped.
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

impl Request {
    /// Reads a resource.
    pub fn read(item: &ItemPath, query: &GetQuery) -> Self {
        Self::get(item.to_string())
            .maybe("fields", query.fields.as_ref())
            .maybe("generation", query.generation.as_ref())
    }

    /// A page of what happened to a resource, newest first.
    pub fn timeline(item: &ItemPath, query: &TimelineQuery) -> Self {
        let request = Self::get(item.part("timeline"))
            .maybe("size", query.page_size.as_ref())
            .maybe("pageToken", query.page_token.as_ref());
        if query.total { request } else { request.param("total", "none") }
    }

    /// Why a resource is not reconciled.
    pub fn explain(item: &ItemPath) -> Self {
        Self::get(item.part("explain"))
    }

    /// What differs between the ends of two generations; without the second up to the newest, without the first from
    /// the one before.
    pub fn diff(item: &ItemPath, from: Option<i64>, to: Option<i64>) -> Self {
        Self::get(item.part("diff")).maybe("from", from.as_ref()).maybe("to", to.as_ref())
    }

    /// Whether the caller may do this to a kind, or to one resource.
    pub fn authz_check(verb: &str, kind: &str, id: Option<&str>) -> Self {
        let mut question = json!({ "verb": verb, "kind": kind });
        if let Some(id) = id {
            question["id"] = id.into();
        }
        Self::new(http::Method::POST, "/authz/check").json(&question)
    }
}

impl Client {
    /// Reads a resource.
    pub async fn get(&self, item: &ItemPath, query: &GetQuery) -> Result<Resource, Error> {
        self.ask(Request::read(item, query)).await?.resource()
    }

    /// A page of what happened to a resource, newest first.
    pub async fn timeline(
        &self,
        item: &ItemPath,
        query: &TimelineQuery,
    ) -> Result<Page<TimelineEntry>, Error> {
        Page::read(&self.ask(Request::timeline(item, query)).await?)
    }

    /// Why a resource is not reconciled.
    pub async fn explain(&self, item: &ItemPath) -> Result<Explanation, Error> {
        self.ask(Request::explain(item)).await?.json()
    }

    /// What differs between the ends of two generations.
    pub async fn diff(&self, item: &ItemPath, from: Option<i64>, to: Option<i64>) -> Result<Diff, Error> {
        self.ask(Request::diff(item, from, to)).await?.json()
    }

    /// The client's identity, as the server sees it.
    pub async fn whoami(&self) -> Result<WhoAmI, Error> {
        self.ask(Request::get("/whoami")).await?.json()
    }

    /// Whether we may do this to a kind, or to one resource.
    pub async fn authz_check(&self, verb: &str, kind: &str, id: Option<&str>) -> Result<Decision, Error> {
        self.ask(Request::authz_check(verb, kind, id)).await?.json()
    }

    /// What the server says about itself.
    pub async fn metadata(&self) -> Result<Metadata, Error> {
        self.ask(Request::get("/api/hyperfleet/metadata")).await?.json()
    }
}
