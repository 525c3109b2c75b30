//! The gate that every request about resources passes, in this order: concurrency, authentication, identity, tenancy,
//! role, rate. The result is an [`AdmittedCaller`] with an access scope; the store needs one for every call, so no
//! handler can omit it.

mod caller;
mod concurrency;
mod rate;

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use http::header::{CACHE_CONTROL, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use hyperfleet_auth::{Refusal, RefusalKind, Tenancy, TenancyClaim, Verified, Verifier};
use hyperfleet_core::{Catalog, Error, ErrorKind, Policy, Rights, Verb};
use hyperfleet_service::http_error::HttpError;
use hyperfleet_service::listener::PeerAddr;
use tokio::sync::watch;
use tower::Service as _;

use crate::app::App;
use crate::problem_types::{INVALID_CREDENTIALS, TOKEN_EXPIRED, TOKEN_MALFORMED, UNAUTHENTICATED};
use crate::response_body;
use crate::route::KindRoute;
use concurrency::Priority;
use rate::{BudgetKind, Limiter};

pub(crate) use caller::{AdmittedCaller, Identified};
pub(crate) use concurrency::{ConcurrencyLimiter, Permit};
pub use rate::{Budget, Budgets};

/// Everything that decides whether a request is admitted.
pub(crate) struct Gate {
    concurrency: Arc<ConcurrencyLimiter>,
    verifier: Option<Verifier>,
    tenancy: Option<Tenancy>,
    /// Replaced while the server runs.
    roles: ArcSwap<Roles>,
    /// Announces each new revision of the roles.
    revisions: watch::Sender<u64>,
    limiter: Option<Limiter>,
}

/// The configured roles.
struct Roles {
    /// `None` while roles are off.
    policy: Option<Policy>,
    /// Increases with each change.
    revision: u64,
}

/// What a route requires of a request. The router declares it for each method of each guarded route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteRequirements {
    verb: Option<Verb>,
    writes: bool,
    budget_kind: BudgetKind,
    priority: Priority,
}

impl Gate {
    pub(crate) fn new(
        concurrency: Arc<ConcurrencyLimiter>,
        verifier: Option<Verifier>,
        tenancy: Option<Tenancy>,
        policy: Option<Policy>,
        budgets: Option<Budgets>,
    ) -> Self {
        Self {
            concurrency,
            verifier,
            tenancy,
            roles: ArcSwap::from_pointee(Roles { policy, revision: 0 }),
            revisions: watch::Sender::new(0),
            limiter: budgets.map(Limiter::new),
        }
    }

    /// Replaces the roles.
    pub(crate) fn set_policy(&self, policy: Option<Policy>) {
        let revision = self.roles.load().revision + 1;
        self.roles.store(Arc::new(Roles { policy, revision }));
        self.revisions.send_replace(revision);
    }

    /// Whether roles are on.
    pub(crate) fn has_policy(&self) -> bool {
        self.roles.load().policy.is_some()
    }

    /// Whether answers depend on the caller, so that shared caches must not store them.
    fn tells_callers_apart(&self) -> bool {
        self.verifier.is_some() || self.tenancy.is_some()
    }

    async fn admit(
        &self,
        catalog: &Catalog,
        request: &Parts,
        requirements: &RouteRequirements,
        permit: Permit,
    ) -> Result<AdmittedCaller, Response> {
        let headers = &request.headers;
        if requirements.writes && self.verifier.is_none() && is_cross_site(request) {
            let detail = "Cross-site writes are refused, because this server requires no tokens";
            return Err(failed(Error::new(ErrorKind::PermissionDenied, detail)));
        }
        let verified = self.authenticate(headers, &permit).await?;
        if let Some(verified) = verified.as_ref().filter(|_| requirements.writes) {
            verified.identity().map_err(refused)?;
        }
        let tenancy_claim = self.tenancy_claim(headers, requirements).map_err(failed)?;
        let roles = self.roles.load();
        let rights = rights(&roles, verified.as_ref());
        let peer = request.extensions.get::<PeerAddr>().map(|peer| peer.0);
        let caller = AdmittedCaller::new(verified, tenancy_claim, rights, roles.revision, permit, peer);
        if let Some(verb) = requirements.verb {
            let route = request.extensions.get::<Arc<KindRoute>>();
            let kinds: Vec<&str> = match route.and_then(|route| route.entity.as_ref()) {
                Some(entity) => vec![&entity.kind],
                None => catalog.kinds().map(|entity| &*entity.kind).collect(),
            };
            caller.scope().permit_on_some(verb, &kinds).map_err(failed)?;
        }
        if let Some(limiter) = &self.limiter {
            // Without tokens all callers have the same identity, so callers are told apart by address.
            let name = caller.identity().filter(|_| self.verifier.is_some());
            let network = || peer.map(|peer| rate::client_network(peer.ip()));
            let spender = (caller.tenant(), name, if name.is_none() { network() } else { None });
            limiter.spend(spender, requirements.budget_kind, Instant::now()).map_err(failed)?;
        }
        Ok(caller)
    }

    async fn authenticate(&self, headers: &HeaderMap, permit: &Permit) -> Result<Option<Verified>, Response> {
        let Some(verifier) = &self.verifier else { return Ok(None) };
        // The verifier may ask an issuer. Tokens with unknown keys must not use up the permits meanwhile.
        let verified = permit.wait_without(Box::pin(verifier.verify(headers))).await.map_err(failed)?;
        verified.map(Some).map_err(refused)
    }

