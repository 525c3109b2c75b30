//! Adapters: they receive events, read resources, act, and report.
//!
//! A task file says what to do (`task`). An execution of it is a state machine without I/O (`engine`), and `serve` drives
//! it with the real world. Simulated adapters (`run`, `simulation`) receive and report in the same way, but change nothing
//! outside; they serve demonstrations and tests of clients.
#![forbid(unsafe_code)]

pub mod config;
pub mod engine;
mod failures;
mod files;
mod intake;
mod run;
pub mod serve;
mod simulation;
pub mod targets;
pub mod task;
pub mod tools;
mod values;

pub use config::{Config, KEYS};
pub use intake::UnknownKind;
pub use run::{Parts, run};
pub use simulation::{Rate, Simulation};
