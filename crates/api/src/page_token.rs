//! Page tokens: what a list is of and where the next page begins, sealed. A caller can read one but not make or change
//! one, so what is in it needs no checking as if a stranger had written it. It is bound to the route that gave it out.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use hyperfleet_core::Error;
use hyperfleet_core::search::Position;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::query::Criteria;

/// Half a SHA-256 is more than anyone can guess.
const SEAL_BYTES: usize = 16;

/// What the token of a list of resources holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// What the list is of.
    #[serde(flatten)]
    pub(crate) criteria: Criteria,
    /// The last resource of the page before.
    #[serde(flatten)]
    pub(crate) after: Position,
    /// The number of the page, counted from the first.
    #[serde(rename = "n")]
    pub(crate) page: u64,
}

/// What seals tokens and breaks them open.
#[derive(Clone)]
pub(crate) struct Seal(Hmac<Sha256>);

impl Seal {
    /// A seal with a key that every replica knows and nobody else.
    pub(crate) fn new(key: &[u8; 64]) -> Self {
        // A key of any length will do, so there is nothing to fail.
        Self(Hmac::new(key.into()))
    }

    /// A token for the next page of the list at `route`.
    pub(crate) fn close(&self, token: &impl Serialize, route: &str) -> Result<String, Error> {
        let content = serde_json::to_vec(token).map_err(Error::internal)?;
        let mut sealed = self.mark(&content, route);
        sealed.extend(content);
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// What a token holds, if it is one of ours for this route.
    pub(crate) fn open<T: DeserializeOwned>(&self, text: &str, route: &str) -> Option<T> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (mark, content) = sealed.split_at_checked(SEAL_BYTES)?;
        let mut mac = self.0.clone();
        mac.update(route.as_bytes());
        mac.update(&[0]);
        mac.update(content);
        mac.verify_truncated_left(mark).ok()?;
        serde_json::from_slice(content).ok()
    }

    fn mark(&self, content: &[u8], route: &str) -> Vec<u8> {
        let mut mac = self.0.clone();
        mac.update(route.as_bytes());
        mac.update(&[0]);
        mac.update(content);
        mac.finalize().into_bytes()[..SEAL_BYTES].to_vec()
    }
}
