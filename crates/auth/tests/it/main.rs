//! Tokens and keys from outside: real signatures, and an issuer that is a real server which can be made to fail.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]

mod attacks;
mod cached;
mod config;
mod cost;
mod dev;
mod fetching;
mod identity;
mod jwks;
mod keys_in_files;
mod metrics;
mod outages;
mod placement;
mod refusals;
mod rules;
mod support;
mod tenants;
