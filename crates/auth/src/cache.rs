//! Cache of accepted tokens: a request with a cached token costs one hash and one lookup. The key is the hash of the
//! whole token and of the header that carried it; the caller decides whether an entry is still valid. The cache is
//! bounded in number and in bytes.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use serde_json::{Map, Value};

use crate::Refusal;
use crate::token::NumericDate;

/// The most tokens remembered.
const MAX_TOKENS: usize = 10_000;

/// The most that they may weigh: the claims of a token take a few times its length.
const MAX_BYTES: usize = 16 << 20;

/// Locks, so that requests seldom wait for each other.
const SHARDS: usize = 16;

/// A token that was found good.
pub(crate) struct Accepted {
    /// The issuer's index in the list.
    pub(crate) issuer: usize,
    pub(crate) issuer_url: Arc<str>,
    /// The edition of the issuer's keys that it was checked with.
    pub(crate) edition: u64,
    pub(crate) expires: NumericDate,
    pub(crate) claims: Arc<Map<String, Value>>,
    /// The caller's name by the claims.
    pub(crate) identity: Result<Arc<str>, Refusal>,
    /// A value that a user of this crate derived from the token.
    pub(crate) conclusion: Mutex<Option<Conclusion>>,
}

/// A value derived from a token. The code that derived it knows its type and whether it is still valid.
pub(crate) type Conclusion = Box<dyn Any + Send + Sync>;

/// The key of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a token in the header at `header_index`.
    pub(crate) fn of(header_index: usize, token: &str) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&(header_index as u64).to_be_bytes());
        context.update(token.as_bytes());
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(context.finish().as_ref());
        Self(fingerprint)
    }
}

/// See above.
#[derive(Default)]
pub(crate) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
}

/// Two generations: entries that are not used while the younger one fills are dropped with the older.
#[derive(Default)]
struct Shard {
    young: HashMap<Fingerprint, Entry>,
    old: HashMap<Fingerprint, Entry>,
    young_bytes: usize,
}

struct Entry {
    accepted: Arc<Accepted>,
    bytes: usize,
}

impl Cache {
    /// The entry of this fingerprint while it is valid; an invalid one is removed.
    pub(crate) fn recall(
        &self,
        fingerprint: &Fingerprint,
        counts: impl FnOnce(&Accepted) -> bool,
    ) -> Option<Arc<Accepted>> {
        let mut shard = self.shard(fingerprint);
        if let Some(entry) = shard.young.get(fingerprint) {
            if counts(&entry.accepted) {
                return Some(Arc::clone(&entry.accepted));
            }
            shard.forget(fingerprint);
            return None;
        }
        let entry = shard.old.remove(fingerprint).filter(|entry| counts(&entry.accepted))?;
        let accepted = Arc::clone(&entry.accepted);
        shard.keep(*fingerprint, entry);
        Some(accepted)
    }

    /// Remembers a token of so many bytes.
    pub(crate) fn learn(&self, fingerprint: Fingerprint, accepted: Arc<Accepted>, bytes: usize) {
        let mut shard = self.shard(&fingerprint);
        shard.forget(&fingerprint);
        shard.keep(fingerprint, Entry { accepted, bytes });
    }

    fn shard(&self, fingerprint: &Fingerprint) -> std::sync::MutexGuard<'_, Shard> {
        let shard = usize::from(fingerprint.0[0]) % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn keep(&mut self, fingerprint: Fingerprint, entry: Entry) {
        self.young_bytes += entry.bytes;
        self.young.insert(fingerprint, entry);
        if self.young.len() >= MAX_TOKENS / SHARDS / 2 || self.young_bytes >= MAX_BYTES / SHARDS / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }

    fn forget(&mut self, fingerprint: &Fingerprint) {
        if let Some(entry) = self.young.remove(fingerprint) {
            self.young_bytes -= entry.bytes;
        }
        self.old.remove(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted() -> Arc<Accepted> {
        let claims = [("exp".to_owned(), Value::from(1))].into_iter().collect();
        Arc::new(Accepted {
            issuer: 0,
            issuer_url: "https://issuer.example".into(),
            edition: 1,
            expires: crate::token::numeric_date(&claims, "exp").unwrap().unwrap(),
            claims: Arc::new(claims),
            identity: Err(Refusal::NoIdentity),
            conclusion: Mutex::default(),
        })
    }

    fn size(cache: &Cache) -> (usize, usize) {
        cache.shards.iter().map(|shard| shard.lock().unwrap()).fold((0, 0), |(tokens, bytes), shard| {
            let all = || shard.young.values().chain(shard.old.values());
            (tokens + all().count(), bytes + all().map(|entry| entry.bytes).sum::<usize>())
        })
    }

    #[test]
    fn neither_many_tokens_nor_large_ones_are_kept_beyond_the_bounds() {
        let cache = Cache::default();
        for token in 0..30_000 {
            cache.learn(Fingerprint::of(0, &token.to_string()), accepted(), 1);
        }
        let (tokens, _) = size(&cache);
        assert!((MAX_TOKENS / 3..=MAX_TOKENS).contains(&tokens), "{tokens}");

        let cache = Cache::default();
        for token in 0..10_000 {
            cache.learn(Fingerprint::of(0, &token.to_string()), accepted(), 16 << 10);
        }
        let (_, bytes) = size(&cache);
        assert!((MAX_BYTES / 3..=MAX_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn used_entries_survive_the_eviction_of_others() {
        let cache = Cache::default();
        let favourite = Fingerprint::of(0, "favourite");
        cache.learn(favourite, accepted(), 1);
        for token in 0..30_000 {
            cache.learn(Fingerprint::of(0, &token.to_string()), accepted(), 1);
            assert!(cache.recall(&favourite, |_| true).is_some(), "after {token}");
        }
        assert!(cache.recall(&Fingerprint::of(0, "0"), |_| true).is_none());
    }

    #[test]
    fn invalid_entries_are_removed_from_both_generations() {
        for older in [false, true] {
            let cache = Cache::default();
            let token = Fingerprint::of(0, "token");
            cache.learn(token, accepted(), 1);
            if older {
                let mut shard = cache.shard(&token);
                shard.old = std::mem::take(&mut shard.young);
                shard.young_bytes = 0;
            }
            assert!(cache.recall(&token, |_| false).is_none());
            assert!(cache.recall(&token, |_| true).is_none());
            assert_eq!(size(&cache), (0, 0));
        }
    }

    #[test]
    fn the_same_token_in_another_header_is_another_entry() {
        assert!(Fingerprint::of(0, "token") != Fingerprint::of(1, "token"));
    }
}
