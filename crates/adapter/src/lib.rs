//! Adapters that only pretend: they hear events, read resources and report on them as real ones do, but touch nothing
//! outside. They show a fleet alive, and let whoever builds on the API try what adapters will do to it.
//!
//! What one would report is decided without I/O in [`simulation`]; [`run`] is the thin shell around it that real
//! adapters have too.
#![forbid(unsafe_code)]

pub mod config;
mod dice;
mod mishap;
mod run;
pub mod simulation;

pub use config::{Config, KEYS};
pub use dice::roll;
pub use run::{Parts, UnknownKind, run};
pub use simulation::{Finding, Past, Rate, Simulation};
