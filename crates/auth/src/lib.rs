//! Authentication: tokens (JWT) of the configured issuers, checked against keys that are fetched and cached in the
//! background, and the tenant that trusted headers name.
//!
//! [`Verifier`] answers from memory. It waits for an issuer only when a token names an unknown key, and then only
//! briefly; an unreachable issuer does not invalidate known keys. A [`Refusal`] is one of a fixed list of sentences, so
//! no part of a token or of the server's state can reach a response or a log through it. This crate reads request
//! headers and knows nothing else of the server.

#![forbid(unsafe_code)]

mod cache;
mod config;
pub mod dev;
mod fetch;
mod fetch_requests;
mod identity;
mod issuer;
mod key;
mod key_set;
mod location;
mod metrics;
mod refresh;
mod refusal;
mod tenant;
mod token;
mod verifier;

pub use config::{ConfigFault, IssuerConfig, RefreshSchedule, check};
pub use metrics::KeyMetrics;
pub use refusal::{Refusal, RefusalKind};
pub use tenant::{Dimension, Tenancy, TenancyClaim};
pub use token::{LEEWAY, MAX_TOKEN_BYTES, Unverified, parse};
pub use verifier::{Verified, Verifier};
