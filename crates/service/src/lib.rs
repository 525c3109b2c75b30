//! What every HyperFleet process shares: settings, logging, listeners with TLS, health, metrics
//! and shutdown. It depends on no role; the API is its first user.
#![forbid(unsafe_code)]

pub mod authorities;
pub mod build_info;
mod fallbacks;
pub mod health;
pub mod http_error;
pub mod listener;
pub mod logging;
pub mod metrics;
pub mod problem;
pub mod request_ids;
pub mod settings;
pub mod shutdown;
pub mod tls;
