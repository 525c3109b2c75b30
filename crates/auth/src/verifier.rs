//! Verifies the token of a request, and caches the result.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderName, header};
use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::Refusal;
use crate::cache::{Accepted, Cache, Fingerprint};
use crate::config::{self, ConfigFault, IssuerConfig, RefreshSchedule};
use crate::issuer::Issuer;
use crate::metrics::KeyMetrics;
use crate::refresh::Refresh;
use crate::token::{self, MAX_TOKEN_BYTES};

/// Checks the tokens of requests against the keys of the issuers. Dropping it ends the tasks that fetch them.
pub struct Verifier {
    issuers: Vec<Arc<Issuer>>,
    token_headers: Vec<TokenHeader>,
    cache: Cache,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// A header that may carry a token, and the issuers that use it.
struct TokenHeader {
    header: HeaderName,
    issuers: Vec<usize>,
}

/// A request with a valid token.
#[derive(Clone)]
pub struct Verified {
    accepted: Arc<Accepted>,
    /// The caller's name by a header beside the token.
    named: Option<Result<Arc<str>, Refusal>>,
}

impl Verified {
    /// The `issuer_url` of the token's issuer.
    pub fn issuer(&self) -> &str {
        &self.accepted.issuer_url
    }

    /// What the token claims.
    pub fn claims(&self) -> &Arc<Map<String, Value>> {
        &self.accepted.claims
    }

    /// A value derived from this token: the cached one while it `holds`, else a new one, which is cached as long as the
    /// token.
    pub fn conclude<T: Send + Sync + 'static, R>(
        &self,
        holds: impl FnOnce(&T) -> bool,
        conclude: impl FnOnce() -> T,
        take: impl FnOnce(&T) -> R,
    ) -> R {
        let mut slot = self.accepted.conclusion.lock().unwrap_or_else(PoisonError::into_inner);
        let known = slot.as_ref().and_then(|known| known.downcast_ref::<T>());
        if let Some(known) = known.filter(|known| holds(known)) {
            return take(known);
        }
        let concluded = conclude();
        let taken = take(&concluded);
        *slot = Some(Box::new(concluded));
        taken
    }

    /// The caller's name, by the identity header when there is one, else by the claim. Reading needs none.
    ///
    /// # Errors
    /// When the request has no name, or none that can be used.
    pub fn identity(&self) -> Result<&Arc<str>, Refusal> {
        self.named.as_ref().unwrap_or(&self.accepted.identity).as_ref().map_err(|refusal| *refusal)
    }
}

impl fmt::Debug for Verified {
    /// Without the claims, which do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("issuer", &self.issuer())
            .field("identity", &self.identity())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Verifier {
    /// Without the cached tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("issuers", &self.issuers).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Reads the files of keys and starts to fetch the others, on the current runtime and until `shutdown`. Does not
    /// wait for any issuer: until its keys are there, its tokens are refused.
    ///
    /// # Errors
    /// Everything that [`check`](crate::check) finds.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn start(
        issuers: &[IssuerConfig],
        schedule: RefreshSchedule,
        metrics: &KeyMetrics,
        shutdown: &CancellationToken,
    ) -> Result<Self, Vec<ConfigFault>> {
        let issuers: Vec<Arc<Issuer>> = config::read(issuers)?
            .into_iter()
            .map(|settings| Arc::new(Issuer::new(settings, &schedule)))
            .collect();
        let tasks = issuers
            .iter()
            .map(|issuer| Refresh::new(Arc::clone(issuer), schedule, metrics).run(shutdown.clone()))
            .map(|task| AbortOnDropHandle::new(tokio::spawn(task)))
            .collect();
        let mut token_headers: Vec<TokenHeader> = Vec::new();
        for (index, issuer) in issuers.iter().enumerate() {
            match token_headers.iter_mut().find(|known| known.header == issuer.settings.header) {
                Some(known) => known.issuers.push(index),
                None => {
                    token_headers
                        .push(TokenHeader { header: issuer.settings.header.clone(), issuers: vec![index] });
                }
            }
        }
        Ok(Self { issuers, token_headers, cache: Cache::default(), _tasks: tasks })
    }

