//! The gate: every request about resources passes it, in this order: room, authentication, identity, tenancy, role,
//! rate. What comes out is a [`Visitor`] with a sight; the store cannot be asked without one, so no handler can forget.

mod rate;
mod room;
mod visitor;

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use http::header::{CACHE_CONTROL, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use hyperfleet_auth::{Belonging, Refusal, RefusalKind, Tenancy, Verified, Verifier};
use hyperfleet_core::{BASE, Catalog, Error, ErrorKind, Policy, Rights, Verb};
use hyperfleet_service::listener::PeerAddr;
use hyperfleet_service::problem::Failed;
use tokio::sync::watch;
use tower::Service as _;

use crate::app::App;
use crate::place::Place;
use crate::router::LEASES;
use rate::{Limiter, Purpose};
use room::Rank;

pub use rate::{Budget, Budgets};
pub(crate) use room::{Room, Stay};
pub(crate) use visitor::{Identified, Visitor};

/// Everything that decides who comes in.
pub(crate) struct Gate {
    room: Arc<Room>,
    verifier: Option<Verifier>,
    tenancy: Option<Tenancy>,
    /// Changed while the server runs.
    roles: ArcSwap<Roles>,
    /// Tells of a new edition of them.
    editions: watch::Sender<u64>,
    limiter: Option<Limiter>,
}

/// What callers may do, by configuration.
struct Roles {
    /// None while they are off.
    policy: Option<Policy>,
    /// How often they changed.
    edition: u64,
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
            roles: ArcSwap::from_pointee(Roles { policy, edition: 0 }),
            editions: watch::Sender::new(0),
            limiter: budgets.map(Limiter::new),
        }
    }

    /// From now on these roles count.
    pub(crate) fn set_policy(&self, policy: Option<Policy>) {
        let edition = self.roles.load().edition + 1;
        self.roles.store(Arc::new(Roles { policy, edition }));
        self.editions.send_replace(edition);
    }

    /// Whether roles are on.
    pub(crate) fn has_policy(&self) -> bool {
        self.roles.load().policy.is_some()
    }

    /// Whether answers depend on who asks, so that nobody between may keep them for others.
    fn tells_callers_apart(&self) -> bool {
        self.verifier.is_some() || self.tenancy.is_some()
    }

    async fn admit(
        &self,
        catalog: &Catalog,
        request: &Parts,
        demand: &Demand,
        stay: Stay,
    ) -> Result<Visitor, Response> {
        let headers = &request.headers;
        if demand.writes && self.verifier.is_none() && is_of_another_site(request) {
            let detail = "A page of another site may not write here, where no token says who asks for it";
            return Err(failed(Error::new(ErrorKind::PermissionDenied, detail)));
        }
        let verified = self.authenticate(headers, &stay).await?;
        if let Some(verified) = verified.as_ref().filter(|_| demand.writes) {
            verified.identity().map_err(refused)?;
        }
        let belonging = self.belonging(headers, demand).map_err(failed)?;
        let roles = self.roles.load();
        let rights = rights(&roles, verified.as_ref());
        let visitor = Visitor::new(verified, belonging, rights, roles.edition, stay);
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

    async fn authenticate(&self, headers: &HeaderMap, stay: &Stay) -> Result<Option<Verified>, Response> {
        let Some(verifier) = &self.verifier else { return Ok(None) };
        // An issuer may be asked, and whoever sends tokens with keys that nobody knows must not fill the room meanwhile.
        let verified = stay.wait_outside(Box::pin(verifier.verify(headers))).await.map_err(failed)?;
        verified.map(Some).map_err(refused)
    }

    /// Whether a token that was good when its bearer came in would still be, its time aside.
    pub(crate) fn still_knows(&self, visitor: &Visitor) -> bool {
        match (&self.verifier, visitor.verified()) {
            (Some(verifier), Some(verified)) => verifier.still_vouches(verified),
            _ => true,
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
}

/// What the roles allow to a caller with this token.
fn rights(roles: &Roles, verified: Option<&Verified>) -> Option<Arc<Rights>> {
    let Roles { policy, edition } = roles;
    let policy = policy.as_ref()?;
    let Some(verified) = verified else {
        return Some(Arc::new(policy.rights(Some(visitor::SYSTEM), |_| Vec::new())));
    };
    let identity = verified.identity().ok();
    let texts = |claim: &str| match verified.claims().get(claim) {
        Some(serde_json::Value::String(text)) => vec![text.as_str()],
        Some(serde_json::Value::Array(items)) => items.iter().filter_map(|item| item.as_str()).collect(),
        _ => Vec::new(),
    };
    Some(verified.conclude(
        |known: &Granted| known.edition == *edition && known.identity.as_ref() == identity,
        || Granted {
            edition: *edition,
            identity: identity.cloned(),
            rights: Arc::new(policy.rights(identity.map(|name| &**name), texts)),
        },
        |granted| Arc::clone(&granted.rights),
    ))
}

/// The rights that a token gives by one edition of the roles. Who bears it may be told by a header beside it.
struct Granted {
    edition: u64,
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

/// Lets a request in, or answers it. It takes up room until the head of its answer is there, or until it says that it
/// has only to wait.
pub(crate) async fn admit(app: App, request: Request, mut route: Route) -> Response {
    let (mut parts, body) = request.into_parts();
    let demand = Demand::of(&parts);
    let stay = match app.gate.room.enter(demand.rank) {
        Ok(stay) => stay,
        Err(error) => return failed(error),
    };
    let visitor = match app.gate.admit(app.catalog(), &parts, &demand, stay).await {
        Ok(visitor) => visitor,
        Err(response) => return response,
    };
    parts.extensions.insert(visitor.clone());
    let Ok(mut response) = route.call(Request::from_parts(parts, body)).await;
    if app.gate.tells_callers_apart() {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    visitor.stay().leave();
    response
}

/// Whether a browser says that a page of another site made it ask.
fn is_of_another_site(request: &Parts) -> bool {
    let headers = &request.headers;
    if let Some(site) = headers.get("sec-fetch-site") {
        return !matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = request.uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = host.or_else(|| headers.get(HOST).map(HeaderValue::as_bytes));
    let origin = origin.as_bytes();
    let site = [b"https://".as_slice(), b"http://"].iter().find_map(|scheme| origin.strip_prefix(*scheme));
    site.is_none() || site != host
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
