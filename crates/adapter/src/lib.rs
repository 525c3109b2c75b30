//! Simulated adapters: they subscribe to events, read resources and report on them as real ones do, but change nothing
//! outside. They serve demonstrations and tests of clients.
//!
//! Reports are decided without I/O in `simulation`; [`run`] is the part that real adapters have too.
#![forbid(unsafe_code)]

pub mod config;
mod failures;
mod run;
mod simulation;
pub mod targets;

pub use config::{Config, KEYS};
pub use run::{Parts, UnknownKind, run};
pub use simulation::{Rate, Simulation};
