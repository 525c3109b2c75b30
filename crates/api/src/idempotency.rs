//! The `Idempotency-Key` header. A client names a key and may send the same request again; the store
//! replays the recorded response.

use axum::body::Body;
use axum::response::Response;
use http::header::IF_MATCH;
use http::{HeaderName, HeaderValue, Request};
use hyperfleet_core::{Caller, Error, Fingerprint, Idempotency, Tenant};
use sha2::{Digest, Sha256};

use crate::idempotency_key::{NAME, idempotency_key};

const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The key of a request, with the path and the preconditions that it belongs to.
#[derive(Debug)]
pub(crate) struct Key {
    path: String,
    key: Vec<u8>,
    /// `If-Match` is part of the request, as the body is.
    if_match: Vec<HeaderValue>,
}

/// The key of a request. A dry run has none, because it writes nothing that could be replayed.
pub(crate) fn key(request: &Request<Body>, dry_run: bool) -> Result<Option<Key>, Error> {
    if dry_run {
        return Ok(None);
    }
    let Some(key) = idempotency_key(request.headers())? else { return Ok(None) };
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let if_match = request.headers().get_all(IF_MATCH).iter().cloned().collect();
    Ok(Some(Key { path, key: key.to_vec(), if_match }))
}

impl Key {
    /// Fingerprints of the caller with its key, and of the request's content.
    pub(crate) fn fingerprints(&self, caller: &Caller, body: &[u8]) -> Idempotency {
        let tenant = caller.scope.tenant().map_or("", Tenant::as_str);
        let parts = [caller.actor.as_bytes(), tenant.as_bytes(), self.path.as_bytes(), &self.key];
        let asked: Vec<&[u8]> =
            std::iter::once(body).chain(self.if_match.iter().map(HeaderValue::as_bytes)).collect();
        Idempotency { key: fingerprint(&parts), body: fingerprint(&asked), field: NAME }
    }
}

/// A digest of the parts, each prefixed with its length because two lists must not share an encoding.
fn fingerprint(parts: &[&[u8]]) -> Fingerprint {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// Adds the header that tells a replayed response from a new one.
pub(crate) fn mark_replayed(mut response: Response, replayed: bool) -> Response {
    if replayed {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
