//! The keys of an issuer, and the choice among them.

use std::sync::Arc;

use serde_json::Value;

use crate::Refusal;
use crate::key::Key;
use crate::token::Unverified;

/// The keys of an issuer, and which edition of them this is: the same keys are the same edition.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<Arc<Key>>,
    edition: u64,
}

impl KeySet {
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The next edition, unless nothing has changed but the order.
    pub(crate) fn followed_by(&self, keys: Vec<Arc<Key>>) -> Option<Self> {
        let same = keys.len() == self.keys.len() && keys.iter().all(|key| self.keys.contains(key));
        (!same).then(|| Self { keys, edition: self.edition + 1 })
    }

    /// Checks the signature. [`Refusal::NoKeys`] and [`Refusal::UnknownKey`] mean that newer keys may verify it.
    pub(crate) fn verify(&self, token: &Unverified<'_>) -> Result<(), Refusal> {
        if self.keys.is_empty() {
            return Err(Refusal::NoKeys);
        }
        match &token.key_id {
            Some(id) => self.verify_with(id, token),
            None => self.verify_with_the_only_one(token),
        }
    }

    fn verify_with(&self, id: &str, token: &Unverified<'_>) -> Result<(), Refusal> {
        let mut known = false;
        let mut fits = false;
        for key in self.keys.iter().filter(|key| key.id() == Some(id)) {
            known = true;
            fits |= key.is_for(token.algorithm);
            if key.signed(token) {
                return Ok(());
            }
        }
        Err(match (known, fits) {
            (false, _) => Refusal::UnknownKey,
            (true, false) => Refusal::WrongAlgorithm,
            (true, true) => Refusal::BadSignature,
        })
    }

    /// Without a name a new key looks like a wrong signature, so a wrong signature may be a new key.
    fn verify_with_the_only_one(&self, token: &Unverified<'_>) -> Result<(), Refusal> {
        let mut fitting = self.keys.iter().filter(|key| key.is_for(token.algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) if key.signed(token) => Ok(()),
            (Some(_), Some(_)) => Err(Refusal::AmbiguousKey),
            _ => Err(Refusal::UnknownKey),
        }
    }
}

/// The usable keys of a JWKS, and why others were left out.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) keys: Vec<Arc<Key>>,
    /// `kid` and reason.
    pub(crate) left_out: Vec<(String, &'static str)>,
}

impl Document {
    /// Reads a JWKS. One key that cannot be used takes nothing away from the others.
    pub(crate) fn read(json: &[u8]) -> Result<Self, &'static str> {
        let document: Value = serde_json::from_slice(json).map_err(|_| "it is no JSON")?;
        let entries = document.get("keys").and_then(Value::as_array).ok_or("it has no list of keys")?;
        let mut read = Self { keys: Vec::new(), left_out: Vec::new() };
        for entry in entries {
            match Key::read(entry) {
                Ok(key) => read.keys.push(Arc::new(key)),
                Err(reason) => {
                    let id = entry.get("kid").and_then(Value::as_str).unwrap_or_default();
                    read.left_out.push((hyperfleet_core::echo(id), reason));
                }
            }
        }
        Ok(read)
    }
}
