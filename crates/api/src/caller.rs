//! Who calls: the identity that audit fields record. A parameter type of the handlers that write,
//! so that none can forget to ask.

use axum::extract::FromRequestParts;
use http::request::Parts;
use hyperfleet_core::{Caller, Error};

use hyperfleet_service::problem::Failed;
use hyperfleet_service::request_ids::RequestIds;

/// The actor when authentication is off.
const SYSTEM: &str = "system@hyperfleet.local";

/// The caller of a request that writes.
#[derive(Debug, Clone)]
pub(crate) struct Identified(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Identified {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        let ids =
            parts.extensions.get::<RequestIds>().ok_or_else(|| Error::internal("a request without ids"))?;
        Ok(Self(Caller { actor: SYSTEM.to_owned(), request_id: ids.request_id.to_string() }))
    }
}
