//! Writes: create, change, delete. A creation gets a key of its own, so that it happens once however often it has to be
//! sent; a change is repeated only when it was surely not carried out.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::path::{Collection, ItemPath};
use crate::request::{Answer, Request};
use crate::resource::Resource;

/// How a change is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7396: what is sent is merged in, `null` removes.
    Merge,
    /// RFC 6902: a list of operations.
    Json,
}

impl Request {
    /// Makes a resource.
    pub fn create(collection: &Collection, body: &Value, dry_run: bool) -> Self {
        Self::new(Method::POST, collection.to_string()).flag("dryRun", dry_run).json(body).own_key()
    }

    /// Changes a resource, if it still has that version.
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

    /// Asks for the deletion of a resource, if it still has that version.
    pub fn delete(item: &ItemPath, if_match: Option<u64>, dry_run: bool) -> Self {
        Self::new(Method::DELETE, item.to_string()).flag("dryRun", dry_run).if_match(if_match)
    }

    /// Removes a resource whose deletion does not come to an end.
    pub fn force_delete(item: &ItemPath, reason: &str, dry_run: bool) -> Self {
        Self::new(Method::POST, item.part("force-delete"))
            .flag("dryRun", dry_run)
            .json(&json!({ "reason": reason }))
            .own_key()
    }
}

impl Answer {
    /// The resource that it holds, with its version.
    pub fn resource(&self) -> Result<Resource, Error> {
        Ok(self.json::<Resource>()?.at(self.version()))
    }
}

impl Client {
    /// Makes a resource.
    pub async fn create(
        &self,
        collection: &Collection,
        body: &Value,
        dry_run: bool,
    ) -> Result<Resource, Error> {
        self.ask(Request::create(collection, body, dry_run)).await?.resource()
    }

    /// Makes a resource by a key that the caller can name again: for 24 hours the same key makes the same resource.
    pub async fn create_by_key(
        &self,
        collection: &Collection,
        body: &Value,
        key: &str,
    ) -> Result<Resource, Error> {
        self.ask(Request::create(collection, body, false).key(key)?).await?.resource()
    }

    /// Changes a resource, if it still has that version.
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

    /// Asks for the deletion of a resource, if it still has that version. It may be gone at once.
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

    /// Removes a resource whose deletion does not come to an end, with all that is below it.
    pub async fn force_delete(&self, item: &ItemPath, reason: &str, dry_run: bool) -> Result<(), Error> {
        self.ask(Request::force_delete(item, reason, dry_run)).await.map(drop)
    }
}
