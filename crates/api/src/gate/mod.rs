//! The gate: every request about resources passes it, in this order: room, authentication, identity, tenancy, role,
//! rate. What comes out is a [`Visitor`] with a sight; the store cannot be asked without one, so no handler can forget.

mod rate;
mod room;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use hyperfleet_auth::{Belonging, LEEWAY, Refusal, RefusalKind, Tenancy, Verified, Verifier};
use hyperfleet_core::{
    BASE, Caller, Catalog, Error, ErrorKind, Policy, Rights, Sight, Tenant, Timestamp, Verb,
};
use hyperfleet_service::listener::PeerAddr;
use hyperfleet_service::problem::Failed;
use hyperfleet_service::request_ids::RequestIds;
use tokio::sync::watch;

use crate::app::App;
use crate::place::Place;
use crate::router::LEASES;
use rate::{Limiter, Purpose};
use room::Rank;

pub use rate::{Budget, Budgets};
pub(crate) use room::{Room, Stay};

/// The actor when authentication is off.
static SYSTEM: LazyLock<Arc<str>> = LazyLock::new(|| "system@hyperfleet.local".into());

/// Everything that decides who comes in.
pub(crate) struct Gate {
    room: Arc<Room>,
    verifier: Option<Verifier>,
    tenancy: Option<Tenancy>,
    /// None while roles are off. Changed while the server runs.
    policy: ArcSwapOption<Policy>,
    /// How often they changed.
    roles: watch::Sender<u64>,
    limiter: Option<Limiter>,
}

/// Who came in.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    identity: Result<Arc<str>, Refusal>,
    belonging: Option<Belonging>,
    rights: Option<Arc<Rights>>,
    /// Their token.
    verified: Option<Verified>,
    /// Changes when roles other than those of `rights` count.
    roles: watch::Receiver<u64>,
}

/// What a request is about to do.
struct Demand {
    verb: Option<Verb>,
    writes: bool,
    purpose: Purpose,
    rank: Rank,
}

impl Gate {
    pub(crate) fn new(
        room: Arc<Room>,
        verifier: Option<Verifier>,
        tenancy: Option<Tenancy>,
        policy: Option<Policy>,
        budgets: Option<Budgets>,
    ) -> Self {
        Self {
            room,
            verifier,
            tenancy,
            policy: ArcSwapOption::from_pointee(policy),
            roles: watch::Sender::new(0),
            limiter: budgets.map(Limiter::new),
        }
    }

    /// From now on these roles count.
    pub(crate) fn set_policy(&self, policy: Option<Policy>) {
        self.policy.store(policy.map(Arc::new));
        self.roles.send_modify(|changes| *changes += 1);
    }

    /// Whether roles are on.
    pub(crate) fn has_policy(&self) -> bool {
        self.policy.load().is_some()
    }

    /// Whether answers depend on who asks, so that nobody between may keep them for others.
    fn tells_callers_apart(&self) -> bool {
        self.verifier.is_some() || self.tenancy.is_some()
    }

    async fn admit(&self, catalog: &Catalog, request: &Parts, demand: &Demand) -> Result<Visitor, Response> {
        let headers = &request.headers;
        let verified = self.authenticate(headers).await.map_err(refused)?;
        let identity = match &verified {
            Some(verified) => verified.identity().cloned(),
            None => Ok(Arc::clone(&SYSTEM)),
        };
        if demand.writes {
            identity.as_ref().map_err(|refusal| refused(*refusal))?;
        }
        let belonging = self.belonging(headers, demand).map_err(failed)?;
        // Before the rights are read, or a change in between would go unnoticed.
        let roles = self.roles.subscribe();
        let rights = self.rights(identity.as_deref().ok(), verified.as_ref());
        let visitor = Visitor { identity, belonging, rights, verified, roles };
        if let Some(verb) = demand.verb {
            let place = request.extensions.get::<Arc<Place>>();
            let kinds: Vec<&str> = match place.and_then(|place| place.entity.as_ref()) {
                Some(entity) => vec![&entity.kind],
                None => catalog.kinds().map(|entity| &*entity.kind).collect(),
            };
            visitor.sight().permit_on_some(verb, &kinds).map_err(failed)?;
        }
        if let Some(limiter) = &self.limiter {
            // Without tokens everyone has the same name, which is nobody's.
            let name = visitor.identity().filter(|_| self.verifier.is_some());
            let site = || request.extensions.get::<PeerAddr>().map(|peer| rate::site(peer.0.ip()));
            let caller = (visitor.tenant(), name, if name.is_none() { site() } else { None });
            limiter.spend(caller, demand.purpose, Instant::now()).map_err(failed)?;
        }
        Ok(visitor)
    }

