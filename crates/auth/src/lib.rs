//! Who calls: tokens (JWT) of the configured issuers, checked against keys that are fetched and kept in the background,
//! and the tenant that trusted headers name.
//!
//! [`Verifier`] answers from memory. It never waits for an issuer except once, for a moment, when a token names a key
//! that nobody has seen yet; an issuer that is down takes nothing away. A [`Refusal`] is one of a fixed list of
//! sentences, so that neither a token nor anything internal can reach an answer or a log through it. This crate knows
//! request headers and nothing else of the server that it guards.

#![forbid(unsafe_code)]

mod cache;
mod config;
mod demand;
pub mod dev;
mod fetch;
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

pub use config::{ConfigFault, IssuerConfig, Pace, check};
pub use metrics::KeyMetrics;
pub use refusal::{Refusal, RefusalKind};
pub use tenant::{Belonging, Dimension, Tenancy};
pub use token::{LEEWAY, MAX_TOKEN_BYTES, Unverified, parse};
pub use verifier::{Verified, Verifier};