    /// Whether the keys that verified the caller's token are still in use. Expiry is not checked.
    pub(crate) fn still_accepts(&self, caller: &AdmittedCaller) -> bool {
        match (&self.verifier, caller.verified()) {
            (Some(verifier), Some(verified)) => verifier.still_accepts(verified),
            _ => true,
        }
    }

    fn tenancy_claim(
        &self,
        headers: &HeaderMap,
        requirements: &RouteRequirements,
    ) -> Result<Option<TenancyClaim>, Error> {
        let Some(tenancy) = &self.tenancy else { return Ok(None) };
        let tenancy_claim = tenancy.tenancy_claim(headers)?;
        if tenancy_claim == TenancyClaim::System
            && requirements.writes
            && requirements.verb != Some(Verb::Report)
        {
            let detail = "A system caller may write nothing but reports and leases";
            return Err(Error::new(ErrorKind::PermissionDenied, detail));
        }
        Ok(Some(tenancy_claim))
    }
}

/// The rights of a caller by its token.
fn rights(roles: &Roles, verified: Option<&Verified>) -> Option<Arc<Rights>> {
    let Roles { policy, revision } = roles;
    let policy = policy.as_ref()?;
    let Some(verified) = verified else {
        return Some(Arc::new(policy.rights(Some(caller::SYSTEM), |_| Vec::new())));
    };
    let identity = verified.identity().ok();
    let texts = |claim: &str| match verified.claims().get(claim) {
        Some(serde_json::Value::String(text)) => vec![text.as_str()],
        Some(serde_json::Value::Array(items)) => items.iter().filter_map(|item| item.as_str()).collect(),
        _ => Vec::new(),
    };
    Some(verified.conclude(
        |granted: &Granted| granted.revision == *revision && granted.identity.as_ref() == identity,
        || Granted {
            revision: *revision,
            identity: identity.cloned(),
            rights: Arc::new(policy.rights(identity.map(|name| &**name), texts)),
        },
        |granted| Arc::clone(&granted.rights),
    ))
}

/// The rights of a token by one revision of the roles. The identity may come from a header beside the token.
struct Granted {
    revision: u64,
    identity: Option<Arc<str>>,
    rights: Arc<Rights>,
}

impl RouteRequirements {
    /// Reads many rows of a kind.
    pub(crate) const LIST: Self = Self::on_kind(Verb::Read, BudgetKind::Read, Priority::List);
    /// Reads one resource.
    pub(crate) const READ: Self = Self::on_kind(Verb::Read, BudgetKind::Read, Priority::Resource);
    /// Creates or changes one resource.
    pub(crate) const WRITE: Self = Self::on_kind(Verb::Write, BudgetKind::Write, Priority::Resource);
    /// Deletes one resource.
    pub(crate) const DELETE: Self = Self::on_kind(Verb::Delete, BudgetKind::Write, Priority::Resource);
    /// Deletes one resource without waiting for its adapters.
    pub(crate) const FORCE_DELETE: Self =
        Self::on_kind(Verb::ForceDelete, BudgetKind::Write, Priority::Resource);
    /// Reports the status of one resource.
    pub(crate) const REPORT: Self = Self::on_kind(Verb::Report, BudgetKind::Report, Priority::Report);
    /// Renews a lease, which is for callers that report.
    pub(crate) const RENEW_LEASE: Self = Self::REPORT;
    /// Lists leases. It has the budget of reports, because a caller that renews must also see the other holders, whatever
    /// its other reads have used up.
    pub(crate) const LIST_LEASES: Self = Self { writes: false, ..Self::REPORT };
    /// Asks about the caller itself, which needs no right.
    pub(crate) const SELF: Self =
        Self { verb: None, writes: false, budget_kind: BudgetKind::Read, priority: Priority::Resource };

    const fn on_kind(verb: Verb, budget_kind: BudgetKind, priority: Priority) -> Self {
        Self { verb: Some(verb), writes: !matches!(verb, Verb::Read), budget_kind, priority }
    }
}

/// Admits a request to its route, or answers it. The request holds a permit until the head of its answer is made, or
/// until its handler releases the permit to wait.
pub(crate) async fn admit(
    app: App,
    requirements: RouteRequirements,
    request: Request,
    mut route: Route,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let permit = match app.gate.concurrency.acquire(requirements.priority) {
        Ok(permit) => permit,
        Err(error) => return failed(error),
    };
    let caller = match app.gate.admit(app.catalog(), &parts, &requirements, permit).await {
        Ok(caller) => caller,
        Err(response) => return response,
    };
    parts.extensions.insert(caller.clone());
    let Ok(mut response) = route.call(Request::from_parts(parts, body)).await;
    if app.gate.tells_callers_apart() {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    caller.permit().release();
    response_body::reserve(response, requirements.writes, || app.reservation(&caller)).unwrap_or_else(failed)
}

/// Whether a browser declares the request to be cross-site.
fn is_cross_site(request: &Parts) -> bool {
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

/// A 401 names the accepted authentication scheme.
fn refused(refusal: Refusal) -> Response {
    let problem_type = match refusal.kind() {
        RefusalKind::Unauthenticated => &UNAUTHENTICATED,
        RefusalKind::Invalid => &INVALID_CREDENTIALS,
        RefusalKind::Expired => &TOKEN_EXPIRED,
        RefusalKind::Malformed => &TOKEN_MALFORMED,
    };
    let mut response = HttpError::new(problem_type, refusal.detail()).into_response();
    if let Ok(challenge) = HeaderValue::from_str(&refusal.challenge()) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

fn failed(error: impl Into<HttpError>) -> Response {
    error.into().into_response()
}
