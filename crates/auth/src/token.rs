//! Parses a token before it is trusted. The parser is strict: it refuses everything that two parsers could read
//! differently, such as repeated members, loose base64 and algorithms without a key.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyperfleet_core::Timestamp;
use jsonwebtoken::Algorithm;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Refusal;

/// The largest token that is parsed, in bytes.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The clock skew of issuers that is tolerated.
pub const LEEWAY: Duration = Duration::from_secs(30);

/// The content of a token. It is not trusted until its signature has been verified.
pub struct Unverified<'t> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    pub(crate) claims: Map<String, Value>,
    pub(crate) expires: NumericDate,
    pub(crate) not_before: Option<NumericDate>,
    /// The signed part of the token.
    pub(crate) message: &'t str,
    pub(crate) signature: Vec<u8>,
}

impl Unverified<'_> {
    /// The key that the token says it was signed with.
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// What the token claims.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    pub(crate) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    pub(crate) fn is_meant_for(&self, audience: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(only)) => only == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        }
    }
}

impl fmt::Debug for Unverified<'_> {
    /// Without anything that was sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unverified").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Takes a token apart. Its header and claims are well-formed and its algorithm is one that public keys have; nothing
/// else is known of it.
///
/// # Errors
/// A refusal, when it is not even that.
pub fn parse(token: &str) -> Result<Unverified<'_>, Refusal> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(Refusal::TooLarge);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Refusal::NotAToken)?;
    let (header, claims) = message.split_once('.').ok_or(Refusal::NotAToken)?;

    let header = members(&decode(header)?).ok_or(Refusal::BadHeader)?;
    if header.contains_key("crit") {
        return Err(Refusal::CriticalExtension);
    }
    let algorithm = header.get("alg").and_then(Value::as_str).ok_or(Refusal::BadHeader)?;
    let algorithm = public_key_algorithm(algorithm).ok_or(Refusal::BadAlgorithm)?;
    let key_id = match header.get("kid") {
        None => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(_) => return Err(Refusal::BadHeader),
    };

    let claims = members(&decode(claims)?).ok_or(Refusal::BadClaims)?;
    let expires = numeric_date(&claims, "exp")?.ok_or(Refusal::NoExpiry)?;
    let not_before = numeric_date(&claims, "nbf")?;
    Ok(Unverified { algorithm, key_id, claims, expires, not_before, message, signature: decode(signature)? })
}

/// The algorithm of this name, if it is one where the verifier's key cannot sign.
pub(crate) fn public_key_algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" => Algorithm::EdDSA,
        _ => return None,
    })
}

/// A time in a token, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NumericDate(i64);

const LEEWAY_MICROS: i64 = LEEWAY.as_micros() as i64;

impl NumericDate {
    /// As an end: the first time after it is past, give or take the leeway.
    pub(crate) fn is_past(self, now: Timestamp) -> bool {
        now.micros() >= self.0.saturating_add(LEEWAY_MICROS)
    }

    /// As a beginning, give or take the leeway.
    pub(crate) fn is_to_come(self, now: Timestamp) -> bool {
        now.micros() < self.0.saturating_sub(LEEWAY_MICROS)
    }

    /// Seconds, possibly with decimals. A value out of range counts as the latest time.
    fn read(seconds: &Number) -> Option<Self> {
        const MICROS: i64 = 1_000_000;
        let micros = match seconds.as_i64() {
            Some(whole) => whole.saturating_mul(MICROS),
            None => (seconds.as_f64()? * MICROS as f64) as i64,
        };
        Some(Self(micros))
    }
}

pub(crate) fn numeric_date(claims: &Map<String, Value>, name: &str) -> Result<Option<NumericDate>, Refusal> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(seconds)) => NumericDate::read(seconds).map(Some).ok_or(Refusal::BadClaims),
        Some(_) => Err(Refusal::BadClaims),
    }
}

fn decode(part: &str) -> Result<Vec<u8>, Refusal> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::NotAToken)
}

fn members(json: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice::<Members>(json).ok().map(|Members(members)| members)
}

/// An object whose members are all different: the parser would take the last, another reader the first.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Unique;
        impl<'de> Visitor<'de> for Unique {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
                let mut members = Map::new();
                while let Some((name, value)) = access.next_entry()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member comes twice"));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Unique)
    }
}