    async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Verified>, Refusal> {
        match &self.verifier {
            Some(verifier) => Box::pin(verifier.verify(headers)).await.map(Some),
            None => Ok(None),
        }
    }

    fn belonging(&self, headers: &HeaderMap, demand: &Demand) -> Result<Option<Belonging>, Error> {
        let Some(tenancy) = &self.tenancy else { return Ok(None) };
        let belonging = tenancy.belonging(headers)?;
        if belonging == Belonging::System && demand.writes && demand.verb != Some(Verb::Report) {
            let detail = "A system caller may write nothing but reports and leases";
            return Err(Error::new(ErrorKind::PermissionDenied, detail));
        }
        Ok(Some(belonging))
    }

    fn rights(&self, identity: Option<&str>, verified: Option<&Verified>) -> Option<Arc<Rights>> {
        let policy = self.policy.load_full()?;
        let Some(verified) = verified else {
            return Some(Arc::new(policy.rights(identity, |_| Vec::new())));
        };
        let texts = |claim: &str| match verified.claims().get(claim) {
            Some(serde_json::Value::String(text)) => vec![text.as_str()],
            Some(serde_json::Value::Array(items)) => items.iter().filter_map(|item| item.as_str()).collect(),
            _ => Vec::new(),
        };
        let holds =
            |known: &Granted| Arc::ptr_eq(&known.policy, &policy) && known.identity.as_deref() == identity;
        let granted = verified.conclude(holds, || Granted {
            policy: Arc::clone(&policy),
            identity: identity.map(Arc::from),
            rights: Arc::new(policy.rights(identity, texts)),
        });
        Some(Arc::clone(&granted.rights))
    }
}

/// The rights that a token gives by one policy. Who bears it may be told by a header beside it.
struct Granted {
    policy: Arc<Policy>,
    identity: Option<Arc<str>>,
    rights: Arc<Rights>,
}

impl Demand {
    /// By method and route: a path that ends in `statuses` takes reports, one that ends in `force-delete` ends waiting,
    /// and leases are for those who report.
    fn of(request: &Parts) -> Self {
        let route = request.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let area = route.strip_prefix(BASE).and_then(|below| below.split('/').nth(1));
        if area == Some(LEASES) {
            let writes = request.method == Method::PUT;
            // Who renews must also see who else is there, whatever its other reads have used up.
            return Self { verb: Some(Verb::Report), writes, purpose: Purpose::Report, rank: Rank::Report };
        }
        let last = route.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let about_resources = request.extensions.get::<Arc<Place>>().is_some();
        let verb = match (&request.method, last) {
            (&Method::GET | &Method::HEAD, _) => Verb::Read,
            (_, "statuses") => Verb::Report,
            (_, "force-delete") => Verb::ForceDelete,
            (&Method::DELETE, _) => Verb::Delete,
            _ => Verb::Write,
        };
        let purpose = match verb {
            Verb::Read => Purpose::Read,
            Verb::Report => Purpose::Report,
            Verb::Write | Verb::Delete | Verb::ForceDelete => Purpose::Write,
        };
        let rank = match verb {
            Verb::Report => Rank::Report,
            // What is read without an id at the end of the path is many things.
            Verb::Read if !last.starts_with('{') => Rank::List,
            _ => Rank::Resource,
        };
        match about_resources {
            true => Self { verb: Some(verb), writes: verb != Verb::Read, purpose, rank },
            false => Self { verb: None, writes: false, purpose: Purpose::Read, rank: Rank::Resource },
        }
    }
}

