//! The OpenAPI document: written by hand, extended by the routes of the configured kinds, and served as JSON, YAML and
//! a page. It is built on the first request for it, because building it would take most of the start. A test compares
//! the document with the router in both directions.

mod kinds;
mod page;

use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, LazyLock, OnceLock};

use axum::Extension;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use hyperfleet_core::View;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::contract::HttpContract;
pub use page::{page, script, style};

const SOURCE: &str = include_str!("../../../openapi/hyperfleet.yaml");
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// A copy may be kept, but is good only after asking.
const ASK_AGAIN: &str = "no-cache";

/// The OpenAPI document of this server, ready to be sent.
#[derive(Debug, Clone)]
pub struct Document {
    /// As JSON.
    pub json: Bytes,
    /// See [`Self::yaml`].
    yaml: OnceLock<Bytes>,
    operations: Vec<(String, String)>,
}

/// A document that is built when it is first asked for.
pub(crate) type Lazy = Arc<LazyLock<Document, Box<dyn FnOnce() -> Document + Send>>>;

pub(crate) fn when_asked(build: impl FnOnce() -> Document + Send + 'static) -> Lazy {
    Arc::new(LazyLock::new(Box::new(build)))
}

impl Document {
    /// Describes a server that shows resources by `view`.
    pub fn build(view: View<'_>) -> Self {
        let mut document = source();
        kinds::describe(&mut document, view.catalog);
        if !HttpContract::of(view.contract).names_lists {
            forget_list_kinds(&mut document);
        }
        let json = serde_json::to_vec(&document).expect("a JSON value is always JSON");
        Self { json: json.into(), yaml: OnceLock::new(), operations: operations(&document) }
    }

    /// As YAML, the same content.
    pub fn yaml(&self) -> Bytes {
        let print = || {
            let document = serde_json::from_slice(&self.json).expect("it was printed as JSON");
            serde_saphyr::to_string(&Plain(&document)).expect("a JSON value is always YAML").into()
        };
        self.yaml.get_or_init(print).clone()
    }

    /// Every documented operation: method in upper case and path template.
    pub fn paths(&self) -> Vec<(String, String)> {
        self.operations.clone()
    }
}

/// Where lists do not name their kind, no reader may ask for it.
fn forget_list_kinds(document: &mut Value) {
    for (name, schema) in document["components"]["schemas"].as_object_mut().into_iter().flatten() {
        if name.ends_with("List")
            && let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut)
        {
            required.retain(|member| member != "kind");
        }
    }
}

/// `GET B/openapi`.
pub async fn json(Extension(document): Extension<Lazy>, request: HeaderMap) -> Response {
    response(&request, "application/json", ASK_AGAIN, document.json.clone())
}

/// `GET B/openapi.yaml`.
pub async fn yaml(Extension(document): Extension<Lazy>, request: HeaderMap) -> Response {
    response(&request, "application/yaml", ASK_AGAIN, document.yaml())
}

fn source() -> Value {
    serde_saphyr::from_str(SOURCE).expect("the embedded document is YAML, as every test of this module shows")
}

fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let methods = METHODS.iter().filter(|method| item.get(**method).is_some());
            methods.map(|method| (method.to_ascii_uppercase(), path.clone()))
        })
        .collect()
}

/// Equal content has an equal fingerprint on every replica of one build, which is all that caches need.
fn fingerprint(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    format!("{:016x}", hasher.finish())
}

/// The content with its `ETag`, or 304 when the caller has it.
fn response(request: &HeaderMap, media_type: &'static str, cache: &'static str, content: Bytes) -> Response {
    let tag = format!("\"{}\"", fingerprint(&content));
    let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|list| {
        let mut tags = list.split(',').map(|one| one.trim().trim_start_matches("W/"));
        tags.any(|one| one == tag || one == "*")
    });
    let headers = [(ETAG, tag), (CACHE_CONTROL, cache.to_owned())];
    if known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(CONTENT_TYPE, media_type)], content).into_response()
}

/// A JSON value for a serializer other than that of serde_json, whose exact numbers no other
/// serializer can write. The document's own numbers are all small integers.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match number.as_i64() {
                Some(integer) => serializer.serialize_i64(integer),
                None => serializer.serialize_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Plain)),
            Value::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key, &Plain(value))?;
                }
                map.end()
            }
            plain => plain.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests;
