//! Adapters: they receive events, read resources, act, and report.
//!
//! A task file says what to do (`task`). An execution of it is a state machine without I/O (`engine`). Simulated adapters
//! (`run`, `simulation`) receive and report as real ones do, but change nothing outside; they serve demonstrations and
//! tests of clients.
#![forbid(unsafe_code)]

pub mod config;
pub mod engine;
mod failures;
mod run;
mod simulation;
pub mod targets;
pub mod task;
mod values;

pub use config::{Config, KEYS};
pub use run::{Parts, UnknownKind, run};
