//! Listeners as their clients meet them: real sockets, real TLS, hostile peers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]

mod floods;
mod health_and_metrics;
mod http1;
mod https;
mod peer;
mod request_ids;
mod shutdown;
mod slow_clients;
