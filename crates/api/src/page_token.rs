//! Page tokens: the criteria of a list and the position of the next page, with a message authentication code. A caller
//! can read a token but cannot change one, so its content is trusted. A token is valid only for the route that issued it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use hyperfleet_core::search::Position;
use hyperfleet_core::{Epoch, Error};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::query::Criteria;

/// Half a SHA-256 cannot be guessed.
const MAC_BYTES: usize = 16;

/// The token of a list of resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// The criteria of the list.
    #[serde(flatten)]
    pub(crate) criteria: Criteria,
    /// The position of the last resource of the page before.
    #[serde(flatten)]
    pub(crate) after: Position,
    /// The number of the page, counted from the first.
    #[serde(rename = "n")]
    pub(crate) page: u64,
}

/// Signs tokens and verifies them. Every replica has the same key.
#[derive(Clone)]
pub(crate) struct TokenSigner(Hmac<Sha256>);

impl TokenSigner {
    pub(crate) fn new(key: &[u8; 64]) -> Self {
        Self(Hmac::new(key.into()))
    }

    /// The same for one epoch. A page token of another is refused, because the page before is of another history.
    pub(crate) fn of(&self, epoch: Epoch) -> Self {
        let mut mac = self.0.clone();
        mac.update(&epoch.0.to_be_bytes());
        Self(mac)
    }

    /// A token for the next page of the list at `route`.
    pub(crate) fn sign(&self, token: &impl Serialize, route: &str) -> Result<String, Error> {
        let content = serde_json::to_vec(token).map_err(Error::internal)?;
        let mut signed = self.mac(&content, route).finalize().into_bytes()[..MAC_BYTES].to_vec();
        signed.extend(content);
        Ok(URL_SAFE_NO_PAD.encode(signed))
    }

    /// The content of a token that was signed for this route; `None` for any other text.
    pub(crate) fn verify<T: DeserializeOwned>(&self, text: &str, route: &str) -> Option<T> {
        let signed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (mac, content) = signed.split_at_checked(MAC_BYTES)?;
        self.mac(content, route).verify_truncated_left(mac).ok()?;
        serde_json::from_slice(content).ok()
    }

    fn mac(&self, content: &[u8], route: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(route.as_bytes());
        mac.update(&[0]);
        mac.update(content);
        mac
    }
}
