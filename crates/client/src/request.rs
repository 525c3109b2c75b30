//! A request before it is sent: a plain value, so that what a call would send can be looked at, printed as a `curl`
//! command, or changed, without sending anything. A create has an idempotency key, so that retries are safe. A patch is
//! retried only if it was not executed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::inspect::{GetQuery, TimelineQuery};
use crate::list::ListQuery;
use crate::path::{Collection, ItemPath, encoded, query_encoded};
use crate::report::NewReport;
use crate::watch::{NDJSON, WatchQuery};

/// How many reports or leases are asked for at once.
const PAGE: u64 = 100;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What to ask of the API. It holds no token and nothing else of the [`Client`](crate::Client).
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Below `/api/hyperfleet/v1`, or a whole path if it begins with `/api/hyperfleet`; percent-encoded.
    pub path: String,
    /// The parameters, not encoded yet.
    pub query: Vec<(String, String)>,
    /// Headers besides those that every request has.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

/// The format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7396, JSON Merge Patch.
    Merge,
    /// RFC 6902, JSON Patch.
    Json,
}

impl Request {
    /// A request without parameters and body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: Vec::new(), headers: HeaderMap::new(), body: None }
    }

    /// A GET.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A page of a list.
    pub fn list(collection: &Collection, query: &ListQuery) -> Self {
        let (ref_type, ref_target) = query.referring_to.clone().unzip();
        let request = Self::get(collection.to_string())
            .maybe("search", query.search.as_ref())
            .maybe("orderBy", query.order_by.as_ref())
            .maybe("size", query.page_size.as_ref())
            .maybe("pageToken", query.page_token.as_ref())
            .maybe("page", query.page.as_ref())
            .maybe("fields", query.fields.as_ref())
            .flag("showDeleted", query.show_deleted)
            .maybe("kind", query.kind.as_ref())
            .maybe("ref_type", ref_type.as_ref())
            .maybe("ref_target_id", ref_target.as_ref());
        if query.total { request } else { request.param("total", "none") }
    }

    /// A stream of changes after a version.
    pub fn watch(collection: &Collection, query: &WatchQuery) -> Self {
        Self::get(collection.to_string())
            .param("watch", "true")
            .maybe("search", query.search.as_ref())
            .maybe("since", query.since.as_ref())
            .maybe("fields", query.fields.as_ref())
            .flag("showDeleted", query.show_deleted)
            .maybe("kind", query.kind.as_ref())
            .header(ACCEPT, HeaderValue::from_static(NDJSON))
    }

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
        Self::new(Method::POST, "/authz/check").json(&question)
    }

    /// Reads a resource when `awaited` holds, or at the timeout.
    pub fn wait(item: &ItemPath, awaited: &str, timeout: Duration) -> Self {
        let timeout = format!("{}ms", timeout.as_millis().max(1));
        Self::get(item.to_string()).param("waitFor", awaited).param("timeout", &timeout)
    }

    /// Creates a resource.
    pub fn create(collection: &Collection, body: &Value, dry_run: bool) -> Self {
        Self::new(Method::POST, collection.to_string()).flag("dryRun", dry_run).json(body).own_key()
    }

    /// Patches a resource, if it has the entity tag.
    pub fn patch(
        item: &ItemPath,
        body: &Value,
        kind: PatchKind,
        if_match: Option<&str>,
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

    /// Requests the deletion of a resource, if it has the entity tag.
    pub fn delete(item: &ItemPath, if_match: Option<&str>, dry_run: bool) -> Self {
        Self::new(Method::DELETE, item.to_string()).flag("dryRun", dry_run).if_match(if_match)
    }

    /// Removes a resource whose deletion is stuck.
    pub fn force_delete(item: &ItemPath, reason: &str, dry_run: bool) -> Self {
        Self::new(Method::POST, item.part("force-delete"))
            .flag("dryRun", dry_run)
            .json(&json!({ "reason": reason }))
            .own_key()
    }

    /// The first page of the reports on a resource.
    pub fn reports(item: &ItemPath) -> Self {
        Self::get(item.statuses()).param("size", &PAGE)
    }

    /// Sends a report.
    pub fn report(item: &ItemPath, report: &NewReport, dry_run: bool) -> Self {
        Self::new(Method::PUT, item.statuses()).flag("dryRun", dry_run).json(report)
    }

    /// The first page of the held leases of a group.
    pub fn leases(group: &str) -> Self {
        Self::get("/leases").param("group", group).param("size", &PAGE)
    }

    /// Renews the lease with this entity tag, or takes a free one. A zero TTL releases it.
    pub fn put_lease(group: &str, name: &str, holder: &str, ttl: Duration, if_match: Option<&str>) -> Self {
        let ttl = format!("{}ms", ttl.as_millis());
        let request = Self::new(Method::PUT, format!("/leases/{}/{}", encoded(group), encoded(name)))
            .json(&json!({ "holder": holder, "ttl": ttl }));
        match if_match {
            Some(tag) => request.if_match(Some(tag)),
            None => request.header(IF_NONE_MATCH, HeaderValue::from_static("*")),
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn param(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a parameter if there is a value.
    #[must_use]
    pub fn maybe(self, name: &str, value: Option<&(impl ToString + ?Sized)>) -> Self {
        match value {
            Some(value) => self.param(name, value),
            None => self,
        }
    }

    /// Adds `name=true` if it is so.
    #[must_use]
    pub fn flag(self, name: &str, is_set: bool) -> Self {
        if is_set { self.param(name, "true") } else { self }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &impl Serialize) -> Self {
        self.json_as("application/json", body)
    }

    pub(crate) fn json_as(mut self, media_type: &'static str, body: &impl Serialize) -> Self {
        // What is sent here are JSON values and plain structures, which cannot fail to be JSON.
        self.body = Some(serde_json::to_vec(body).unwrap_or_default().into());
        self.header(CONTENT_TYPE, HeaderValue::from_static(media_type))
    }

    /// Sets `If-Match` to an entity tag.
    pub(crate) fn if_match(self, tag: Option<&str>) -> Self {
        match tag.map(HeaderValue::try_from) {
            Some(Ok(tag)) => self.header(IF_MATCH, tag),
            _ => self,
        }
    }

    /// Adds a key by which the server recognises a repetition.
    pub(crate) fn key(self, key: &str) -> Result<Self, Error> {
        let fits = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        match HeaderValue::from_str(key) {
            Ok(value) if fits => Ok(self.header(IDEMPOTENCY_KEY, value)),
            _ => Err(Error::Invalid("an idempotency key is 1 to 255 visible ASCII characters".to_owned())),
        }
    }

    /// A new key for a request that must not be carried out twice.
    pub(crate) fn own_key(self) -> Self {
        match HeaderValue::try_from(uuid::Uuid::now_v7().to_string()) {
            Ok(value) => self.header(IDEMPOTENCY_KEY, value),
            Err(_) => self,
        }
    }

    /// The path with its parameters.
    pub(crate) fn target(&self) -> String {
        let mut target = self.path.clone();
        let mut separator = if target.contains('?') { '&' } else { '?' };
        for (name, value) in &self.query {
            target.push(separator);
            target.push_str(&query_encoded(name));
            target.push('=');
            target.push_str(&query_encoded(value));
            separator = '&';
        }
        target
    }
}