impl Visitor {
    /// What exists for them.
    pub(crate) fn sight(&self) -> Sight {
        Sight::new(self.tenant().cloned(), self.rights.clone())
    }

    /// How long they may stay; `None` is for ever.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let now = Timestamp::now().micros() as f64 / 1e6;
        let mut left = self.verified.as_ref()?.claims().get("exp")?.as_f64()? - now;
        if left <= 0.0 {
            // It was taken for good a moment ago, and so it is for this one too.
            left += LEEWAY.as_secs_f64();
        }
        // What no clock can hold is for ever.
        if left > 1e9 { None } else { Some(Duration::try_from_secs_f64(left).unwrap_or_default()) }
    }

    /// Changes when the roles do: whoever was let in for long must be let in anew.
    pub(crate) fn roles(&self) -> watch::Receiver<u64> {
        self.roles.clone()
    }

    /// Their name, if it can be told.
    pub(crate) fn identity(&self) -> Option<&str> {
        self.identity.as_deref().ok()
    }

    /// The tenant that they belong to.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        match &self.belonging {
            Some(Belonging::Tenant(tenant)) => Some(tenant),
            _ => None,
        }
    }

    /// Whether they are a part of the system.
    pub(crate) fn is_system(&self) -> bool {
        self.belonging == Some(Belonging::System)
    }

    /// What they may do, where that is limited.
    pub(crate) fn rights(&self) -> Option<&Rights> {
        self.rights.as_deref()
    }
}

/// Lets a request in, or answers it. It takes up room until the head of its answer is there, or until it says that it
/// has only to wait.
pub(crate) async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let demand = Demand::of(&parts);
    let stay = match app.gate.room.enter(demand.rank) {
        Ok(stay) => Arc::new(stay),
        Err(error) => return failed(error),
    };
    parts.extensions.insert(Arc::clone(&stay));
    let response = match app.gate.admit(app.catalog(), &parts, &demand).await {
        Ok(visitor) => {
            parts.extensions.insert(visitor);
            let mut response = next.run(Request::from_parts(parts, body)).await;
            if app.gate.tells_callers_apart() {
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
            }
            response
        }
        Err(response) => response,
    };
    stay.leave();
    response
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        let visitor = parts.extensions.get::<Self>().cloned();
        Ok(visitor.ok_or_else(|| Error::internal("a request came around the gate"))?)
    }
}

/// The caller of a request that writes. A parameter type of the handlers that do, so that none can forget to ask.
#[derive(Debug, Clone)]
pub(crate) struct Identified(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Identified {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let ids =
            parts.extensions.get::<RequestIds>().ok_or_else(|| Error::internal("a request without ids"))?;
        let request_id = ids.request_id.to_string();
        let visitor = Visitor::from_request_parts(parts, state).await?;
        let actor = visitor.identity().ok_or_else(|| Error::internal("a write without an identity"))?;
        Ok(Self(Caller { actor: actor.to_owned(), request_id, sight: visitor.sight() }))
    }
}

/// 401 says what would be accepted.
fn refused(refusal: Refusal) -> Response {
    let kind = match refusal.kind() {
        RefusalKind::Unauthenticated => ErrorKind::Unauthenticated,
        RefusalKind::Invalid => ErrorKind::InvalidCredentials,
        RefusalKind::Expired => ErrorKind::TokenExpired,
        RefusalKind::Malformed => ErrorKind::TokenMalformed,
    };
    let mut response = failed(Error::new(kind, refusal.detail()));
    if let Ok(challenge) = HeaderValue::from_str(&refusal.challenge()) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

fn failed(error: Error) -> Response {
    Failed::from(error).into_response()
}
