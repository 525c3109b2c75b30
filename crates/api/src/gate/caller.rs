//! The caller of a request that the gate has admitted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use http::request::Parts;
use hyperfleet_auth::{LEEWAY, TenancyClaim, Verified};
use hyperfleet_core::{AccessScope, Caller, Error, Rights, Tenant, Timestamp};
use hyperfleet_service::http_error::HttpError;
use hyperfleet_service::request_ids::RequestIds;
use tokio::sync::watch;

use super::{Gate, Permit};

/// The actor when authentication is off.
pub(super) const SYSTEM: &str = "system@hyperfleet.local";

/// A caller that the gate has admitted. Clones share one record of this request, so that the reference counts of what
/// requests with the same token share are touched once; processors that count the same thing wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct AdmittedCaller(Arc<Record>);

#[derive(Debug)]
struct Record {
    /// The verified token.
    verified: Option<Verified>,
    is_system: bool,
    scope: AccessScope,
    /// The revision of the roles that `scope` follows from.
    revision: u64,
    /// The concurrency permit of the request.
    permit: Permit,
    /// The other end of the connection; `None` for a call within the process.
    connection: Option<SocketAddr>,
}

impl AdmittedCaller {
    pub(super) fn new(
        verified: Option<Verified>,
        tenancy_claim: Option<TenancyClaim>,
        rights: Option<Arc<Rights>>,
        revision: u64,
        permit: Permit,
        connection: Option<SocketAddr>,
    ) -> Self {
        let (tenant, is_system) = match tenancy_claim {
            Some(TenancyClaim::Tenant(tenant)) => (Some(tenant), false),
            Some(TenancyClaim::System) => (None, true),
            None => (None, false),
        };
        Self(Arc::new(Record {
            verified,
            is_system,
            scope: AccessScope::new(tenant, rights),
            revision,
            permit,
            connection,
        }))
    }

    /// Which resources the caller may see and change.
    pub(crate) fn scope(&self) -> &AccessScope {
        &self.0.scope
    }

    /// The concurrency permit of the request.
    pub(crate) fn permit(&self) -> &Permit {
        &self.0.permit
    }

    /// The other end of the connection of the request.
    pub(crate) fn connection(&self) -> Option<SocketAddr> {
        self.0.connection
    }

    /// How long the token is still valid; `None` is without end.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let now = Timestamp::now().micros() as f64 / 1e6;
        let mut left = self.0.verified.as_ref()?.claims().get("exp")?.as_f64()? - now;
        if left <= 0.0 {
            // The verifier accepted it within its leeway, so the leeway holds here too.
            left += LEEWAY.as_secs_f64();
        }
        // A time that far ahead counts as no expiry.
        if left > 1e9 { None } else { Some(Duration::try_from_secs_f64(left).unwrap_or_default()) }
    }

    /// Changes when the roles change: a long-lived request must then be admitted again.
    pub(crate) fn role_revisions(&self, gate: &Gate) -> watch::Receiver<u64> {
        let mut revisions = gate.revisions.subscribe();
        if *revisions.borrow() != self.0.revision {
            revisions.mark_changed();
        }
        revisions
    }

    /// The identity of the caller, if its token has one.
    pub(crate) fn identity(&self) -> Option<&str> {
        match &self.0.verified {
            Some(verified) => verified.identity().ok().map(|name| &**name),
            None => Some(SYSTEM),
        }
    }

    /// Whether the caller sent a token.
    pub(crate) fn has_token(&self) -> bool {
        self.0.verified.is_some()
    }

    /// The tenant of the caller.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.scope().tenant()
    }

    /// Whether the caller is a component of the system.
    pub(crate) fn is_system(&self) -> bool {
        self.0.is_system
    }

    /// The verified token.
    pub(super) fn verified(&self) -> Option<&Verified> {
        self.0.verified.as_ref()
    }

    /// The rights of the caller, where roles are on.
    pub(crate) fn rights(&self) -> Option<&Rights> {
        self.scope().rights()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AdmittedCaller {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpError> {
        let caller = parts.extensions.get::<Self>().cloned();
        Ok(caller.ok_or_else(|| Error::internal("the request was not admitted by the gate"))?)
    }
}

/// The caller of a writing request. Handlers that write take it as a parameter, so that none can omit the identity.
#[derive(Debug, Clone)]
pub(crate) struct Identified(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Identified {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpError> {
        let ids =
            parts.extensions.get::<RequestIds>().ok_or_else(|| Error::internal("a request without ids"))?;
        let request_id = ids.request_id.to_string();
        let caller = AdmittedCaller::from_request_parts(parts, state).await?;
        let actor = caller.identity().ok_or_else(|| Error::internal("a write without an identity"))?;
        Ok(Self(Caller { actor: actor.to_owned(), request_id, scope: caller.scope().clone() }))
    }
}
