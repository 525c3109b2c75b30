//! Create, patch, delete. A create has an idempotency key, so that retries are safe. A patch is retried only if it was not
//! executed.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::path::{Collection, ItemPath};
use crate::request::{Request, Response};
use crate::resource::Resource;

/// The format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7396, JSON Merge Patch.
    Merge,
    /// RFC 6902, JSON Patch.
    Json,
}

impl Request {
    /// Creates a resource.
    pub fn create(collection: &Collection, body: &Value, dry_run: bool) -> Self {
        Self::new(Method::POST, collection.to_string()).flag("dryRun", dry_run).json(body).own_key()
    }

    /// Patches a resource, if it has the version.
    pub fn patch(
        item: &ItemPath,
        body: &Value,
        kind: PatchKind,
        if_match: Option<u64>,
        dry_run: bool,
    ) -> Self {
        let media_type = match kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Json => "application/json-patch+json",
        };
        Self::new(Method::PATCH, item.to_string())
            .flag("dryRun", dry_run)
            .json_as(media_type, body)
            .if_match(if_match)
    }

    /// Requests the deletion of a resource, if it has the version.
    pub fn delete(item: &ItemPath, if_match: Option<u64>, dry_run: bool) -> Self {
        Self::new(Method::DELETE, item.to_string()).flag("dryRun", dry_run).if_match(if_match)
    }

    /// Removes a resource whose deletion is stuck.
    pub fn force_delete(item: &ItemPath, reason: &str, dry_run: bool) -> Self {
        Self::new(Method::POST, item.part("force-delete"))
            .flag("dryRun", dry_run)
            .json(&json!({ "reason": reason }))
            .own_key()
    }
}

impl Response {
    /// The resource in the body, with its version.
    pub fn resource(&self) -> Result<Resource, Error> {
        Ok(self.json::<Resource>()?.at(self.version()))
    }
}

impl Client {
    /// Creates a resource.
    pub async fn create(
        &self,
        collection: &Collection,
        body: &Value,
        dry_run: bool,
    ) -> Result<Resource, Error> {
        self.ask(Request::create(collection, body, dry_run)).await?.resource()
    }

    /// Creates a resource with the caller's idempotency key, which is valid for 24 hours.
    pub async fn create_by_key(
        &self,
        collection: &Collection,
        body: &Value,
        key: &str,
    ) -> Result<Resource, Error> {
        self.ask(Request::create(collection, body, false).key(key)?).await?.resource()
    }

    /// Patches a resource, if it has the version.
    pub async fn patch(
        &self,
        item: &ItemPath,
        body: &Value,
        kind: PatchKind,
        if_match: Option<u64>,
        dry_run: bool,
    ) -> Result<Resource, Error> {
        self.ask(Request::patch(item, body, kind, if_match, dry_run)).await?.resource()
    }

    /// Requests the deletion of a resource, if it has the version.
    pub async fn delete(
        &self,
        item: &ItemPath,
        if_match: Option<u64>,
        dry_run: bool,
    ) -> Result<Option<Resource>, Error> {
        let answer = self.ask(Request::delete(item, if_match, dry_run)).await?;
        // The Go implementation answers some deletions without a body.
        if answer.status == StatusCode::NO_CONTENT { Ok(None) } else { answer.resource().map(Some) }
    }

    /// Removes a resource whose deletion is stuck, with its descendants.
    pub async fn force_delete(&self, item: &ItemPath, reason: &str, dry_run: bool) -> Result<(), Error> {
        self.ask(Request::force_delete(item, reason, dry_run)).await.map(drop)
    }
}
