//! The Sentinel from outside: its decisions by name, any history of one resource, and whole fleets with everything
//! around them failing.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test does not expect fails it")]

mod configuration;
mod fixtures;
mod history;
mod membership;
mod simulation;
mod table;
