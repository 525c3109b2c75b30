//! `Idempotency-Key`: what a caller calls a request that it may send again.

use axum::body::Body;
use axum::response::Response;
use http::header::IF_MATCH;
use http::{HeaderName, HeaderValue, Request};
use hyperfleet_core::{Caller, Error, Fingerprint, Retry, Tenant};
use hyperfleet_service::idempotency_key::idempotency_key;
use sha2::{Digest, Sha256};

const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The key of a request to a path.
#[derive(Debug)]
pub(crate) struct Key {
    path: String,
    key: Vec<u8>,
    /// What the request is bound to: a part of what is asked, as the body is.
    if_match: Vec<HeaderValue>,
}

/// The key that a request names. One that only tries needs none.
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
    /// The request of a caller with this body.
    pub(crate) fn of(&self, caller: &Caller, body: &[u8]) -> Retry {
        let tenant = caller.sight.tenant().map_or("", Tenant::as_str);
        let parts = [caller.actor.as_bytes(), tenant.as_bytes(), self.path.as_bytes(), &self.key];
        let asked: Vec<&[u8]> =
            std::iter::once(body).chain(self.if_match.iter().map(HeaderValue::as_bytes)).collect();
        Retry { key: fingerprint(&parts), body: fingerprint(&asked) }
    }
}

/// Each part with its length, so that no two lists of parts look the same.
fn fingerprint(parts: &[&[u8]]) -> Fingerprint {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// Marks an answer that was given before.
pub(crate) fn mark(mut response: Response, again: bool) -> Response {
    if again {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
