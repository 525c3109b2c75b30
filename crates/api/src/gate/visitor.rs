//! Who came in by the gate, for handlers to ask.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use http::request::Parts;
use hyperfleet_auth::{Belonging, LEEWAY, Verified};
use hyperfleet_core::{Caller, Error, Rights, Sight, Tenant, Timestamp};
use hyperfleet_service::problem::Failed;
use hyperfleet_service::request_ids::RequestIds;
use tokio::sync::watch;

use super::{Gate, Stay};

/// The actor when authentication is off.
pub(super) const SYSTEM: &str = "system@hyperfleet.local";

/// Who came in. Clones share what is known of this one request; what a token shares with other requests is counted
/// once, because processors that count the same thing wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct Visitor(Arc<Record>);

#[derive(Debug)]
struct Record {
    /// Their token.
    verified: Option<Verified>,
    is_system: bool,
    sight: Sight,
    /// Of the roles that `sight` follows from.
    edition: u64,
    /// Their place inside.
    stay: Stay,
}

impl Visitor {
    pub(super) fn new(
        verified: Option<Verified>,
        belonging: Option<Belonging>,
        rights: Option<Arc<Rights>>,
        edition: u64,
        stay: Stay,
    ) -> Self {
        let (tenant, is_system) = match belonging {
            Some(Belonging::Tenant(tenant)) => (Some(tenant), false),
            Some(Belonging::System) => (None, true),
            None => (None, false),
        };
        Self(Arc::new(Record { verified, is_system, sight: Sight::new(tenant, rights), edition, stay }))
    }

    /// What exists for them.
    pub(crate) fn sight(&self) -> &Sight {
        &self.0.sight
    }

    /// The place that they take up inside.
    pub(crate) fn stay(&self) -> &Stay {
        &self.0.stay
    }

    /// How long they may stay; `None` is for ever.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let now = Timestamp::now().micros() as f64 / 1e6;
        let mut left = self.0.verified.as_ref()?.claims().get("exp")?.as_f64()? - now;
        if left <= 0.0 {
            // It was taken for good a moment ago, and so it is for this one too.
            left += LEEWAY.as_secs_f64();
        }
        // What no clock can hold is for ever.
        if left > 1e9 { None } else { Some(Duration::try_from_secs_f64(left).unwrap_or_default()) }
    }

    /// Changes when the roles do: whoever was let in for long must be let in anew.
    pub(crate) fn roles(&self, gate: &Gate) -> watch::Receiver<u64> {
        let mut editions = gate.editions.subscribe();
        if *editions.borrow() != self.0.edition {
            editions.mark_changed();
        }
        editions
    }

    /// Their name, if it can be told.
    pub(crate) fn identity(&self) -> Option<&str> {
        match &self.0.verified {
            Some(verified) => verified.identity().ok().map(|name| &**name),
            None => Some(SYSTEM),
        }
    }

    /// Whether a token says who they are.
    pub(crate) fn has_token(&self) -> bool {
        self.0.verified.is_some()
    }

    /// The tenant that they belong to.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.sight().tenant()
    }

    /// Whether they are a part of the system.
    pub(crate) fn is_system(&self) -> bool {
        self.0.is_system
    }

    /// Their token.
    pub(super) fn verified(&self) -> Option<&Verified> {
        self.0.verified.as_ref()
    }

    /// What they may do, where that is limited.
    pub(crate) fn rights(&self) -> Option<&Rights> {
        self.sight().rights()
    }
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
        Ok(Self(Caller { actor: actor.to_owned(), request_id, sight: visitor.sight().clone() }))
    }
}
