//! `Idempotency-Key`: what a caller calls a request that it may send again.

use axum::body::Body;
use axum::response::Response;
use http::header::IF_MATCH;
use http::{HeaderName, HeaderValue, Request};
use hyperfleet_core::{Caller, Error, Fault, FaultKind, Faults, Fingerprint, Retry, Tenant, echo};
use sha2::{Digest, Sha256};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const NAME: &str = "Idempotency-Key";
const MAX_LENGTH: usize = 255;

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
    let mut values = request.headers().get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next().filter(|_| !dry_run) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let fault = |rule: &'static str, message: String| {
        let fault = Fault::new(FaultKind::Value, NAME, message).given(&echo(&text).into()).rule(rule);
        Err(Faults::one(fault).into_error())
    };
    if values.next().is_some() {
        return fault("unique", format!("{NAME} is given more than once"));
    }
    if !(1..=MAX_LENGTH).contains(&value.len()) {
        let length = value.len();
        return fault("length", format!("{NAME} must have 1 to {MAX_LENGTH} characters, not {length}"));
    }
    if !value.as_bytes().iter().all(u8::is_ascii_graphic) {
        return fault("pattern", format!("{NAME} must consist of visible ASCII characters"));
    }
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let if_match = request.headers().get_all(IF_MATCH).iter().cloned().collect();
    Ok(Some(Key { path, key: value.as_bytes().to_vec(), if_match }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_key_is_one_header_of_visible_characters_and_not_too_many(
            values in prop::collection::vec(
                prop_oneof![
                    "[!-~]{0,300}".prop_map(String::into_bytes),
                    prop::collection::vec(any::<u8>(), 0..20),
                ],
                0..3,
            ),
        ) {
            let mut request = Request::new(Body::empty());
            for value in values.iter().filter_map(|value| HeaderValue::from_bytes(value).ok()) {
                request.headers_mut().append(IDEMPOTENCY_KEY, value);
            }
            let sent: Vec<&[u8]> =
                request.headers().get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes).collect();
            let good = |key: &[u8]| (1..=255).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
            match key(&request, false) {
                Ok(None) => prop_assert!(sent.is_empty()),
                Ok(Some(Key { key, .. })) => {
                    prop_assert!(good(&key));
                    prop_assert_eq!(sent, [key]);
                }
                Err(error) => {
                    prop_assert!(sent.len() != 1 || !good(sent[0]));
                    prop_assert!(!error.detail.contains(char::is_control), "{}", error.detail);
                }
            }
            prop_assert!(key(&request, true).unwrap().is_none(), "one that only tries needs none");
        }
    }
}
