//! What every HyperFleet process shares: settings, logging, listeners with TLS, health, metrics
//! and shutdown. It knows no role; the API is its first user.
#![forbid(unsafe_code)]

pub mod accept;
pub mod authorities;
pub mod build_info;
pub mod descriptors;
pub mod health;
pub mod idempotency_key;
pub mod listener;
pub mod logging;
pub mod metrics;
pub mod problem;
pub mod request_ids;
pub mod settings;
pub mod shutdown;
mod surface;
pub mod tls;