    /// Accepts a request when one of the token headers carries a valid token of an issuer that uses this header.
    /// Headers are tried in the order of the issuers.
    ///
    /// # Errors
    /// The refusal of the first token, or that there is none.
    pub async fn verify(&self, headers: &HeaderMap) -> Result<Verified, Refusal> {
        self.verify_at(headers, Timestamp::now()).await
    }

    /// The same at a given time.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub async fn verify_at(&self, headers: &HeaderMap, now: Timestamp) -> Result<Verified, Refusal> {
        let mut reason = Refusal::NoToken;
        for header_index in 0..self.token_headers.len() {
            let refusal = match self.token_headers[header_index].token(headers) {
                Ok(token) => match self.accept(header_index, token, now).await {
                    Ok(accepted) => return Ok(self.verified(accepted, headers)),
                    Err(refusal) => refusal,
                },
                Err(refusal) => refusal,
            };
            // The refusal of a token that was sent is more helpful than that of a missing one.
            if matches!(reason, Refusal::NoToken | Refusal::NotBearer) && refusal != Refusal::NoToken {
                reason = refusal;
            }
        }
        Err(reason)
    }

    async fn accept(
        &self,
        header_index: usize,
        token: &str,
        now: Timestamp,
    ) -> Result<Arc<Accepted>, Refusal> {
        // Before it is hashed.
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::TooLarge);
        }
        let fingerprint = Fingerprint::of(header_index, token);
        // A withdrawn key starts a new edition, which invalidates its tokens.
        let counts = |known: &Accepted| {
            known.edition == self.issuers[known.issuer].edition() && !known.expires.is_past(now)
        };
        if let Some(known) = self.cache.recall(&fingerprint, counts) {
            return Ok(known);
        }
        let unverified = token::parse(token)?;
        let issuer = unverified.issuer().ok_or(Refusal::UnknownIssuer)?;
        let mut issuers =
            self.token_headers[header_index].issuers.iter().map(|index| (*index, &self.issuers[*index]));
        let (index, issuer) =
            issuers.find(|(_, known)| *known.settings.url == *issuer).ok_or(Refusal::UnknownIssuer)?;
        let edition = issuer.verify(&unverified, now).await?;
        let accepted = Arc::new(Accepted {
            issuer: index,
            issuer_url: Arc::clone(&issuer.settings.url),
            edition,
            expires: unverified.expires,
            identity: issuer.settings.identity.in_claims(&unverified.claims),
            claims: Arc::new(unverified.claims),
            conclusion: Mutex::default(),
        });
        self.cache.learn(fingerprint, Arc::clone(&accepted), token.len());
        Ok(accepted)
    }

    /// Whether the issuer's keys are still those that the token was verified with.
    pub fn still_accepts(&self, verified: &Verified) -> bool {
        verified.accepted.edition == self.issuers[verified.accepted.issuer].edition()
    }

    fn verified(&self, accepted: Arc<Accepted>, headers: &HeaderMap) -> Verified {
        let settings = &self.issuers[accepted.issuer].settings;
        Verified { named: settings.identity.in_headers(headers), accepted }
    }
}

impl TokenHeader {
    /// The token of this header. `Authorization` needs the `Bearer` scheme; in other headers it is optional.
    fn token<'h>(&self, headers: &'h HeaderMap) -> Result<&'h str, Refusal> {
        let mut values = headers.get_all(&self.header).iter();
        let value = values.next().ok_or(Refusal::NoToken)?;
        if values.next().is_some() {
            return Err(Refusal::RepeatedHeader);
        }
        let text = value.to_str().map_err(|_| Refusal::NotAToken)?.trim();
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        let token = if scheme.eq_ignore_ascii_case("bearer") {
            rest.trim_start()
        } else if self.header == header::AUTHORIZATION && !text.is_empty() {
            return Err(Refusal::NotBearer);
        } else {
            text
        };
        if token.is_empty() { Err(Refusal::NoToken) } else { Ok(token) }
    }
}
