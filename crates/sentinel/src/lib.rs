//! Decides when a resource needs work, and tells the adapters by a small event. It never does the work.
//!
//! The deciding is done without I/O: [`decide`] is the table of cases, [`book`] remembers what is known and owed,
//! [`cycle`] says when to look at everything again, and [`shares`] who looks after what. Around them stands a
//! thin shell that asks the API, publishes, and feeds back what came of it.
#![forbid(unsafe_code)]

pub mod backoff;
pub mod book;
pub mod config;
pub mod custom;
pub mod cycle;
pub mod decide;
pub mod event;
mod keeper;
mod keepers;
mod lease;
mod look;
mod metrics;
pub mod ranges;
mod run;
pub mod seen;
pub mod serve;
pub mod shares;
mod surroundings;

pub use metrics::Metrics;
pub use run::{Parts, run};
pub use surroundings::CHECKS;
