//! The door: takes the token out of a request, checks it once, and remembers that.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderName, header};
use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::Refusal;
use crate::cache::{Accepted, Cache, Fingerprint};
use crate::config::{self, ConfigFault, IssuerConfig, Pace};
use crate::issuer::Issuer;
use crate::metrics::KeyMetrics;
use crate::refresh::Refresh;
use crate::token::{self, MAX_TOKEN_BYTES};

/// Checks the tokens of requests against the keys of the issuers. Dropping it ends the tasks that fetch them.
pub struct Verifier {
    issuers: Vec<Arc<Issuer>>,
    places: Vec<Place>,
    cache: Cache,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// A header that may carry a token, and the issuers that may use it.
struct Place {
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

    /// What to take of that which was concluded from this token before, as long as it `holds`; else it is concluded
    /// anew, and remembered for as long as the token is.
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
    /// Without the claims: they are nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("issuer", &self.issuer())
            .field("identity", &self.identity())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Verifier {
    /// Without what it remembers of tokens.
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
        pace: Pace,
        metrics: &KeyMetrics,
        shutdown: &CancellationToken,
    ) -> Result<Self, Vec<ConfigFault>> {
        let issuers: Vec<Arc<Issuer>> = config::read(issuers)?
            .into_iter()
            .map(|settings| Arc::new(Issuer::new(settings, &pace)))
            .collect();
        let tasks = issuers
            .iter()
            .map(|issuer| Refresh::new(Arc::clone(issuer), pace, metrics).run(shutdown.clone()))
            .map(|task| AbortOnDropHandle::new(tokio::spawn(task)))
            .collect();
        let mut places: Vec<Place> = Vec::new();
        for (index, issuer) in issuers.iter().enumerate() {
            match places.iter_mut().find(|place| place.header == issuer.settings.header) {
                Some(place) => place.issuers.push(index),
                None => {
                    places.push(Place { header: issuer.settings.header.clone(), issuers: vec![index] });
                }
            }
        }
        Ok(Self { issuers, places, cache: Cache::default(), _tasks: tasks })
    }

    /// Lets a request in when one of the headers for tokens carries a valid one of an issuer that may use this header.
    /// They are tried in the order of the issuers.
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
        for place in 0..self.places.len() {
            let refusal = match self.places[place].token(headers) {
                Ok(token) => match self.accept(place, token, now).await {
                    Ok(accepted) => return Ok(self.verified(accepted, headers)),
                    Err(refusal) => refusal,
                },
                Err(refusal) => refusal,
            };
            // Something that was sent says more than something that was not.
            if matches!(reason, Refusal::NoToken | Refusal::NotBearer) && refusal != Refusal::NoToken {
                reason = refusal;
            }
        }
        Err(reason)
    }

    async fn accept(&self, place: usize, token: &str, now: Timestamp) -> Result<Arc<Accepted>, Refusal> {
        // Before it is hashed.
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Refusal::TooLarge);
        }
        let fingerprint = Fingerprint::of(place, token);
        // A key that was withdrawn makes another edition, and takes its tokens with it.
        let counts = |known: &Accepted| {
            known.edition == self.issuers[known.issuer].edition() && !known.expires.is_past(now)
        };
        if let Some(known) = self.cache.recall(&fingerprint, counts) {
            return Ok(known);
        }
        let unverified = token::parse(token)?;
        let issuer = unverified.issuer().ok_or(Refusal::UnknownIssuer)?;
        let mut issuers = self.places[place].issuers.iter().map(|index| (*index, &self.issuers[*index]));
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

    /// Whether the keys of its issuer are those that a token was found good with.
    pub fn still_vouches(&self, verified: &Verified) -> bool {
        verified.accepted.edition == self.issuers[verified.accepted.issuer].edition()
    }

    fn verified(&self, accepted: Arc<Accepted>, headers: &HeaderMap) -> Verified {
        let settings = &self.issuers[accepted.issuer].settings;
        Verified { named: settings.identity.in_headers(headers), accepted }
    }
}

impl Place {
    /// The token that this header carries. `Authorization` says that it is one; other headers may.
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
