//! An issuer: its rules, its keys, and requests for newer keys.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hyperfleet_core::Timestamp;

use crate::Refusal;
use crate::config::{RefreshSchedule, Settings};
use crate::fetch_requests::FetchRequests;
use crate::key::Key;
use crate::key_set::KeySet;
use crate::token::Unverified;

/// See above.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) settings: Settings,
    pub(crate) fetch_requests: FetchRequests,
    keys: ArcSwap<KeySet>,
}

impl Issuer {
    pub(crate) fn new(settings: Settings, schedule: &RefreshSchedule) -> Self {
        let fetch_requests = FetchRequests::new(schedule.unknown_key, schedule.unknown_key_timeout);
        Self { settings, fetch_requests, keys: ArcSwap::default() }
    }

    /// The edition of the keys in use.
    pub(crate) fn edition(&self) -> u64 {
        self.keys.load().edition()
    }

    /// From here on these are the keys. Returns their number when that is a change. One task alone may call it.
    pub(crate) fn replace_keys(&self, keys: Vec<Arc<Key>>) -> Option<usize> {
        let next = self.keys.load().followed_by(keys)?;
        let count = next.len();
        self.keys.store(Arc::new(next));
        Some(count)
    }

    /// Checks signature and claims; returns the edition of the keys that vouches for them.
    pub(crate) async fn verify(&self, token: &Unverified<'_>, now: Timestamp) -> Result<u64, Refusal> {
        let edition = self.check_signature(token).await?;
        if token.expires.is_past(now) {
            return Err(Refusal::Expired);
        }
        if token.not_before.is_some_and(|start| start.is_to_come(now)) {
            return Err(Refusal::NotYetValid);
        }
        if self.settings.audience.as_ref().is_some_and(|audience| !token.is_meant_for(audience)) {
            return Err(Refusal::WrongAudience);
        }
        Ok(edition)
    }

    async fn check_signature(&self, token: &Unverified<'_>) -> Result<u64, Refusal> {
        let keys = self.keys.load_full();
        match keys.verify(token) {
            Ok(()) => Ok(keys.edition()),
            Err(refusal @ (Refusal::NoKeys | Refusal::UnknownKey)) => {
                self.fetch_requests.newer_keys().await;
                let newer = self.keys.load_full();
                if newer.edition() == keys.edition() {
                    return Err(refusal);
                }
                newer.verify(token).map(|()| newer.edition())
            }
            Err(refusal) => Err(refusal),
        }
    }
}
